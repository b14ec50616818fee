"""What studies and runs show, in words: each form of a verdict and of a finding, on made-up outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import StageUsage, Transcript
from madke.models.prices import Price, ShippedPrice
from madke.report.verdict import (
    ArmCost,
    additions,
    arm_cost,
    equal_cost_note,
    finding,
    scope,
    verdict_sentence,
    votes_sentence,
)
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate, estimate
from madke.scoring.verdict import verdict_of
from tests.support.transcripts import compared, transcript

BAIKAL = "Lake Baikal"

# The verdict of a study

COSTS = {
    "rag": ArmCost(calls=100, tokens=0, money=0.0104, unit="$"),
    "votes": ArmCost(calls=590, tokens=0, money=0.061, unit="$"),
    "debate": ArmCost(calls=600, tokens=0, money=0.0712, unit="$"),
}


def outcomes(**arms: str) -> dict[str, dict[str, float]]:
    """Right (+) and wrong (-) answers of each arm."""
    return {name: {f"q{n}": float(mark == "+") for n, mark in enumerate(marks)} for name, marks in arms.items()}


def said(call: str, vote: str, debate: str, costs: Mapping[str, ArmCost] = COSTS) -> str:
    right = outcomes(alone=call, rag=call, votes=vote, debate=debate)
    shares = {name: share for name, each in right.items() if (share := estimate([*each.values()]))}
    return verdict_sentence(verdict_of(right), shares, costs)


RIGHT, HALF, WORSE = "+" * 100, "+" * 50 + "-" * 50, "-" * 20 + "+" * 30 + "-" * 50


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        (
            (HALF, WORSE, RIGHT),
            "Yes. The debate is 70 points better than a vote of equal cost (+55 to +84) and 50 points better than "
            "one call with your documents (+36 to +66): 100 % against 30 % and 50 %, with 600 calls instead of 590 and "
            "100, $0.071 instead of $0.061 and $0.01.",
        ),
        (
            (HALF, WORSE, HALF),
            "No. One call with your documents is as good: 100 calls instead of 600, $0.01 instead of $0.071 (50 % "
            "and 50 %; over it a debate gains at most 6 points, your margin was 10).",
        ),
        (
            (WORSE, RIGHT, HALF),
            "No. A vote of equal cost is better: 590 calls instead of 600, $0.061 instead of $0.071 (100 % and 50 %; "
            "the debate is 50 points worse, -66 to -36).",
        ),
    ],
)
def test_yes_and_no(arms: tuple[str, str, str], sentence: str) -> None:
    assert said(*arms) == sentence


def test_not_decided_names_what_is_open_and_the_questions_that_would_decide() -> None:
    call, debate = "-" * 24 + "+" * 16, "+" * 6 + "-" * 18 + "+" * 12 + "-" * 4
    one = said(call, "-" * 40, debate)
    assert one.startswith("Not decided: the debate is 5 points ahead of one call with your documents (-")
    assert one.endswith(" more questions would decide.")
    assert "vote" not in one
    both = said(call, call, debate)
    assert " ahead of a vote of equal cost (" in both
    assert ") and 5 points ahead of one call with your documents (" in both
    assert "level with a vote" in said("-" * 40, "+-" * 20, "-+" * 20)
    assert " behind a vote" in said("-" * 40, "+" * 22 + "-" * 18, "-" * 20 + "+" * 20)
    assert said("", "", "", {}) == (
        "Not decided: no question has an answer of both the debate and a vote of equal cost and one call with your "
        "documents."
    )


def test_three_lines_say_what_each_part_adds() -> None:
    right = outcomes(alone="----++++", rag="---+++++", votes="--++++++", debate="--++++++")
    assert [line.partition(" (")[0] for line in additions(verdict_of(right))] == [
        "What the documents add: +12 points",
        "What a vote adds: +12 points",
        "What talking adds: +0 points",
    ]


def test_the_votes_are_counted_as_independent_opinions() -> None:
    scores = scores_of([])
    assert "is unknown" in votes_sentence(scores, 16)
    counted = replace(scores, votes=Estimate(value=1.53, low=1.2, high=2.01, n=100))
    paid = "You paid for 16 opinions and got 1.5 (1.2 to 2.0), difficulty included."
    assert votes_sentence(counted, 16).startswith(paid)


def test_how_many_questions_it_rests_on_and_whether_the_vote_cost_as_much() -> None:
    verdict = verdict_of(outcomes(alone="", rag="", votes="", debate=""))
    assert scope(60, 200, verdict).startswith("Decided after 60 of 200 questions; --all asks the rest.")
    assert scope(200, 200, verdict).startswith("200 questions; ")
    limited = scope(40, 200, verdict, limit="--max-cost")
    assert limited == "Ended at --max-cost after 40 of 200 questions; the same command continues."
    assert not equal_cost_note(COSTS)
    (note,) = equal_cost_note(COSTS | {"votes": replace(COSTS["votes"], calls=300)})
    assert note == "The vote made 50 % of the debate's calls: its size was set on the first questions."


def test_money_needs_a_price_for_every_arm_and_has_its_unit() -> None:
    used = StageUsage(calls=1, prompt_tokens=1000, completion_tokens=100)
    scores = scores_of([transcript("q0", said=["x"], consensus=None, answer="x", usage={"speak": used})])
    own, shipped = Price(prompt=1, completion=2), ShippedPrice(prompt=1, completion=2, source="", date="")
    assert arm_cost(scores, {"a": "openai/m"}, {"openai/m": own}).price() == "0.0012"
    assert arm_cost(scores, {"a": "openai/m"}, {"openai/m": shipped}).price() == "$0.0012"
    assert arm_cost(scores, {"a": "openai/m", "b": "openai/n"}, {"openai/m": own}).money is None
    unpriced = {name: replace(each, money=None) for name, each in COSTS.items()}
    assert "100 calls instead of 600 (50 %" in said(HALF, WORSE, HALF, unpriced)


# The finding of runs


def answered(marks: str, **changes: Any) -> list[Transcript]:
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


def finding_of(**runs: Sequence[Transcript]) -> str:
    both = compared(runs)
    return finding(both.arms, both.scores, both.tests())


def found(**marks: str) -> str:
    return finding_of(**{name: answered(each) for name, each in marks.items()})


def test_one_run_has_its_score_with_interval_and_n() -> None:
    assert found(wiki="+" * 17 + "-" * 7 + "!") == "wiki: 70.8 % correct by match, 95 % 50.8 to 85.1, n = 24."
    assert found(wiki="!!") == "wiki: no score, because all 2 debates failed."
    no_gold = finding_of(wiki=answered("++", golds=()))
    assert no_gold == "wiki: no score, because no question has a gold answer and a result."


def test_two_runs_one_better() -> None:
    better = {"wiki": "+" * 20 + "-" * 10, "wiki+google": "+" * 10 + "-" * 20}
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


def test_of_many_runs_the_highest_is_compared_with_the_first() -> None:
    many = dict.fromkeys("bcdef", "+" + "-" * 9)
    assert found(a="-" * 10, **many, g="+" * 10).startswith(
        "g (100.0 % correct by match) is highest of 7 runs; g beats a by 100.0 points of match, "
    )


def test_arms_that_are_read_unequally_are_named() -> None:
    read = [transcript(f"q{n}", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL) for n in range(10)]
    half = [transcript(f"q{n}", said=[BAIKAL, None], consensus=True, answer=BAIKAL) for n in range(10)]
    sentence = finding_of(a=read, b=half)
    assert sentence.endswith(". Replies were not equally readable: speak 50.0 % in b, 100.0 % in a.")
    assert "readable" not in finding_of(a=read, b=[*read[:9], *half[9:]])
