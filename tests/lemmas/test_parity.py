"""``madke.debate`` beside the published package on the same scripted completions: equal results, calls, errors."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import madke
from madke.lemmas import DebateResult, DebateRound
from tests.lemmas.script import parameters, run

lemmas = pytest.importorskip("lemmas")


def both(
    replies: list[Any] | tuple[Any, ...] = (),
    labels: list[str] | str | tuple[str, ...] | None = ("A", "B", "C"),
    *,
    judged: bool = False,
    **arguments: Any,
) -> Any:
    """Our outcome, found equal to theirs."""
    ours, _ = run(madke.debate, replies, labels, judged=judged, **arguments)
    theirs, _ = run(lemmas.debate, replies, labels, judged=judged, **arguments)
    assert ours == theirs
    return ours


words = st.lists(st.sampled_from(["oslo", "Oslo", "rome", "is", "the", "capital", "<think>", "no</think>"]), max_size=5)
drafts = st.one_of(words.map(" ".join), words.map(" \n".join), st.text(max_size=12), st.none(), st.just("  "))
labels = st.lists(
    st.one_of(st.sampled_from(["A", "AB", "a", "AGENT_1", "AGENT_10", "judge", ""]), st.text(max_size=3)),
    min_size=1,
    max_size=4,
)
verdicts = st.one_of(
    st.tuples(labels, st.sampled_from([": sound", " is best", "", " over AGENT_10"])).map(lambda v: v[0][-1] + v[1]),
    drafts,
)


@given(
    labels=st.none() | labels,
    said=st.lists(drafts, max_size=16),
    verdict=verdicts,
    judged=st.booleans(),
    rounds=st.integers(-1, 3),
    personas=st.none() | st.lists(st.text(max_size=5), max_size=4),
    single=st.integers(-1, 7),
)
@example(["AGENT_1", "AGENT_10"], ["x", "y"], "AGENT_10 is best", True, 0, None, 3)
@example(["A", "A"], ["x y", "z"], "", False, 1, None, 3)
@example(["A", "B", "C"], [None, "x", "y"], "", False, 0, None, 3)
def test_any_script_gives_equal_outcomes(
    labels: list[str] | None,
    said: list[Any],
    verdict: str | None,
    judged: bool,
    rounds: int,
    personas: list[str] | None,
    single: int,
) -> None:
    n = (single if labels is None else len(labels)) * (max(0, rounds) + 1)
    replies = [*(said + [f"draft {i % 3} of it" for i in range(n)])[: max(0, n)], verdict]
    both(replies, labels, judged=judged, rounds=rounds, personas=personas, n_agents_if_single=single)


@given(st.data())
def test_the_first_exception_comes_out_and_nobody_is_asked_after_it(data: Any) -> None:
    agents, rounds = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    calls = agents * (rounds + 1) + 1
    at = data.draw(st.integers(1, calls))
    replies = [*["x"] * (at - 1), data.draw(st.sampled_from([KeyError("gone"), ValueError("a"), 5, ["x"]]))]
    outcome = both(replies, "ABCD"[:agents], judged=True, rounds=rounds)
    assert len(outcome.asked) == at
    assert issubclass(outcome.result[0], Exception)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("judged", [False, True])
def test_calls_are_k_times_rounds_plus_one_and_one_for_the_judge(rounds: int, judged: bool) -> None:
    outcome = both(labels=("A", "B", "C"), judged=judged, rounds=rounds)
    assert outcome.asked == ["0 A", "1 B", "2 C"] * (rounds + 1) + ["judge"] * judged


def test_a_single_function_is_three_agents_over_two_rounds_by_default() -> None:
    outcome = both(labels=None)
    assert len(outcome.asked) == 9
    assert [label for label, _ in outcome.result[2][0][1]] == ["AGENT_A", "AGENT_B", "AGENT_C"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"labels": ()}, "at least one agent"),
        ({"labels": None, "n_agents_if_single": 0}, "at least one agent"),
        ({"personas": ["only one"]}, "personas"),
        ({"personas": []}, "personas"),
    ],
)
def test_bad_arguments_are_the_same_errors_before_any_call(arguments: dict[str, Any], said: str) -> None:
    outcome = both(**arguments)
    kind, message = outcome.result
    assert kind is ValueError
    assert said in message
    assert outcome.asked == []


def test_agents_must_be_callable() -> None:
    for debate in (madke.debate, lemmas.debate):
        with pytest.raises(TypeError, match="not callable"):
            debate("Why?", [("A", "no function")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("verdict", "winner"),
    [
        ("B: clearer", "B"),
        ("b: clearer", "B"),
        ("The winner is C.", "C"),
        ("C: beats B", "C"),
        ("none of them", "A"),
        ("", "A"),
        (None, "A"),
        ("Because it is best", "A"),  # a substring is enough: the "a" of "Because"
    ],
)
def test_how_the_judges_words_are_read(verdict: str | None, winner: str) -> None:
    outcome = both(["x", "y", "z", verdict], judged=True, rounds=0)
    assert outcome.result[1] == winner


def test_a_label_that_begins_with_another_loses_to_it() -> None:
    outcome = both(["x", "y", "I prefer AGENT_10"], ("AGENT_1", "AGENT_10"), judged=True, rounds=0)
    assert outcome.result[1] == "AGENT_1"


@pytest.mark.parametrize(
    ("drafts", "winner"),
    [
        (["d e", "e f", "c b d", "e b"], "D"),  # A's overlaps are the same three numbers, added in another order
        (["STRASSE x", "straße y", "straße z x"], "C"),  # lower case, not folded case
        (["x y", "y x", "x y"], "A"),
        (["x", "y y y z", "z y"], "B"),
    ],
)
def test_convergence_is_the_packages_to_the_last_bit(drafts: list[str], winner: str) -> None:
    outcome = both(drafts, "ABCD"[: len(drafts)], rounds=0)
    assert outcome.result[1] == winner


def test_one_agent_alone_wins_and_is_judged_all_the_same() -> None:
    assert both(["x"], ("A",), rounds=0).asked == ["0 A"]
    assert both(["x", "B: no"], ("A",), rounds=0, judged=True).asked == ["0 A", "judge"]


@pytest.mark.parametrize("replies", [["", "", ""], [None, " ", ""], ["", "x", "y"], ["x", "", "y"], ["", "", "z"]])
@pytest.mark.parametrize("judged", [False, True])
@pytest.mark.parametrize("rounds", [0, 2])
def test_empty_drafts_stay_in_the_debate(replies: list[Any], judged: bool, rounds: int) -> None:
    outcome = both([*replies * (rounds + 1), "C: yes"], rounds=rounds, judged=judged)
    assert len(outcome.asked) == 3 * (rounds + 1) + judged


def test_two_agents_of_one_label_leave_the_second_ones_draft() -> None:
    outcome = both(["x", "y", "z"], ("A", "A", "B"), rounds=0)
    assert outcome.result[2] == [(0, [("A", "y"), ("B", "z")])]
    _, script = run(madke.debate, [], ("A", "A", "B"), judged=True, rounds=1)
    assert not any("A_2" in prompt for prompt in script.prompts)


@pytest.mark.parametrize("labels", [("A", "B", "C"), ("A", "A", "B"), ("A",), ("judge", "summarizer", "")])
@pytest.mark.parametrize("judged", [False, True])
def test_everybody_sees_the_same_drafts(labels: tuple[str, ...], judged: bool) -> None:
    rounds = 2
    replies = [f"token{n}x" for n in range(len(labels) * (rounds + 1))]

    def seen(debate: Callable[..., Any]) -> tuple[Any, list[Any]]:
        outcome, script = run(debate, replies, labels, judged=judged, rounds=rounds)
        return outcome, [sorted(re.findall(r"token\d+x", prompt)) for prompt in script.prompts]

    assert seen(madke.debate) == seen(lemmas.debate)


def test_personas_and_question_stand_in_every_agents_prompt() -> None:
    personas = ["You count {things}.", "You paint.", "You dig."]
    _, script = run(madke.debate, [], ("A", "B", "C"), judged=True, personas=personas)
    assert all("Why?" in prompt for prompt in script.prompts)
    for name, prompt in zip(script.asked, script.prompts, strict=True):
        assert [persona in prompt for persona in personas] == [name[2:] == label for label in "ABC"]


def test_default_personas_differ_among_five_agents_and_then_repeat() -> None:
    _, script = run(madke.debate, [], tuple("ABCDEF"), judged=False, rounds=0)
    assert len(set(script.prompts)) == 5
    assert script.prompts[5] == script.prompts[0]


def test_an_empty_persona_is_no_default_persona() -> None:
    _, script = run(madke.debate, [], ("A", "B"), judged=False, rounds=0, personas=["", ""])
    assert script.prompts[0] == script.prompts[1]


def test_our_parameters_begin_with_theirs() -> None:
    theirs = parameters(lemmas.debate)
    switch = (inspect.Parameter.KEYWORD_ONLY, False)
    for function in (madke.debate, madke.adebate):
        ours = parameters(function)
        assert ours[: len(theirs)] == theirs
        assert {(kind, default) for _, kind, default in ours[len(theirs) :]} == {switch}


@pytest.mark.parametrize(("ours", "theirs"), [(DebateResult, "DebateResult"), (DebateRound, "DebateRound")])
def test_results_have_their_fields_first(ours: type[Any], theirs: str) -> None:
    expected = [field.name for field in dataclasses.fields(getattr(lemmas, theirs))]
    assert [field.name for field in dataclasses.fields(ours)][: len(expected)] == expected
    values = ["x", "A", [], "why"][: len(expected)]
    assert dataclasses.astuple(ours(*values))[: len(expected)] == tuple(values)
