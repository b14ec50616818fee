"""Debates whose models are on the nodes of a real Ray cluster, some of which are killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from madke._util.concurrency import gather
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import to_json
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.chat_models import close, open_model
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.store import CallStore
from madke.runs.meter import Meter
from madke.runs.ray_models import ray_models
from madke.runs.request import RunOptions
from madke.tasks import get_task
from tests.support.dataset import PASSAGES, debating
from tests.support.installed import needs
from tests.support.openai_server import OpenAIServer, Seen, chat, openai_server, without_streaming
from tests.support.ray_nodes import another_node, kill, running_cluster, workers
from tests.support.tiny_model import save_tiny_model

needs("ray", "ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ONE = {"judge": "openai/m"}
CONCURRENCY = 16
VARIANT = load_variant("madke")
ROLES = dict.fromkeys(VARIANT.protocol.roles, "openai/m")
POOL = KnowledgePool(
    passages=tuple(Passage(**dict[str, Any](each), score=1.0, rank=n) for n, each in enumerate(PASSAGES))
)


@contextmanager
def on_nodes(names: Any, *, address: str, **options: Any) -> Iterator[Any]:
    with patch.dict(os.environ, RAY_ADDRESS=address), ray_models(names, RunOptions(engine="ray", **options)) as models:
        yield models


@pytest.fixture(scope="module")
def home() -> Iterator[OpenAIServer]:
    """The endpoint in the environment of the head node."""
    with openai_server(chat("From home.")) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(home: OpenAIServer) -> Iterator[Any]:
    with running_cluster(OPENAI_API_KEY="steady", OPENAI_BASE_URL=home.url) as cluster:
        yield cluster


@pytest.fixture
def doomed(cluster: Any) -> Iterator[Any]:
    """Another node, which calls under a key of its own and may be killed."""
    with another_node(cluster, env_vars={"OPENAI_API_KEY": "doomed"}) as node:
        yield node


def debated(models: Mapping[str, ChatModel], store_file: Path, count: int, meter: Meter) -> dict[str, Any]:
    """The transcripts of so many questions, by id, without what no two runs have in common."""

    async def play() -> list[bytes]:
        try:
            return await gather(_play(n) for n in range(count))
        finally:
            for model in set(models.values()):
                await close(model)

    async def _play(n: int) -> bytes:
        question = Question(id=f"q{n}", question=f"Which lake is the deepest, in survey {n}?")
        task = get_task(question.task)
        return to_json(
            await hold_debate(Scene(question, VARIANT.protocol, cast, POOL, task=task, prompts=VARIANT, seed=0))
        )

    with CallStore(store_file) as store:
        pipeline = CallPipeline(limits=Limits(CONCURRENCY), store=store, meter=meter)
        cast = {role: pipeline.model(model) for role, model in models.items()}
        transcripts = [json.loads(line) for line in asyncio.run(play())]
    for transcript in transcripts:
        for usage in transcript["usage"].values():
            del usage["seconds"], usage["retries"]
    return {transcript["id"]: transcript for transcript in transcripts}


def request(text: str = "?", question: str = "q") -> ChatRequest:
    purpose = Purpose(question=question, stage="judge", agent="judge", round=1)
    return ChatRequest(messages=(Message(role="user", content=text),), purpose=purpose, temperature=0.5, max_tokens=9)


def node_of(seen: Seen) -> str:
    return seen.headers["authorization"].removeprefix("Bearer ")


def local(url: str, folder: Path, count: int) -> tuple[dict[str, Any], int]:
    """What the local engine makes of the questions, and with how many calls."""
    meter = Meter(total=count)
    transcripts = debated(dict.fromkeys(ROLES, open_model("openai/m", base_url=url)), folder / "local", count, meter)
    return transcripts, meter.calls


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.02)


def test_transcripts_are_those_of_the_local_engine_and_both_nodes_are_asked(
    cluster: Any, doomed: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    meter = Meter(total=30)
    with openai_server(debating) as server:
        expected, calls = local(server.url, tmp_path, 30)
        server.requests.clear()
        capfd.readouterr()

        with on_nodes(ROLES, base_url=server.url, address=cluster.address, concurrency=CONCURRENCY) as models:
            assert len(set(models.values())) == 1, "one model for all roles of a name"
            transcripts = debated(models, tmp_path / "calls", 30, meter)

    assert transcripts == expected
    assert (meter.calls, len(server.requests), meter.failed_calls) == (calls, calls, 0)
    asked = Counter(map(node_of, server.requests))
    assert min(asked["steady"], asked["doomed"]) > calls / 8
    nodes = defaultdict(set)
    for seen in server.requests:
        surveys = set(re.findall(r"survey (\d+)", str(seen.body["messages"])))
        nodes[surveys.pop()].add(node_of(seen))
        assert not surveys
    assert len(nodes) == 30
    assert {len(each) for each in nodes.values()} == {1}, "a question stays with one server's prefix cache"
    assert capfd.readouterr().out == ""


def test_a_killed_node_loses_the_calls_in_flight_and_nothing_else(
    cluster: Any, doomed: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held: list[str] = []
    go_on = threading.Event()
    meter = Meter(total=30)

    def reply(body: dict[str, Any], n: int) -> Any:
        if n > 60 and node_of(server.requests[n - 1]) == "doomed":
            held.append(without_streaming(body))
            go_on.wait()
        return debating(body)

    def kill_when_only_its_calls_are_left() -> None:
        until(lambda: bool(held) and meter.calls + len(held) == len(server.requests))
        kill(cluster, doomed)

    with openai_server(debating) as calm:
        expected, calls = local(calm.url, tmp_path, 30)
    with openai_server(reply) as server:
        with on_nodes(ROLES, base_url=server.url, address=cluster.address, concurrency=CONCURRENCY) as models:
            killer = threading.Thread(target=kill_when_only_its_calls_are_left)
            killer.start()
            try:
                transcripts = debated(models, tmp_path / "calls", 30, meter)
            finally:
                go_on.set()
                killer.join()

        asked = Counter(without_streaming(seen.body) for seen in server.requests)
    assert transcripts == expected
    assert {body for body, times in asked.items() if times > 1} == set(held)
    assert (len(server.requests), meter.calls, meter.failed_calls) == (calls + len(held), calls, 0)
    assert "the Ray worker on node" in caplog.text


def test_a_call_that_is_lost_twice_fails_and_the_run_goes_on(cluster: Any, doomed: Any) -> None:
    def reply(body: dict[str, Any], n: int) -> Any:
        if n <= 2:
            key = node_of(server.requests[n - 1])
            next(each for each in workers() if each.environ()["OPENAI_API_KEY"] == key).kill()
            server.stopping.wait()
        return chat("Fine.")

    async def calls() -> Any:
        return await models["judge"].complete(request("deadly")), await models["judge"].complete(request("harmless"))

    with (
        another_node(cluster, env_vars={"OPENAI_API_KEY": "third"}),
        openai_server(reply) as server,
        on_nodes(ONE, base_url=server.url, address=cluster.address, concurrency=2) as models,
    ):
        deadly, harmless = asyncio.run(calls())

    assert (deadly.outcome, deadly.attempts) == ("failed", 2)
    assert "2 Ray workers ended during this call" in deadly.error
    assert (harmless.text, len(server.requests)) == ("Fine.", 3)


def test_without_a_node_the_run_ends_with_one_line() -> None:
    killer: list[threading.Thread] = []

    def reply(body: dict[str, Any], n: int) -> Any:
        killer.append(threading.Thread(target=kill, args=(cluster, doomed)))
        killer[-1].start()
        server.stopping.wait()
        return chat()

    with (
        running_cluster(cpus=0) as cluster,
        another_node(cluster) as doomed,
        openai_server(reply) as server,
        on_nodes(ONE, base_url=server.url, address=cluster.address, concurrency=2) as models,
    ):
        with pytest.raises(UserError, match=r"no worker is left.*run the same command again"):
            asyncio.run(models["judge"].complete(request()))
        killer[0].join()
    assert len(killer) == 1


@pytest.mark.parametrize(("name", "said"), [("openia/m", "did you mean 'openai'"), ("human", "at this terminal")])
def test_what_cannot_be_on_a_node_is_refused_before_a_cluster_is_looked_for(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said), on_nodes({"judge": name}, address="nowhere", concurrency=2):
        pass


def test_local_models_get_a_worker_for_each_gpu(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra madke[dense]")
    save_tiny_model(tmp_path)

    async def calls() -> list[Completion]:
        return await asyncio.gather(*(models["judge"].complete(request(question=str(n))) for n in range(4)))

    # Ray believes in these GPUs; the models find none, and take the CPU.
    with (
        another_node(cluster, num_gpus=2),
        on_nodes({"judge": f"hf/{tmp_path}"}, address=cluster.address, concurrency=4) as models,
    ):
        assert len(workers()) == 2
        assert [each.outcome for each in asyncio.run(calls())] == ["ok"] * 4
        assert models["judge"].name == f"hf/{tmp_path}"
