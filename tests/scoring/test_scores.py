from dataclasses import replace

import pytest

from madke.core.transcript import from_json, to_json
from madke.scoring.scores import score
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def test_cons_and_co2_go_by_judge_and_by_matcher():
    scores = score(
        [
            transcript("agree, right", said=[BAIKAL, "the lake baikal"], consensus=True, answer=BAIKAL),
            transcript("agree, wrong", said=[TANGANYIKA, TANGANYIKA], consensus=True, answer=TANGANYIKA),
            transcript("only the judge says so", said=[BAIKAL, "Baikal"], consensus=True, answer=BAIKAL),
            transcript("differ, right", said=[BAIKAL, TANGANYIKA], consensus=False, answer=BAIKAL),
        ]
    )
    assert scores.correct.value == 0.75
    assert (scores.cons_judge.value, scores.co2_judge.value) == (0.75, 0.5)
    assert (scores.cons_matcher.value, scores.co2_matcher.value) == (0.5, 0.25)
    assert scores.metrics["f1"].value == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert scores.stop_reasons == {"consensus": 3, "rounds": 1}


def test_what_could_not_be_read_never_counts_as_agreement_or_as_right():
    scores = score([transcript("1", said=[None, None], consensus=None, answer=None)])
    assert (scores.cons_judge.value, scores.cons_matcher.value, scores.correct.value) == (0, 0, 0)
    assert (scores.abstained, scores.failed) == (1, 0)
    assert scores.parse_failures["speak"].value == 1
    assert scores.parse_failures["judge"].value == 1
    assert scores.parse_failures["summarize"].value == 1
    assert scores.parse_failures["select"].value == 0


def test_failed_questions_are_in_no_mean_and_bound_the_score():
    scores = score(
        [
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL),
            transcript("2", said=[TANGANYIKA, BAIKAL], consensus=False, answer=TANGANYIKA),
            transcript("3", said=[BAIKAL, BAIKAL], consensus=True, answer=None, status="failed"),
        ]
    )
    assert (scores.questions, scores.failed, scores.correct.n) == (3, 1, 2)
    assert scores.correct.value == 0.5
    assert scores.correct_if_failed == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_the_bounds_leave_out_questions_without_gold():
    scores = score(
        [
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL),
            transcript("2", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, golds=()),
            transcript("3", said=[BAIKAL, BAIKAL], consensus=True, answer=None, golds=(), status="failed"),
        ]
    )
    assert scores.correct_if_failed == (1.0, 1.0)


def test_unreadable_stances_count_under_the_stage_of_their_call():
    unread = transcript("1", said=[None, None], consensus=False, answer=BAIKAL)
    (entry,) = unread.rounds
    replies = tuple(replace(turn, stance=replace(turn.stance, stage="reply")) for turn in entry.turns)
    scores = score([replace(unread, rounds=(entry, replace(entry, n=2, turns=replies)))])
    assert (scores.parse_failures["speak"].n, scores.parse_failures["reply"].n) == (2, 2)


def test_repeats_of_a_question_are_one_observation():
    scores = score(
        [
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=0),
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=TANGANYIKA, repeat=1),
            transcript("2", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=0),
            transcript("2", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=1),
        ]
    )
    assert (scores.questions, scores.transcripts, scores.correct.n) == (2, 4, 2)
    assert scores.correct.value == 0.75


def test_without_gold_there_is_no_correct_but_there_is_cons():
    scores = score([transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, golds=())])
    assert scores.correct is None
    assert scores.co2_judge is None
    assert scores.cons_judge.value == 1


def test_usage_is_summed_by_stage_with_paid_calls_apart():
    scores = score([transcript(str(n), said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL) for n in range(3)])
    assert (scores.usage["speak"].calls, scores.usage["speak"].paid, scores.total.prompt_tokens) == (6, 3, 300)


def test_a_transcript_survives_its_file():
    before = transcript("1", said=[BAIKAL, None], consensus=None, answer=BAIKAL, metadata={"kind": ["x", 1]})
    assert from_json(to_json(before)) == before
