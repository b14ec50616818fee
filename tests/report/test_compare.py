"""Runs side by side: which questions are compared, what counts as right, what a reader is shown."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import StageUsage, Transcript
from madke.report.comparison import question_table
from madke.report.tables import plain_table
from tests.support.transcripts import compared, transcript

BAIKAL = "Lake Baikal"
HOSTILE = "[bold red]x[/] \x1b[31mred\x1b[0m \u202eabc\n--- round 9 ---\n== forged"


def answered(id_: str, answer: str | None, **changes: Any) -> Transcript:
    return transcript(id_, said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)


def run(*answers: str | None, **changes: Any) -> list[Transcript]:
    return [answered(f"q{n}", answer, **changes) for n, answer in enumerate(answers)]


def test_any_value_of_the_runs_is_tested_and_a_misspelt_one_is_refused() -> None:
    comparison = compared({"a": run(BAIKAL, "x"), "b": run("x", BAIKAL)})
    assert [test.metric for test in comparison.tests(["cons_judge"])] == ["cons_judge"]
    with pytest.raises(UserError, match="no run has the metric 'emm'; available:"):
        comparison.tests(["emm"])


def test_a_note_says_that_calls_differ() -> None:
    runs = {name: run(BAIKAL, usage={"speak": StageUsage(calls=n)}) for name, n in (("a", 10), ("b", 11), ("c", 12))}
    assert compared(runs).notes == ["Unequal cost, in calls per question: a 10.0, b 11.0, c 12.0."]
    # 1 of 11 is less than a tenth. Predictions from files have no cost.
    assert compared({"a": runs["a"], "b": runs["b"], "d": run(BAIKAL, usage={})}).notes == []


def test_the_first_repeat_is_compared_whichever_finished_first() -> None:
    repeats = [answered("q0", answer, repeat=n) for n, answer in ((1, "x"), (0, BAIKAL), (2, "y"))]
    comparison = compared({"a": repeats, "b": run("x")})
    first, second = comparison.questions[0].runs
    assert [(each.answer, each.repeat) for each in (first, second)] == [(BAIKAL, 0), ("x", 0)]


@pytest.mark.parametrize(
    ("left", "right", "differs"),
    [
        (answered("q0", "pike", golds=()), answered("q0", "the Pike", golds=()), False),
        (answered("q0", "x"), answered("q0", "y"), True),
        (answered("q0", BAIKAL), answered("q0", "x"), True),
        (answered("q0", None), answered("q0", None), False),
        (answered("q0", "x"), answered("q0", None), True),
        (answered("q0", None), answered("q0", None, status="failed"), True),
    ],
)
def test_runs_differ_where_answers_or_their_rightness_do(left: Transcript, right: Transcript, differs: bool) -> None:
    (row,) = compared({"a": [left], "b": [left], "c": [right]}).questions
    assert row.differs is differs


def test_answers_have_their_marks_and_text_of_others_cannot_forge_a_line() -> None:
    entry = replace(answered(HOSTILE, HOSTILE, golds=(HOSTILE,)), question=HOSTILE, stop_reason=HOSTILE)
    other = replace(entry, answer=None, status="abstained")
    text = plain_table(question_table(compared({HOSTILE: [entry], "b": [other]}).questions), width=400)
    assert "+ [bold red]x[/]" in text
    assert "- no answer (1)" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.strip().startswith(("--- round 9", "== forged")) for line in text.splitlines())
