"""The service tier ``flex``: what is sent, what a tier without resources costs, and what is billed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import UserError
from madke.models.chat_models import close
from madke.models.endpoint import Endpoint, ModelEntry, read_models
from madke.models.limiter import Limits
from madke.models.openai_client import OpenAIChat
from madke.models.pipeline import CallPipeline, RetryPolicy
from madke.models.prices import Price, cost, price_of
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from madke.scoring.scored import score_run
from tests.support.chat_requests import chat_request
from tests.support.cli import madke
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import OpenAIServer, Reply, chat, error, openai_server
from tests.support.pipelines import retried

PRICE = Price(prompt=1000, cached=100, completion=4000, flex={"prompt": 500, "cached": 80, "completion": 2000})
FULL = error(429, "Flex has no capacity for this request.", code="resource_unavailable")


def model_at(url: str, **entry: Any) -> OpenAIChat:
    entry = {"tier": "flex", **entry}
    return OpenAIChat("m", name="cheap", endpoint=Endpoint(address=url, limited_as=url, entry=ModelEntry(**entry)))


def asked(model: Any, count: int, inner: OpenAIChat) -> list[Completion]:
    async def all_of_them() -> list[Completion]:
        try:
            return await asyncio.gather(*(model.complete(chat_request(f"{n}")) for n in range(count)))
        finally:
            await close(inner)

    return asyncio.run(all_of_them())


def test_a_tier_is_named_in_each_request_and_a_fifth_without_resources_costs_no_call_and_no_concurrency() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    with openai_server(lambda body, n: FULL if n % 5 == 0 else chat()) as server:
        model = model_at(server.url)
        limits = Limits(64)
        replies = asked(CallPipeline(limits=limits, sleep=sleep).model(model), 200, model)
    assert [reply.outcome for reply in replies] == ["ok"] * 200
    assert {reply.tier for reply in replies} == {"flex"}
    assert {seen.body["service_tier"] for seen in server.requests} == {"flex"}
    assert len(server.requests) == 200 + len(waits)
    assert len(waits) >= 40
    state = limits.state()
    assert (state.rejections, state.paused_seconds) == (0, 0.0)
    assert state.lowest == 16  # the limit that it began with
    assert state.limit > 16


def test_a_tier_is_waited_for_longer_than_an_error_and_not_without_end() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with openai_server(FULL) as server:
        model = model_at(server.url)
        policy = RetryPolicy(attempts=2, tier_wait=100.0, first_wait=10.0)
        (reply,) = asked(retried(model, retries=policy, sleep=sleep, draw=lambda: 0.0), 1, model)
    assert reply.outcome == "failed"
    assert "exceeds the limit" in reply.error
    assert waits == [10.0, 20.0, 30.0, 30.0]


def test_a_call_falls_back_at_once_if_asked() -> None:
    def reply(body: dict[str, Any], n: int) -> Reply:
        return FULL if "service_tier" in body else chat()

    with openai_server(reply) as server:
        model = model_at(server.url, fall_back=True)
        (said,) = asked(model, 1, model)
    assert (said.outcome, said.tier) == ("ok", "")
    assert [seen.body.get("service_tier") for seen in server.requests] == ["flex", None]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("stated", "billed"), [("flex", "flex"), ("default", ""), (None, "flex")])
def test_the_tier_that_the_server_names_is_the_billed_one(stated: str | None, billed: str, streamed: bool) -> None:
    def reply(body: dict[str, Any], n: int) -> Reply:
        status, headers, whole = chat()
        whole = {**whole, **({"service_tier": stated} if stated else {})}
        if not streamed:
            return status, headers, whole
        choice = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}
        return 200, {"Content-Type": "text/event-stream"}, f"data: {json.dumps({**whole, 'choices': [choice]})}\n\n"

    with openai_server(reply) as server:
        model = model_at(server.url, dialect={"stream": streamed})
        (said,) = asked(model, 1, model)
    assert (said.text, said.tier) == ("Hello.", billed)


def test_the_entry_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("cheap: {tier: cheapest}\n")
    with pytest.raises(UserError, match="cheap: tier"):
        read_models(file)
    file.write_text("cheap: {fall_back: true}\n")
    with pytest.raises(UserError, match="fall_back needs a tier"):
        read_models(file)


def provider(billed: list[tuple[str, Usage]], is_full: Callable[[int], bool]) -> Any:
    """A provider that has no resources for some of the flex requests, and keeps its own account."""

    def reply(body: dict[str, Any], n: int) -> Reply:
        tier = body.get("service_tier", "")
        if tier and is_full(n):
            return FULL
        status, headers, whole = debating(body, n)
        usage = {"prompt_tokens": 100 + n, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 50}}
        billed.append((tier, Usage(prompt_tokens=100 + n, cached_tokens=50, completion_tokens=7)))
        return status, headers, {**whole, "usage": usage, "service_tier": tier or "default"}

    return reply


def run_at_flex(folder: Path, server: OpenAIServer, *more: Any, fall_back: bool = True, status: int = 0) -> Any:
    questions, pools = write_dataset(folder, 4)
    falls = "fall_back: true, " if fall_back else ""
    models = folder / "models.yaml"
    price = PRICE.model_dump_json(exclude_unset=True)
    models.write_text(f"cheap: {{base_url: {server.url}, model: m, tier: flex, {falls}price: {price}}}\n")
    done = madke(
        *("run", questions, "--pools", pools, "--model", "cheap", "--out", folder / "out"),
        *more,
        MADKE_MODELS=str(models),
    )
    assert done.returncode == status, done.stderr
    return done


def test_a_run_at_a_tier_that_falls_back_loses_nothing_and_its_price_is_exact(tmp_path: Path) -> None:
    billed: list[tuple[str, Usage]] = []
    with openai_server(provider(billed, lambda n: n % 5 == 0)) as server:
        run_at_flex(tmp_path, server)
    prices = {"cheap": PRICE}
    on_the_wire = sum(cost(usage, price_of(f"cheap#{tier}" if tier else "cheap", prices)) for tier, usage in billed)
    tiers = [tier for tier, _ in billed]
    assert tiers.count("")
    assert tiers.count("flex")
    (session,) = json.loads((tmp_path / "out" / "run.json").read_text())["sessions"]
    assert session["cost"] == pytest.approx(on_the_wire, rel=1e-12)
    assert (session["failed_calls"], session["calls"]) == (0, len(billed))
    assert session["concurrency"]["rejections"] == 0
    assert len(list(read_transcripts(tmp_path / "out"))) == 4
    spending = score_run(tmp_path / "out", prices=prices).spending
    assert sum(spending.cost.values()) == pytest.approx(on_the_wire, rel=1e-12)
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        paid = {name: bill.calls for (_, name), bill in store.paid().items()}
        assert {call.model for call in store.recorded()} == {"cheap"}
    assert paid == {"cheap": tiers.count(""), "cheap#flex": tiers.count("flex")}
