"""How long a call may take: silence ends it, a queue does not. Time is simulated."""

import asyncio
from typing import Any

import pytest

from eval.benchmarks.jumping_loop import at_once
from madke.core.errors import UserError
from madke.models.endpoint import ModelEntry
from madke.models.limiter import SilenceLimit, time_limit
from madke.models.openai_client import OpenAIChat

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
            return round(asyncio.get_running_loop().time()), "timed out"
        return round(asyncio.get_running_loop().time()), "done"

    async def all_of_them() -> Any:
        return await asyncio.gather(*(one(number, pauses) for number, pauses in enumerate(calls)))

    return at_once(all_of_them())


@pytest.mark.parametrize(
    ("pauses", "end"),
    [
        ([1], (1, "done")),
        ([199, 1], (200, "done")),  # a late first byte
        ([NEVER], (200, "timed out")),
        ([1, 99, 99, 99, 99, 99], (496, "done")),  # slow, but never silent for long
        ([1, 99, NEVER], (200, "timed out")),
        ([150, NEVER], (250, "timed out")),
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


def test_a_queue_whose_replies_are_not_streamed_is_waited_for_too() -> None:
    whole_replies = [[number * 90.0] for number in range(1, 11)]
    assert [how for _, how in ended(*whole_replies)] == ["done"] * 10


def test_all_that_waits_in_a_queue_has_a_limit_too() -> None:
    assert ended(*queue(30, 60))[-1] == (1200, "timed out")


def test_an_entry_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", "0.2")
    assert time_limit(ModelEntry()) == 0.2
    assert time_limit(ModelEntry(timeout=9)) == 9


@pytest.mark.parametrize("value", ["0", "five", "inf", "nan"])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MADKE_TIMEOUT", value)
    with pytest.raises(UserError, match=f"MADKE_TIMEOUT is '{value}'"):
        OpenAIChat("m", base_url="http://127.0.0.1:9/v1")
