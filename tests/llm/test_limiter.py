import asyncio

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import CallError
from madke.llm import Limited, Limiter, Retrying, ScriptedChat
from tests.support.chat_requests import chat_request


class Clock:
    """Time that moves when somebody sleeps."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


class Counting:
    """A model that notes how many calls are in it at once."""

    name = "counting"

    def __init__(self):
        self.inside = self.most = 0

    async def complete(self, request):
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(3):
            await asyncio.sleep(0)
        self.inside -= 1
        return Completion(text="yes")


def ask(model, times):
    async def all_at_once():
        return await asyncio.gather(*(model.complete(chat_request(str(i))) for i in range(times)))

    return asyncio.run(all_at_once())


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_more_calls_than_allowed_are_in_flight(concurrency):
    model = Counting()
    assert len(ask(Limited(model, Limiter(concurrency)), 20)) == 20
    assert model.most == concurrency


def test_two_models_share_one_bound():
    model, limiter = Counting(), Limiter(3)
    models = [Limited(model, limiter), Limited(model, limiter)]

    async def both():
        await asyncio.gather(*(models[i % 2].complete(chat_request(str(i))) for i in range(12)))

    asyncio.run(both())
    assert model.most == 3


def test_a_failed_or_cancelled_call_gives_its_slot_back():
    limiter = Limiter(1)

    async def run():
        with pytest.raises(CallError):
            await Limited(ScriptedChat([CallError("no", retryable=True)]), limiter).complete(chat_request())
        hanging = asyncio.create_task(
            Limited(ScriptedChat(lambda request: asyncio.Event().wait()), limiter).complete(chat_request())
        )
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return await Limited(ScriptedChat(["yes"]), limiter).complete(chat_request())

    assert asyncio.run(run()).text == "yes"


def test_a_call_that_waits_for_its_retry_holds_no_slot():
    limiter = Limiter(1)
    order = []

    async def run():
        async def sleep(seconds):
            order.append((await Limited(ScriptedChat(["other"]), limiter).complete(chat_request())).text)

        limited = Limited(ScriptedChat([CallError("busy", retryable=True), "first"]), limiter)
        order.append((await Retrying(limited, sleep=sleep).complete(chat_request())).text)

    asyncio.run(run())
    assert order == ["other", "first"]


def test_calls_a_minute_are_bounded():
    clock, started = Clock(), []
    limiter = Limiter(50, rpm=60, clock=clock, sleep=clock.sleep)
    ask(Limited(ScriptedChat(lambda request: started.append(clock()) or "yes"), limiter), 181)
    assert started[-1] - started[0] == pytest.approx(180, abs=0.01)
    assert max(sum(s <= t < s + 60 for t in started) for s in started) <= 61


def test_tokens_a_minute_are_bounded_by_what_calls_really_used():
    clock = Clock()
    limiter = Limiter(1, tpm=6000, clock=clock, sleep=clock.sleep)
    used = Usage(prompt_tokens=900, completion_tokens=100)
    ask(Limited(ScriptedChat(lambda request: Completion(text="yes", usage=used)), limiter), 61)
    # 60 calls of 1,000 tokens before the last one starts, at 100 tokens a second, the first second's worth ahead.
    assert clock() - 1000 == pytest.approx(600, abs=2)


def test_without_rates_nobody_sleeps():
    async def never(seconds):
        raise AssertionError

    assert len(ask(Limited(ScriptedChat(["yes"] * 9), Limiter(2, sleep=never)), 9)) == 9
