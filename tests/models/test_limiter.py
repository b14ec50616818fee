"""Limits on calls at a time, on calls and tokens a minute, and on the silence of a server. Time is simulated."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.endpoint import ModelEntry
from madke.models.limiter import Limiter, SilenceLimit, time_limit
from madke.models.openai_client import OpenAIChat
from madke.models.pipeline import RetryPolicy
from madke.models.scripted import ScriptedChat
from tests.support.chat_requests import chat_request
from tests.support.jumping_loop import at_once
from tests.support.pipelines import ONCE, limited


def now() -> float:
    return asyncio.get_running_loop().time()


def overloaded(retry_after: float | None = None) -> CallError:
    return CallError("HTTP 429: busy", retryable=True, retry_after=retry_after, overloaded=True)


def slow_reply(failure: CallError | None = None) -> Callable[[Any], Awaitable[str]]:
    """A reply, or this failure, after a second."""

    async def reply(request: Any) -> str:
        await asyncio.sleep(1.0)
        if failure is not None:
            raise failure
        return "yes"

    return reply


def ask(
    times: int, reply: Callable[[Any], Any], concurrency: int, *, retries: RetryPolicy = ONCE, **limits: Any
) -> tuple[list[Completion], Limiter]:
    """The completions of calls that are made together, and their limiter."""

    async def all_at_once() -> tuple[list[Completion], Limiter]:
        limiter = Limiter(concurrency, clock=now, **limits)
        model = limited(ScriptedChat(reply), limiter, retries=retries)
        return await asyncio.gather(*(model.complete(chat_request(str(n))) for n in range(times))), limiter

    result: tuple[list[Completion], Limiter] = at_once(all_at_once())
    return result


def test_a_call_that_waits_for_its_retry_holds_no_slot() -> None:
    asked: list[str] = []

    def reply(request: Any) -> str:
        asked.append(request.messages[-1].content)
        if len(asked) == 1:
            raise CallError("busy", retryable=True)
        return "yes"

    ask(2, reply, 1, retries=RetryPolicy())
    assert asked == ["0", "1", "0"]


def test_calls_a_minute_are_bounded() -> None:
    started: list[float] = []
    ask(181, lambda request: started.append(now()) or "yes", 50, rpm=60)
    assert started[-1] - started[0] == pytest.approx(180, abs=0.01)
    assert max(sum(start <= time < start + 60 for time in started) for start in started) <= 61


def test_tokens_a_minute_are_bounded_by_what_calls_really_used() -> None:
    started: list[float] = []
    reply = Completion(text="yes", usage=Usage(prompt_tokens=900, completion_tokens=100))
    ask(61, lambda request: started.append(now()) or reply, 1, tpm=6000)
    # 60 calls of 1,000 tokens before the last one starts, at 100 tokens a second, the first second's worth ahead.
    assert started[-1] == pytest.approx(600, abs=2)


def test_it_starts_low_and_doubles_with_each_round_of_calls_up_to_the_bound() -> None:
    started: Counter[int] = Counter()

    async def reply(request: Any) -> str:
        started[round(now())] += 1
        return await slow_reply()(request)

    ask(16 + 32 + 64 + 300, reply, 100)
    assert list(started.values()) == [16, 32, 64, 100, 100, 100]


def test_a_server_that_rejects_a_whole_round_halves_the_limit_which_then_grows_by_one_a_round() -> None:
    started: Counter[int] = Counter()

    async def reply(request: Any) -> str:
        started[round(now())] += 1
        return await slow_reply(overloaded() if now() < 1.0 else None)(request)

    _, limiter = ask(64 + 32 + 33, reply, 64, start=64)
    assert started == {0: 64, 1: 32, 2: 33}
    assert (limiter.limit, limiter.rejections, limiter.lowest) == (33, 64, 32)


def test_other_failures_change_nothing() -> None:
    _, limiter = ask(40, slow_reply(CallError("HTTP 500: no", retryable=True)), 100)
    assert (limiter.limit, limiter.rejections) == (16, 0)


@pytest.mark.parametrize(("named", "pause"), [(7.0, 7.0), (365 * 86400.0, 0.0)])
def test_the_second_retry_after_in_a_row_holds_every_call_back_unless_it_is_absurd(named: float, pause: float) -> None:
    began: list[float] = []

    def reply(request: Any) -> str:
        began.append(now())
        if len(began) in (1, 3, 4):
            raise overloaded(retry_after=named)
        return "yes"

    said, _ = ask(6, reply, 1)
    assert [each.outcome for each in said] == ["failed", "ok", "failed", "failed", "ok", "ok"]
    assert began == [0.0] * 4 + [pause] * 2


def test_a_call_that_is_cancelled_just_as_it_gets_room_gives_it_back() -> None:
    limiter, model = Limiter(1), ScriptedChat(slow_reply())

    async def run() -> bool:
        async def one() -> None:
            await limited(model, limiter).complete(chat_request("1"))
            second.cancel()  # it has the slot, and does not know yet

        first = asyncio.create_task(one())
        second = asyncio.create_task(limited(model, limiter).complete(chat_request("2")))
        await asyncio.wait([first, second])
        return second.cancelled()

    assert at_once(run())
    assert (model.calls, limiter.in_flight) == (1, 0)


# Silence ends a call, a queue does not

NEVER = 10**6


def ended(*calls: Any, timeout: float = 100.0) -> Any:
    """When each call ended, and whether the limit ended it. A call is its pauses; after each one a byte comes."""
    limit = SilenceLimit(timeout)

    async def one(number: int, pauses: Any) -> Any:
        await asyncio.sleep(number * 0.001)  # they start one after the other
        try:
            async with limit.call() as alive:
                for pause in pauses:
                    await asyncio.sleep(pause)
                    alive()
        except TimeoutError:
            return round(now()), "timed out"
        return round(now()), "done"

    async def all_of_them() -> Any:
        return await asyncio.gather(*(one(number, pauses) for number, pauses in enumerate(calls)))

    return at_once(all_of_them())


@pytest.mark.parametrize(
    ("pauses", "end"),
    [
        ([199, 1], (200, "done")),  # a late first byte
        ([NEVER], (200, "timed out")),
        ([1, 99, 99, 99, 99, 99], (496, "done")),  # slow, but never silent for long
        ([1, 99, NEVER], (200, "timed out")),
        ([90] * 100, (1200, "timed out")),  # drips without end
    ],
)
def test_silence_ends_a_call_and_its_length_does_not(pauses: Any, end: Any) -> None:
    assert ended(pauses) == [end]


def queue(count: int, seconds: float) -> Any:
    """Calls in a queue with one slot: each waits for those before it, and then gets a byte every 20 seconds."""
    steps = int(seconds // 20)
    return [[number * seconds + 20, *[20] * (steps - 1)] for number in range(count)]


def test_a_server_that_works_through_a_queue_is_waited_for() -> None:
    ends = ended(*queue(16, 60))
    assert ends == [(60 * number, "done") for number in range(1, 17)]


def test_a_lost_call_is_noticed_though_later_ones_are_answered() -> None:
    lost, *others = ended([NEVER], *([50 * number] for number in range(1, 20)))
    assert lost == (200, "timed out")
    assert [how for _, how in others[:3]] == ["done"] * 3


def test_an_entry_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", "0.2")
    assert time_limit(ModelEntry()) == 0.2
    assert time_limit(ModelEntry(timeout=9)) == 9


@pytest.mark.parametrize("value", ["0", "five", "inf", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", value)
    with pytest.raises(UserError, match=f"MADKE_TIMEOUT is '{value}'"):
        OpenAIChat("m", base_url="http://127.0.0.1:9/v1")
