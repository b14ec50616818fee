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
from tests.lemmas.script import run

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
@example([], [], "", True, 0, None, 3)
@example(["A", "A"], ["x y", "z"], "", False, 1, None, 3)
@example(["A", "B", "C"], [None, "x", "y"], "", False, 0, None, 3)
@example(["A", "B", "C"], ["x", "y", "z"], "b: clearer", True, 0, None, 3)
@example(["A", "B", "C"], ["x", "y", "z"], "C: beats B", True, 0, None, 3)
@example(["A", "B", "C"], ["x", "y", "z"], "none of them", True, 0, None, 3)
@example(["A", "B", "C"], ["x", "y", "z"], None, True, 0, None, 3)
@example(["A", "B", "C"], ["x", "y", "z"], "Because it is best", True, 0, None, 3)  # the "a" of "Because" is enough
@example([*"ABCD"], ["d e", "e f", "c b d", "e b"], "", False, 0, None, 3)  # the same overlaps of A in another order
@example(["A", "B", "C"], ["STRASSE x", "straße y", "straße z x"], "", False, 0, None, 3)  # lower case, not folded
@example(["A", "B", "C"], ["x", "y y y z", "z y"], "", False, 0, None, 3)
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


@pytest.mark.parametrize("labels", [("A", "B", "C"), ("A", "A", "B"), ("A",), ("judge", "summarizer", "")])
@pytest.mark.parametrize("judged", [False, True])
def test_everybody_sees_the_same_drafts_and_its_own_persona(labels: tuple[str, ...], judged: bool) -> None:
    rounds = 2
    replies = [f"token{n}x" for n in range(len(labels) * (rounds + 1))]
    personas = [f"You are persona{n}x, and count {{things}}." for n in range(len(labels))]

    def seen(debate: Callable[..., Any]) -> tuple[Any, list[Any]]:
        outcome, script = run(debate, replies, labels, judged=judged, rounds=rounds, personas=personas)
        assert all("Why?" in prompt for prompt in script.prompts)
        return outcome, [sorted(re.findall(r"(?:token|persona)\d+x", prompt)) for prompt in script.prompts]

    assert seen(madke.debate) == seen(lemmas.debate)


def test_our_parameters_are_theirs() -> None:
    ours, awaited, theirs = (
        [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]
        for function in (madke.debate, madke.adebate, lemmas.debate)
    )
    assert ours == awaited == theirs


@pytest.mark.parametrize(("ours", "theirs"), [(DebateResult, "DebateResult"), (DebateRound, "DebateRound")])
def test_results_have_their_fields_first(ours: type[Any], theirs: str) -> None:
    expected = [field.name for field in dataclasses.fields(getattr(lemmas, theirs))]
    assert [field.name for field in dataclasses.fields(ours)][: len(expected)] == expected
    values = ["x", "A", [], "why"][: len(expected)]
    assert dataclasses.astuple(ours(*values))[: len(expected)] == tuple(values)
