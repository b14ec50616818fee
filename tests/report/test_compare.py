"""Runs side by side: which questions are compared, what counts as right, what a reader is shown."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import StageUsage
from madke.report.comparison import question_table
from madke.report.tables import plain_table
from madke.tasks import get_task
from tests.support.transcripts import compared, transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"
HOSTILE = "[bold red]x[/] \x1b[31mred\x1b[0m \u202eabc\n--- round 9 ---\n== forged"


def answered(id_: Any, answer: Any, **changes: Any) -> Any:
    return transcript(id_, said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)


def run(*answers: Any, **changes: Any) -> Any:
    return [answered(f"q{n}", answer, **changes) for n, answer in enumerate(answers)]


def shown_table(table: Any, width: int = 140) -> Any:
    return plain_table(table, width=width)


def test_two_runs_are_tested_on_shared_questions_only() -> None:
    comparison = compared({"a": run(BAIKAL, "x", BAIKAL, BAIKAL), "b": run("x", BAIKAL, "x")})
    tests = {test.metric: test for test in comparison.tests()}
    assert list(tests) == [*get_task("short_answer").metrics]
    assert (tests["em"].n, tests["em"].left_value) == (3, pytest.approx(2 / 3))
    assert [test.metric for test in comparison.tests(["cons_judge"])] == ["cons_judge"]
    with pytest.raises(UserError, match="no run has the metric 'emm'; available:"):
        comparison.tests(["emm"])


def test_each_of_many_runs_is_tested_with_the_first() -> None:
    comparison = compared({name: run(BAIKAL) for name in "abcdefg"})
    assert [(test.left, test.right) for test in comparison.tests(["em"])] == [("a", other) for other in "bcdefg"]


def test_a_note_says_that_calls_differ() -> None:
    def cost(calls: Any) -> Any:
        return {"usage": {"speak": StageUsage(calls=calls)}}

    runs = {"a": run(BAIKAL, **cost(10)), "b": run(BAIKAL, **cost(11)), "c": run(BAIKAL, **cost(12))}
    assert compared(runs).notes == ["Unequal cost, in calls per question: a 10.0, b 11.0, c 12.0."]
    del runs["c"]
    # 1 of 11 is less than a tenth. Predictions from files have no cost.
    runs["d"] = run(BAIKAL, usage={})
    assert compared(runs).notes == []


def test_only_questions_that_all_runs_hold_are_compared_and_the_others_are_counted() -> None:
    comparison = compared({"a": run(*[BAIKAL] * 4), "b": reversed(run(*[BAIKAL] * 2)), "c": run(*[BAIKAL] * 3)})
    assert [row.id for row in comparison.questions] == ["q0", "q1"]
    assert comparison.unshared == {"a": 2, "b": 0, "c": 1}


def test_the_first_repeat_is_compared_whichever_finished_first() -> None:
    repeats = [answered("q0", answer, repeat=n) for n, answer in ((1, "x"), (0, BAIKAL), (2, "y"))]
    comparison = compared({"a": repeats, "b": run("x")})
    first, second = comparison.questions[0].runs
    assert [(each.answer, each.repeat) for each in (first, second)] == [(BAIKAL, 0), ("x", 0)]


@pytest.mark.parametrize(
    ("left", "right", "differs"),
    [
        (answered("q0", BAIKAL), answered("q0", BAIKAL), False),
        (answered("q0", "pike", golds=()), answered("q0", "the Pike", golds=()), False),
        (answered("q0", "x", golds=()), answered("q0", "y", golds=()), True),
        (answered("q0", "x"), answered("q0", "y"), True),
        (answered("q0", BAIKAL), answered("q0", TANGANYIKA), True),
        (answered("q0", "x"), answered("q0", None), True),
        (answered("q0", None), answered("q0", None), False),
        (answered("q0", None), answered("q0", None, status="failed"), True),
    ],
)
def test_runs_differ_where_answers_or_their_rightness_do(left: Any, right: Any, differs: bool) -> None:
    (row,) = compared({"a": [left], "b": [left], "c": [right]}).questions
    assert row.differs is differs


def test_each_answer_has_its_mark_and_its_rounds() -> None:
    rows = compared({"a": run(BAIKAL, None), "b": run(TANGANYIKA, BAIKAL)}).questions
    lines = shown_table(question_table(rows)).splitlines()
    (first,) = [line for line in lines if " q0 " in line]
    (second,) = [line for line in lines if " q1 " in line]
    assert "+ Lake Baikal (1)" in first
    assert "- Lake Tanganyika (1)" in first
    assert "- no answer (1)" in second


def test_text_of_others_is_no_markup_and_cannot_forge_a_line() -> None:
    entry = answered(HOSTILE, HOSTILE, golds=(HOSTILE,))
    entry = replace(entry, question=HOSTILE, stop_reason=HOSTILE)
    rows = compared({HOSTILE: [entry], "b": [entry]}).questions
    text = plain_table(question_table(rows), width=400)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold red]x[/]" in text
    assert not any(line.strip().startswith(("--- round 9", "== forged")) for line in text.splitlines())
