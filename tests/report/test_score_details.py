"""What is measured beside the metrics, below the score table."""

from dataclasses import replace
from typing import Any

from madke.core.transcript import StageUsage
from madke.report.score_details import prompt_line, score_details
from madke.scoring.scores import Spending, scores_of
from tests.scoring.hand_made import RIGHT, WRONG, debate, pool


def line(details: Any, start: Any) -> Any:
    (found,) = (each for each in details.splitlines() if each.startswith(start))
    return found


def test_values_of_debates_and_rounds_are_shown_in_percent_or_in_their_own_unit() -> None:
    played = debate(
        [WRONG, RIGHT],
        [RIGHT, RIGHT],
        selected=[[(0,), (0, 1)], [(0,), ()]],
        pool=pool(("wiki", "w0", "Lake Baikal"), ("google", "g1", "Lakes")),
    )
    details = score_details(scores_of([played]))
    debates, rounds = line(details, "of the debates: "), line(details, "round by round: ")
    assert "corrected 100.0, collapsed 0.0, oracle 100.0" in debates
    assert "no found 25.0, selected ids 1.00" in debates
    assert "share wiki 75.0, share google 25.0" in debates
    assert "accuracy 0.0 > 100.0, right 50.0 > 100.0" in rounds
    assert "entropy 1.00 > 0.00" in rounds
    assert "self disagreement - > 50.0" in rounds
    assert "changed" not in rounds


def test_names_of_sources_cannot_write_to_the_terminal() -> None:
    details = score_details(
        scores_of([debate([RIGHT, RIGHT], selected=[[(0,), (0,)]], pool=pool(("\x1b[2J", "k", "t")))])
    )
    assert "\x1b" not in details


def test_cost_is_a_line() -> None:
    spending = Spending(cost={"speak": 1.5, "judge": 0.25}, unpriced=("hf/\x1b[2J",))
    details = score_details(replace(scores_of([debate([RIGHT])]), spending=spending))
    assert line(details, "cost ") == "cost 1.7500: speak 1.5000, judge 0.2500"
    assert line(details, "without a price").startswith("without a price, excluded from the cost: hf/")
    assert "\x1b" not in details
    assert "cost" not in score_details(replace(scores_of([debate([RIGHT])]), spending=Spending()))


def test_prompt_tokens_are_sent_distinct_and_cached() -> None:
    used = StageUsage(calls=2, paid=2, prompt_tokens=2000, cached_tokens=500, distinct_tokens=1200)
    scores = scores_of([debate([RIGHT], usage={"speak": used, "judge": used})])
    assert prompt_line(scores) == "prompt tokens: 4,000 sent, 2,400 distinct, 1,000 reported as cached (25%)"
    saving = replace(scores, spending=Spending(saved=0.25))
    assert line(score_details(saving), "prompt tokens: ").endswith("(25%), which saved 0.2500")
    assert prompt_line(scores_of([debate([RIGHT], usage={"speak": replace(used, estimated=2)})])) is None


def test_repeats_rounds_and_grades_have_their_lines() -> None:
    played = [
        debate(
            [RIGHT, RIGHT],
            answer=RIGHT if (n, k) != (0, 0) else WRONG,
            id_=f"q{n}",
            repeat=k,
            usage={"speak": StageUsage()},
        )
        for n in range(2)
        for k in range(2)
    ]
    details = score_details(scores_of(played, {"grader": {("q1", 0): 1.0, ("q1", 1): 1.0, ("q0", 0): 0.0}}))
    assert line(details, "over 2 repeats").startswith(
        "over 2 repeats, for these questions: correct 75.0 (0.0 to 100.0; sd 35.4), em 75.0"
    )
    assert line(details, "rounds ") == "rounds 1.00 (1.00 to 1.00)"
    assert line(details, "Co2 by the grader").startswith(
        "Co2 by the grader, consistent by the judge -, by the matcher 50.0"
    )
    assert line(details, "grade: ").endswith(
        "1 answer has no grade and is excluded from the grader's mean; with them it is between 50.0 % (all wrong) "
        "and 75.0 % (all right)"
    )
