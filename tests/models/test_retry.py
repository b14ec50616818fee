"""Which attempts follow a failed or empty one, how long they wait, and what is counted."""

import asyncio
from typing import Any

import pytest

from madke.core.chat import Completion, Outcome, Usage
from madke.core.errors import CallError
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.scripted import ScriptedChat
from madke.runs.meter import Meter
from tests.support.chat_requests import chat_request


def retried(
    replies: Any, *, draw: float = 0.0, meter: Any = None, seed: int | None = None
) -> tuple[Completion, ScriptedChat, list[float]]:
    """The completion, the model, and the waits."""
    waits: list[float] = []
    model = ScriptedChat(replies)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    patient = CallPipeline(limits=Limits(9), sleep=sleep, draw=lambda: draw, meter=meter).model(model)
    return asyncio.run(patient.complete(chat_request(seed=seed))), model, waits


def busy(retry_after: float | None = None) -> CallError:
    return CallError("HTTP 500: busy", retryable=True, retry_after=retry_after)


def nothing(finish_reason: str = "stop", text: str = "", **fields: Any) -> Completion:
    used = Usage(prompt_tokens=10, completion_tokens=3)
    outcome: Outcome = "ok" if text else "empty"
    return Completion(text=text, outcome=outcome, finish_reason=finish_reason, usage=used, seconds=1.0, **fields)


@pytest.mark.parametrize(
    ("failures", "draw", "expected"),
    [
        ([None, None, None], 0.0, [1.0, 2.0, 4.0]),  # they grow
        ([7.0, 0.0], 0.0, [7.0, 2.0]),  # a server's Retry-After is honoured, but never shortens them
        ([7.0], 0.5, [7.5]),  # it is spread, so that clients do not return together
    ],
)
def test_retryable_failures_are_tried_again_after_a_wait(failures: Any, draw: float, expected: Any) -> None:
    said, _, waits = retried([*map(busy, failures), "yes"], draw=draw)
    assert (said.text, said.attempts) == ("yes", len(failures) + 1)
    assert waits == expected


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (CallError("HTTP 500: busy", retryable=True), 6),
        # The provider may charge for what did not come in time.
        (CallError("the server did not answer in time", retryable=True, timed_out=True), 3),
    ],
)
def test_attempts_are_bounded(failure: CallError, attempts: int) -> None:
    said, model, waits = retried([failure] * 9)
    assert (said.outcome, said.error, said.attempts) == ("failed", failure.reason, attempts)
    assert (model.calls, len(waits)) == (attempts, attempts - 1)


@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_a_rejection_without_a_hint_is_tried_again_for_more_than_a_minute(draw: float) -> None:
    rejection = CallError("HTTP 429: slow down", retryable=True, overloaded=True)
    said, _, waits = retried([rejection] * 99, draw=draw)
    assert said.outcome == "failed"
    assert 90 < sum(waits) <= 120


def test_a_retry_after_beyond_what_is_left_ends_the_call() -> None:
    said, model, waits = retried([busy(100.0), busy(30.0), "never"])
    assert (said.outcome, said.attempts) == ("failed", 2)
    assert "HTTP 500: busy" in str(said.error)
    assert "30 s" in str(said.error)
    assert (model.calls, waits) == (2, [100.0])


def test_a_reply_without_text_is_asked_for_again_at_once_with_another_seed() -> None:
    said, model, waits = retried([nothing(), nothing(), nothing(), nothing(text="yes")], seed=7)
    assert (said.text, said.outcome, said.attempts, waits) == ("yes", "ok", 4, [])
    seeds = [request.seed for request in model.requests]
    assert seeds[0] == 7
    assert len(set(seeds)) == 4
    assert seeds == [request.seed for request in retried([nothing()] * 4, seed=7)[1].requests]
    assert len({(request.messages, request.purpose) for request in model.requests}) == 1


def test_after_three_further_attempts_it_fails() -> None:
    said, model, waits = retried([nothing(error="the reply is empty")] * 9)
    assert (said.outcome, said.attempts, model.calls, waits) == ("empty", 4, 4, [])


def test_what_every_attempt_cost_is_counted_and_the_call_once() -> None:
    meter = Meter(total=1)
    said, _, _ = retried([nothing(), busy(), nothing(text="yes")], meter=meter)
    assert (said.usage, said.seconds) == (Usage(prompt_tokens=20, completion_tokens=6), 2.0)
    assert (meter.retries, meter.calls, meter.prompt_tokens) == (2, 1, 20)
    failed, _, _ = retried([nothing(), CallError("no", retryable=False)])
    assert (failed.outcome, failed.usage.prompt_tokens, failed.attempts) == ("failed", 10, 2)


def test_a_bug_is_no_failed_call() -> None:
    with pytest.raises(ZeroDivisionError):
        retried([ZeroDivisionError()])
