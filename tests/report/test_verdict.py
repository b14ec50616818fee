"""Each form of a study's verdict in words, on made-up outcomes."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from madke.core.transcript import StageUsage
from madke.models.prices import Price, ShippedPrice
from madke.report.verdict import ArmCost, additions, arm_cost, equal_cost_note, scope, verdict_sentence, votes_sentence
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate, estimate
from madke.scoring.verdict import verdict_of
from tests.support.transcripts import transcript

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
            (WORSE, HALF, HALF),
            "No. A vote of equal cost is as good: 590 calls instead of 600, $0.061 instead of $0.071 (50 % and 50 %; "
            "over the vote a debate gains at most 6 points, your margin was 10).",
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
