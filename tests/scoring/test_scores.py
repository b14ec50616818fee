"""Scores of a run: agreement and correctness, what is left out of means, and how replies could be read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.transcript import Final, StageUsage, Transcript, Truncation
from madke.scoring.arms import open_results
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.scored import incomplete
from madke.scoring.scores import Scores, scores_of
from madke.scoring.statistics import effective_votes, wilson
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def agreed(id_: str, answer: str | None = BAIKAL, **changes: Any) -> Transcript:
    """A debate whose debaters both say Lake Baikal."""
    return transcript(id_, said=[BAIKAL, BAIKAL], consensus=True, answer=answer, **changes)


def split(id_: str, answer: str | None = BAIKAL) -> Transcript:
    return transcript(id_, said=[BAIKAL, TANGANYIKA], consensus=False, answer=answer)


def test_cons_and_co2_go_by_judge_and_by_matcher() -> None:
    scores = scores_of(
        [
            transcript("agree, right", said=[BAIKAL, "the lake baikal"], consensus=True, answer=BAIKAL),
            transcript("agree, wrong", said=[TANGANYIKA, TANGANYIKA], consensus=True, answer=TANGANYIKA),
            transcript("only the judge says so", said=[BAIKAL, "the pearl of Siberia"], consensus=True, answer=BAIKAL),
            split("differ, right"),
        ]
    )
    assert scores.correct.value == 0.75
    assert (scores.debate["cons_judge"].value, scores.debate["co2_judge"].value) == (0.75, 0.5)
    assert (scores.debate["cons_matcher"].value, scores.debate["co2_matcher"].value) == (0.5, 0.25)
    assert scores.metrics["f1"].value == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert scores.stop_reasons == {"consensus": 3, "rounds": 1}


def test_what_could_not_be_read_never_counts_as_agreement_or_as_right() -> None:
    unread = transcript("1", said=[None, None], consensus=None, answer=None)
    scores = scores_of([unread])
    assert (scores.debate["cons_judge"].value, scores.debate["cons_matcher"].value, scores.correct.value) == (0, 0, 0)
    assert (scores.abstained, scores.failed) == (1, 0)
    stages = {"speak": 1, "judge": 1, "summarize": 1, "select": 0}
    assert {stage: scores.parse_failures[stage].value for stage in stages} == stages
    # An honest decline is as wrong, but it was read.
    (entry,) = unread.rounds
    turns = tuple(replace(turn, stance=replace(turn.stance, rule="declined")) for turn in entry.turns)
    declined = replace(unread, rounds=(replace(entry, turns=turns),), final=replace(unread.final, rule="declined"))
    scores = scores_of([declined])
    assert (scores.correct.value, scores.abstained) == (0, 1)
    assert (scores.parse_failures["speak"].value, scores.parse_failures["summarize"].value) == (0, 0)


def test_failed_questions_are_in_no_mean_and_bound_the_score() -> None:
    scores = scores_of([agreed("1"), split("2", TANGANYIKA), agreed("3", None, status="failed")])
    assert (scores.questions, scores.failed, scores.correct.n) == (3, 1, 2)
    assert scores.correct.value == 0.5
    assert scores.correct_if_failed == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_given_stances_are_nobodys_replies() -> None:
    given = transcript("1", said=[None, BAIKAL], consensus=True, answer=BAIKAL, first_round_given=True)
    (entry,) = given.rounds
    readable = (replace(entry.turns[1], agent=entry.turns[0].agent), entry.turns[1])
    scores = scores_of([replace(given, rounds=(entry, replace(entry, n=2, turns=readable)))])
    assert scores.parse_failures["speak"].value == 0


def test_without_gold_there_is_no_correct_but_there_is_cons() -> None:
    scores = scores_of([agreed("1", golds=())])
    assert scores.correct is None
    assert "co2_judge" not in scores.debate
    assert scores.debate["cons_judge"].value == 1


def test_a_judge_makes_cons_only_where_it_was_asked_about_every_question() -> None:
    asked = split("asked")
    spared = replace(asked, id="spared", rounds=tuple(replace(entry, verdict=None) for entry in asked.rounds))
    assert scores_of([asked]).debate["cons_judge"].value == 0
    assert not {"cons_judge", "co2_judge"} & scores_of([asked, spared]).debate.keys()
    # A judge who settles a debate finds no consensus.
    settled = transcript("settled", said=[BAIKAL, TANGANYIKA], consensus=True, answer=BAIKAL)
    settled = replace(settled, stop_reason="settled", final=replace(settled.final, by="judge"))
    found = scores_of([settled]).debate
    assert (found.get("cons_judge"), found["cons_matcher"].value) == (None, 0)


def test_repeats_of_a_question_are_one_observation_of_which_intervals_are_made() -> None:
    def run(repeats: int) -> Scores:
        return scores_of(
            [
                agreed(f"q{n}", TANGANYIKA if (n, repeat) == (0, 1) else BAIKAL, repeat=repeat)
                for n in range(10)
                for repeat in range(repeats)
            ]
        )

    without, found = run(1), run(3)
    assert (found.questions, found.transcripts, found.correct.n) == (10, 30, 10)
    assert found.correct.value == pytest.approx(29 / 30)
    assert (found.correct.low, found.correct.high) == (pytest.approx(0.9), 1.0), "bootstrap over questions"
    assert (without.correct.low, without.correct.high) == wilson(10, 10)


@pytest.mark.parametrize(
    ("stage", "read"),
    [("pick", Final(by="judge", agent="Debater 1", status="abstained")), ("extract", Final(by="judge", answer=BAIKAL))],
)
def test_what_could_not_be_read_from_the_judge_counts_under_its_stage(stage: str, read: Final) -> None:
    finished = transcript("1", said=[BAIKAL, None], consensus=None, answer=None, usage={stage: StageUsage(calls=1)})
    for final, missed in ((read, 0), (Final(by="judge", status="abstained"), 1)):
        ended = replace(finished, rounds=(replace(finished.rounds[0], verdict=None),), final=final)
        assert scores_of([ended]).parse_failures[stage].value == missed


def test_analyses_and_shortened_prompts_are_counted() -> None:
    plain = agreed("1")
    cut = replace(plain, final=replace(plain.final, truncated=Truncation(stances=1)))
    scores = scores_of([plain, cut, replace(plain, oracle=True)])
    assert (scores.read_golds, scores.shortened) == (1, 1)


def test_only_votes_for_the_final_answer_are_effective_votes() -> None:
    debate = transcript("q", said=[BAIKAL, "Lake Chad", None], consensus=None, answer=BAIKAL)
    voted = replace(debate, final=replace(debate.final, by="majority", rule="votes"))
    assert DebateMeasures(voted).votes == [1.0, 0.0, 0.0]
    assert DebateMeasures(debate).votes == []
    assert DebateMeasures(replace(voted, answers=())).votes == []
    other = transcript("r", said=["Lake Chad"] * 3, consensus=None, answer="Lake Chad")
    other = replace(other, final=replace(other.final, by="majority", rule="votes"))
    assert scores_of([voted, other]).votes == effective_votes([[1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ("--max-cost", "stopped at --max-cost; the same command with a higher limit goes on"),
        (
            "the last 20 calls of openai/x all failed: HTTP 401: no",
            "stopped: the last 20 calls of openai/x all failed; the same command goes on",
        ),
        (None, "killed; the same command goes on"),
    ],
)
def test_an_incomplete_run_says_why(tmp_path: Path, ended: str | None, said: str) -> None:
    (run,) = open_results([write_run(tmp_path / "run", agreed("1"), agreed("2"), repeats=2)])
    record = json.loads((run.path / "run.json").read_text())
    record["sessions"].append({} if ended is None else {"ended": ended})
    (run.path / "run.json").write_text(json.dumps(record))
    assert incomplete(run, 2) == f"2 of 4 ({said})"
    assert incomplete(run, 4) is None
