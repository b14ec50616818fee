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


class Waits(list):
    """A sleep that only notes how long."""

    async def __call__(self, seconds: Any) -> None:
        self.append(seconds)


def busy(retry_after: Any = None) -> Any:
    return CallError("HTTP 500: busy", retryable=True, retry_after=retry_after)


def retried(replies: Any, *, random: Any = lambda: 0.0, meter: Any = None, seed: Any = None) -> Any:
    """The completion, the model, and the waits."""
    waits, model = Waits(), ScriptedChat(replies)
    patient = CallPipeline(limits=Limits(9), sleep=waits, draw=random, meter=meter).model(model)
    return asyncio.run(patient.complete(chat_request(seed=seed))), model, waits


@pytest.mark.parametrize(
    ("failures", "draw", "expected"),
    [
        ([None, None, None], 0.0, [1.0, 2.0, 4.0]),  # they grow
        ([7.0, 0.0], 0.0, [7.0, 2.0]),  # a server's Retry-After is honoured, but never shortens them
        ([7.0], 0.5, [7.5]),  # it is spread, so that clients do not return together
    ],
)
def test_retryable_failures_are_tried_again_after_a_wait(failures: Any, draw: float, expected: Any) -> None:
    said, _, waits = retried([*map(busy, failures), "yes"], random=lambda: draw)
    assert (said.text, said.attempts) == ("yes", len(failures) + 1)
    assert waits == expected


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (CallError("HTTP 401: no", retryable=False), 1),
        (CallError("HTTP 500: busy", retryable=True), 6),
        # The provider may charge for what did not come in time.
        (CallError("the server did not answer in time", retryable=True, timed_out=True), 3),
    ],
)
def test_attempts_are_bounded(failure: CallError, attempts: int) -> None:
    said, model, waits = retried([failure] * 9)
    assert (said.outcome, said.error, said.attempts) == ("failed", failure.reason, attempts)
    assert (model.calls, len(waits)) == (attempts, attempts - 1)


@pytest.mark.parametrize("random", [0.0, 0.5, 0.999])
def test_a_rejection_without_a_hint_is_tried_again_for_more_than_a_minute(random: float) -> None:
    rejection = CallError("HTTP 429: slow down", retryable=True, overloaded=True)
    said, _, waits = retried([rejection] * 99, random=lambda: random)
    assert said.outcome == "failed"
    assert 90 < sum(waits) <= 120


def test_a_retry_after_beyond_what_is_left_ends_the_call() -> None:
    said, model, waits = retried([busy(100.0), busy(30.0), "never"])
    assert (said.outcome, said.attempts) == ("failed", 2)
    assert "HTTP 500: busy" in said.error
    assert "30 s" in said.error
    assert (model.calls, waits) == (2, [100.0])


def test_each_retry_is_counted_and_the_call_once() -> None:
    meter = Meter(total=1)
    retried([busy(5.0), nothing(), nothing(text="yes")], meter=meter)
    assert (meter.retries, meter.calls, meter.prompt_tokens) == (2, 1, 20)


def test_a_bug_is_no_failed_call() -> None:
    with pytest.raises(ZeroDivisionError):
        retried([ZeroDivisionError()])


@pytest.mark.parametrize("asked", [121.0, 1e23, float("inf")])
def test_a_server_that_asks_for_more_than_the_limit_is_not_waited_for(asked: Any) -> None:
    said, model, waits = retried([busy(asked), "never"])
    assert said.error == "HTTP 500: busy (the server asks to wait longer than 120 s; a used-up quota?)"
    assert (model.calls, waits) == (1, [])


def nothing(finish_reason: str = "stop", text: str = "", **fields: Any) -> Any:
    used = Usage(prompt_tokens=10, completion_tokens=3)
    outcome: Outcome = "ok" if text else "empty"
    return Completion(text=text, outcome=outcome, finish_reason=finish_reason, usage=used, seconds=1.0, **fields)


def test_a_reply_without_text_is_asked_for_again_at_once_with_another_seed() -> None:
    said, model, waits = retried([nothing(), nothing(), nothing(), nothing(text="yes")], seed=7)
    assert (said.text, said.outcome, said.attempts, waits) == ("yes", "ok", 4, [])
    seeds = [request.seed for request in model.requests]
    assert seeds[0] == 7
    assert len(set(seeds)) == 4
    assert seeds == [request.seed for request in retried([nothing()] * 4, seed=7)[1].requests]
    assert len({(request.messages, request.purpose) for request in model.requests}) == 1


def test_what_was_paid_for_replies_without_text_is_counted() -> None:
    said, _, _ = retried([nothing(), busy(), nothing(text="yes")])
    assert (said.usage, said.seconds) == (Usage(prompt_tokens=20, completion_tokens=6), 2.0)
    failed, _, _ = retried([nothing(), CallError("no", retryable=False)])
    assert (failed.outcome, failed.usage.prompt_tokens, failed.attempts) == ("failed", 10, 2)


def test_after_three_further_attempts_it_fails() -> None:
    said, model, waits = retried([nothing(error="the reply is empty")] * 9)
    assert (said.outcome, said.attempts, model.calls, waits) == ("empty", 4, 4, [])


@pytest.mark.parametrize("finish_reason", ["length", "MAX_TOKENS"])
def test_reasoning_that_was_cut_off_is_not_paid_for_again_and_names_max_tokens(finish_reason: str) -> None:
    said, model, _ = retried([nothing(finish_reason, text="<think>so long")])
    assert (said.outcome, said.text, model.calls) == ("empty", "", 1)
    assert "max_tokens = 64" in said.error


def test_hidden_reasoning_and_nothing_else_is_no_reply() -> None:
    said, model, _ = retried([nothing(text="<think>It may be A.</think> "), "A"])
    assert (said.text, said.attempts, model.calls) == ("A", 2, 2)
