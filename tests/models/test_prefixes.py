"""Calls that begin alike: who leads, who waits, what releases those who wait, and what is learned of the server."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from madke.core.chat import Completion
from madke.core.errors import CallError
from madke.models.endpoint import ModelEntry
from madke.models.limiter import Limiter
from madke.models.prefixes import LOCAL_SECONDS, Prefixes
from tests.support.cached_servers import CachedServer
from tests.support.chat_requests import chat_request, purpose
from tests.support.jumping_loop import at_once
from tests.support.pipelines import limited

POOL = "".join(f"Passage {n}: {'word ' * 40}\n" for n in range(24))
"""More than 1,024 tokens."""
BOUND = 60.0


def sibling(who: object, *, question: str = "q", pool: str = POOL, **fields: Any) -> Any:
    text = f"{pool}\nYou are {who}."
    return chat_request(text, about=purpose(question=question, agent=str(who)), **fields)


def gated(server: Any, *, mode: Any = None, concurrency: int = 64) -> tuple[Any, Prefixes, Limiter]:
    if mode is not None:
        server.endpoint = replace(server.endpoint, entry=ModelEntry(prefix=mode))
    prefixes, limiter = Prefixes(server, bound=BOUND), Limiter(concurrency, start=concurrency)
    return limited(server, limiter, prefixes), prefixes, limiter


class Timed:
    """A hosted model with a script: for each agent, seconds to the first token and to the reply, or a failure."""

    name = "timed"

    def __init__(self, script: dict[str, tuple[float, float, str]], *, hosted: bool = True) -> None:
        base = CachedServer(kind="hosted" if hosted else "blocks")
        self.endpoint, self.dialect = base.endpoint, base.dialect
        self.script = script
        self.began: dict[str, float] = {}

    async def complete(self, request: Any) -> Completion:
        who = request.purpose.agent
        self.began.setdefault(who, asyncio.get_running_loop().time())
        token, reply, how = self.script.get(who, (0.0, 1.0, "ok"))
        await asyncio.sleep(token)
        if how == "ok" and request.on_token is not None:
            request.on_token()
        await asyncio.sleep(reply)
        if how != "ok":
            raise CallError(how, retryable=True)
        return Completion(text=f"I am {who}.")


# Leader and followers


def began(model: Timed, *requests: Any) -> dict[str, float]:
    """When each of the calls began, if they are made together."""

    async def all_at_once() -> None:
        gate, _, _ = gated(model, mode="on")
        await asyncio.gather(*map(gate.complete, requests))

    at_once(all_at_once())
    return model.began


def test_siblings_wait_outside_for_the_first_token_of_one_and_then_go_together() -> None:
    model = Timed({"0": (2.0, 10.0, "ok")})

    async def ask() -> list[str]:
        gate, _, limiter = gated(model, mode="on")
        calls = [asyncio.create_task(gate.complete(sibling(n))) for n in range(4)]
        await asyncio.sleep(1.0)
        assert limiter.in_flight == 1
        return [said.text for said in await asyncio.gather(*calls)]

    assert at_once(ask()) == [f"I am {n}." for n in range(4)]
    assert model.began == {"0": 0.0, "1": 2.0, "2": 2.0, "3": 2.0}


@pytest.mark.parametrize(("leader", "released"), [((0.0, 3.0, "HTTP 500"), 3.0), ((500.0, 0.0, "ok"), BOUND)])
def test_a_leader_that_fails_or_says_nothing_for_long_releases_all_at_once(leader: Any, released: float) -> None:
    model = Timed({"0": leader, "1": leader})
    assert began(model, *map(sibling, range(4))) == {"0": 0.0, "1": released, "2": released, "3": released}


def test_calls_that_do_not_begin_alike_do_not_wait() -> None:
    others = sibling(1, question="another"), sibling(2, pool="A short pool."), sibling(3, system="Be long.")
    model = Timed({"0": (10.0, 0.0, "ok")})
    assert set(began(model, sibling(0), *others).values()) == {0.0}


def test_what_was_read_is_waited_for_again_once_it_is_forgotten() -> None:
    model = Timed({"1": (10.0, 0.0, "ok")}, hosted=False)

    async def ask() -> None:
        gate, _, _ = gated(model, mode="on")
        await gate.complete(sibling(0))
        await asyncio.sleep(LOCAL_SECONDS + 1.0)
        await asyncio.gather(gate.complete(sibling(1)), gate.complete(sibling(2)))

    at_once(ask())
    assert model.began["2"] == model.began["1"] + 10.0


# What is learned of the server


def waves(server: CachedServer, count: int, *, size: int = 4, mode: Any = None) -> tuple[list[list[bool]], Prefixes]:
    """Siblings of one question after the other: whether the server knew most of each prompt; and the gate."""

    async def one_by_one() -> tuple[list[list[bool]], Prefixes]:
        model, prefixes, _ = gated(server, mode=mode)
        cached = []
        for n in range(count):
            requests = [sibling(who, question=f"q{n}", pool=f"{n} {POOL}") for who in range(size)]
            usages = [said.usage for said in await asyncio.gather(*map(model.complete, requests))]
            cached.append([usage.cached_tokens > usage.prompt_tokens / 2 for usage in usages])
        return cached, prefixes

    found: tuple[list[list[bool]], Prefixes] = at_once(one_by_one())
    return found


def test_on_a_cache_of_blocks_one_call_reads_the_beginning() -> None:
    server = CachedServer(kind="blocks")
    cached, prefixes = waves(server, 3)
    assert cached == [[False, True, True, True]] * 3
    assert not prefixes.waits_for_reply
    assert server.computed < 1.05 * server.distinct


def test_where_followers_of_a_first_token_miss_the_reply_is_waited_for() -> None:
    cached, prefixes = waves(CachedServer(kind="hosted"), 3, mode="on")
    assert cached == [[False] * 4, [False] * 4, [False, True, True, True]]
    assert prefixes.waits_for_reply


def test_slots_get_one_sibling_at_a_time() -> None:
    server = CachedServer(kind="slots")
    cached, prefixes = waves(server, 3, size=8)
    assert cached == [[False] + [True] * 7] * 3
    assert prefixes.waits_for_reply
    assert server.computed < 1.05 * server.distinct


def test_a_hosted_endpoint_is_asked_as_before_until_it_reports_cached_tokens() -> None:
    async def ask() -> tuple[bool, bool]:
        model, prefixes, _ = gated(CachedServer(kind="hosted"))
        await asyncio.gather(*(model.complete(sibling(n)) for n in range(3)))
        before = prefixes.on
        await model.complete(sibling(3))
        return before, prefixes.on

    assert at_once(ask()) == (False, True)


def test_a_server_that_keeps_nothing_is_soon_asked_as_before_unless_its_entry_says_otherwise() -> None:
    assert not waves(CachedServer(kind="none"), 20)[1].on
    assert waves(CachedServer(kind="none"), 20, mode="on")[1].on
    assert not waves(CachedServer(kind="blocks"), 1, mode="off")[1].on


# Whatever happens

POOLS = [POOL, "other " + POOL, POOL + POOL, "short"]
calls = st.lists(
    st.tuples(
        st.sampled_from("qr"),
        st.sampled_from(range(len(POOLS))),
        st.integers(0, 40),  # when it comes
        st.integers(0, 90),  # its first token
        st.integers(0, 90),  # its reply
        st.sampled_from(["ok", "ok", "ok", "HTTP 500", "no answer in time"]),
        st.none() | st.integers(0, 120),  # when its client goes away
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(calls, st.sampled_from(["on", "auto"]), st.booleans(), st.sampled_from([1, 2, 64]))
def test_any_interleaving_ends_with_the_replies_that_it_has_without_waiting(
    calls: Any, mode: Any, hosted: bool, concurrency: int
) -> None:
    script = {str(n): (float(token), float(reply), how) for n, (_, _, _, token, reply, how, _) in enumerate(calls)}

    async def run(mode: Any) -> list[Any]:
        model = Timed(script, hosted=hosted)
        gate, prefixes, limiter = gated(model, mode=mode, concurrency=concurrency)

        async def one(n: int, call: Any) -> Any:
            question, pool, comes, _, _, _, leaves = call
            await asyncio.sleep(comes)
            task = asyncio.create_task(gate.complete(sibling(n, question=question, pool=POOLS[pool])))
            if leaves is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(leaves):
                        await asyncio.shield(task)
                task.cancel()
                return None  # whether it was done in time depends on others
            said = await task
            return said.text or said.error

        async with asyncio.timeout(100_000.0):
            found = list(await asyncio.gather(*(one(n, call) for n, call in enumerate(calls))))
        for _ in range(5):
            await asyncio.sleep(0)
        assert limiter.in_flight == 0
        assert not prefixes._in_flight
        return found

    assert at_once(run(mode)) == at_once(run("off"))
