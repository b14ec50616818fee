"""The sentence of a finding, and what an incomplete run says."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.report.verdict import finding
from madke.scoring.arms import open_results
from madke.scoring.scored import incomplete
from madke.scoring.scores import scores_of
from tests.support.run_folder import write_run
from tests.support.transcripts import compared, transcript

BAIKAL = "Lake Baikal"


def answered(marks: str, **changes: Any) -> Any:
    """Debates of q0, q1, ...: + is right, - wrong, ! failed."""
    return [
        transcript(
            f"q{n}",
            said=[BAIKAL, "x"],
            consensus=False,
            answer={"+": BAIKAL, "-": "x", "!": None}[mark],
            status="failed" if mark == "!" else None,
            **changes,
        )
        for n, mark in enumerate(marks)
    ]


def found(*metrics: Any, **marks: Any) -> Any:
    runs = {name.replace("_", "+"): answered(each) for name, each in marks.items()}
    both = compared(runs)
    return finding(both.arms, both.scores, both.tests(metrics))


def alone(transcripts: Any) -> Any:
    both = compared({"wiki": transcripts, "same": transcripts})
    return finding(both.arms[:1], both.scores, [])


def test_one_run_has_its_score_with_interval_and_n() -> None:
    assert alone(answered("+" * 17 + "-" * 7 + "!")) == "wiki: 70.8 % correct by match, 95 % 50.8 to 85.1, n = 24."
    assert alone(answered("!!")) == "wiki: no score, because all 2 debates failed."
    assert alone(answered("++", golds=())) == "wiki: no score, because no question has a gold answer and a result."


def test_two_runs_one_better() -> None:
    better = {"wiki": "+" * 20 + "-" * 10, "wiki_google": "+" * 10 + "-" * 20}
    sentence = "wiki beats wiki+google by 33.3 points of match, 95 % 13.0 to 49.5, p = 0.0020, n = 30"
    sentence += "; by EM +33.3 (p = 0.0020), F1 +33.3 (p = 0.0020)."
    assert found(**better) == sentence
    assert found(**dict(reversed(better.items()))) == sentence  # the order of the runs does not matter


def test_two_runs_without_a_difference() -> None:
    assert found(a="++-", b="+-+") == (
        "No difference found between b and a: 0.0 points of match, 95 % -78.4 to 78.4, p = 1.000, n = 3; "
        "by EM +0.0 (p = 1.000), F1 +0.0 (p = 1.000)."
    )
    assert found(a="+--", b="++-").startswith("No difference found between b and a: b is ahead by 33.3 points of match")
    assert found(a="!", b="+") == "Nothing to compare: no shared question has a score in both of two runs."


def test_failed_questions_that_could_undo_a_difference_are_said() -> None:
    sentence = found(a="+" * 20 + "-" * 20, b="+" * 14 + "-" * 6 + "-" * 6 + "!" * 14)
    assert sentence.startswith("No difference found between a and b: a is ahead by 23.1 points of match, ")
    assert "p = 0.031, n = 26, but questions that failed in only one run could undo this; by EM" in sentence


def test_the_best_of_several_against_the_next() -> None:
    assert found(a="-" * 40, b="+" * 30 + "-" * 10, c="+" * 12 + "-" * 28) == (
        "b (75.0 % correct by match) is highest of 3 runs; "
        "b beats c by 45.0 points of match, 95 % 26.5 to 59.2, Holm-corrected p < 0.0001, n = 40; "
        "by EM +45.0 (p < 0.0001), F1 +45.0 (p < 0.0001)."
    )


def test_the_best_ones_that_cannot_be_told_apart() -> None:
    assert found(a="-" * 40, b="+" * 30 + "-" * 10, c="+" * 29 + "-" * 11).startswith(
        "b (75.0 % correct by match) is highest of 3 runs; "
        "no difference found between b and c: b is ahead by 2.5 points of match, 95 % "
    )


def test_of_many_runs_the_highest_is_compared_with_the_first() -> None:
    many = dict.fromkeys("bcdef", "+" + "-" * 9)
    assert found(a="-" * 10, **many, g="+" * 10).startswith(
        "g (100.0 % correct by match) is highest of 7 runs; g beats a by 100.0 points of match, "
    )


def test_other_measures_are_given_in_the_direction_of_the_sentence() -> None:
    def said(name: str, answer: str) -> Any:
        return [transcript(f"q{n}", said=[answer], consensus=None, answer=answer) for n in range(9)]

    both = compared({"a": said("a", "It is Lake Baikal."), "b": said("b", "Lake Chad")})
    sentence = finding(both.arms, both.scores, both.tests())
    assert sentence.startswith("a beats b by 100.0 points of match, ")
    assert sentence.endswith("; by EM +0.0 (p = 1.000), F1 +16.7 (p = 0.0039).")


def test_arms_that_are_read_unequally_are_named() -> None:
    read = [transcript(f"q{n}", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL) for n in range(10)]
    half = [transcript(f"q{n}", said=[BAIKAL, None], consensus=True, answer=BAIKAL) for n in range(10)]
    both = compared({"a": read, "b": half})
    sentence = finding(both.arms, both.scores, both.tests())
    assert sentence.endswith(". Replies were not equally readable: speak 50.0 % in b, 100.0 % in a.")
    nearly = [*read[:9], *half[9:]]
    assert "readable" not in finding(both.arms, {**both.scores, "b": scores_of(nearly)}, both.tests())


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ("--max-cost", "stopped at --max-cost; the same command with a higher limit goes on"),
        ("--token-budget", "stopped at --token-budget; the same command with a higher limit goes on"),
        ("--deadline", "stopped at --deadline; the same command goes on"),
        ("interrupted", "interrupted; the same command goes on"),
        ("an error", "stopped by an error; the same command goes on"),
        (
            "the last 20 calls of openai/x all failed: HTTP 401: no",
            "stopped: the last 20 calls of openai/x all failed; the same command goes on",
        ),
        ("finished", "the same command goes on"),
        (None, "killed; the same command goes on"),
    ],
)
def test_an_incomplete_run_says_why(tmp_path: Path, ended: str | None, said: str) -> None:
    (run,) = open_results([write_run(tmp_path / "run", *answered("+-"), repeats=2)])
    record = json.loads((run.path / "run.json").read_text())
    record["sessions"].append({} if ended is None else {"ended": ended})
    (run.path / "run.json").write_text(json.dumps(record))
    assert incomplete(run, 2) == f"2 of 4 ({said})"
    assert incomplete(run, 4) is None
