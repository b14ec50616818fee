"""What ``madke.debate`` does beyond the published package, and how it treats those who call it."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import madke
from madke.adapters import Reply
from madke.core.chat import Usage
from madke.lemmas import DebateResult
from tests.lemmas.script import Script, run


def test_functions_are_called_one_after_another_in_the_callers_thread_and_context() -> None:
    place = contextvars.ContextVar("place", default="elsewhere")
    place.set("here")
    seen = []

    def complete(messages: list[dict[str, str]]) -> str:
        seen.append((threading.current_thread(), place.get(), asyncio.run(asyncio.sleep(0, "a loop of its own"))))
        return "x"

    madke.debate("Why?", complete, rounds=1)
    assert seen == [(threading.current_thread(), "here", "a loop of its own")] * 6


def test_it_works_where_a_loop_runs_already() -> None:
    async def in_a_notebook() -> DebateResult:
        return madke.debate("Why?", Script(["x", "y", "y"]).role("only"), rounds=0)

    assert asyncio.run(in_a_notebook()).final == "y"


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), StopIteration("no more"), ValueError("gone")])
@pytest.mark.parametrize("at", [1, 2, 5, 7])
def test_what_a_function_raises_comes_out_unchanged_and_ends_the_debate(raised: Any, at: int) -> None:
    script = Script(["x"] * (at - 1) + [raised])
    with pytest.raises(type(raised)) as caught:
        madke.debate("Why?", [(x, script.role(x)) for x in "ABC"], rounds=1, judge=script.role("judge"))
    assert caught.value is raised
    assert len(script.calls) == at
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("madke-debate")]


def test_an_asynchronous_function_is_sent_to_adebate() -> None:
    async def complete(messages: Any) -> Any:
        return "x"

    with pytest.raises(TypeError, match=r"madke\.adebate"):
        madke.debate("Why?", complete)  # type: ignore[arg-type]


# --- what the result tells ---------------------------------------------------------------------------------------


def test_usage_is_the_providers_own_where_a_reply_carries_it() -> None:
    counted = Usage(prompt_tokens=100, cached_tokens=60, completion_tokens=10)
    script = Script([Reply("x", counted), Reply("y", counted), "z" * 8, "AGENT_A: yes"])
    found = madke.debate("Why?", script.role("only"), rounds=0, judge=script.role("judge"))
    speak, pick = found.usage["speak"], found.usage["pick"]
    assert (speak.calls, speak.estimated, speak.cached_tokens, speak.completion_tokens) == (3, 1, 120, 22)
    assert speak.prompt_tokens > 200
    assert (pick.calls, pick.estimated) == (1, 1)


def test_hidden_reasoning_stays_in_the_draft_and_is_not_shown_to_others() -> None:
    outcome, script = run(madke.debate, ["<think>secret</think>Oslo", "Rome"], "AB", judged=True, rounds=1)
    assert outcome.result[2][0][1][0] == ("A", "<think>secret</think>Oslo")
    assert not any("secret" in prompt for prompt in script.prompts)
    assert "Oslo" in script.prompts[3]


def test_texts_are_never_templates() -> None:
    hostile = "{{ 7 * 7 }} {% block user %} {query}"
    script = Script([hostile] * 7)
    found = madke.debate(hostile, script.role("only"), personas=[hostile] * 3, rounds=1, judge=script.role("judge"))
    assert found.final == hostile
    assert script.prompts[3].count(hostile) == 4


# --- adebate -----------------------------------------------------------------------------------------------------


def test_adebate_is_debate_with_the_drafts_of_a_round_at_the_same_time() -> None:
    together = asyncio.Barrier(3)

    def agent(label: str, gather: bool) -> Callable[..., Any]:
        drafts = iter([f"{label} says Oslo", f"{label} says Oslo or Rome", f"{label} Oslo"])

        def now(messages: list[dict[str, str]]) -> str:
            return next(drafts)

        async def later(messages: list[dict[str, str]]) -> str:
            await together.wait()  # nobody goes on before all three are here
            return next(drafts)

        return later if gather else now

    async def ask() -> DebateResult:
        async with asyncio.timeout(20):
            return await madke.adebate("Why?", [(x, agent(x, True)) for x in "ABC"])

    expected = madke.debate("Why?", [(x, agent(x, False)) for x in "ABC"])
    found = asyncio.run(ask())
    assert (found.final, found.winner_label, found.rounds) == (expected.final, expected.winner_label, expected.rounds)


def test_adebate_takes_plain_functions_and_an_asynchronous_judge() -> None:
    async def judge(messages: list[dict[str, str]]) -> str:
        return "AGENT_B: yes"

    found = asyncio.run(madke.adebate("Why?", lambda messages: " x ", rounds=0, judge=judge))
    assert (found.final, found.winner_label, found.judgment) == ("x", "AGENT_B", "AGENT_B: yes")


def test_an_exception_comes_out_of_adebate_alone() -> None:
    async def fails(messages: list[dict[str, str]]) -> NoReturn:
        raise ConnectionError("gone")

    async def waits(messages: list[dict[str, str]]) -> None:
        await asyncio.Event().wait()

    async def ask() -> None:
        async with asyncio.timeout(20):
            await madke.adebate("Why?", [("A", waits), ("B", fails)])

    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(ask())


def test_adebate_refuses_bad_arguments_when_it_is_awaited() -> None:
    with pytest.raises(ValueError, match="at least one agent"):
        asyncio.run(madke.adebate("Why?", []))
