from dataclasses import replace

import pytest

from madke.core.transcript import Cut, Final, Reflection, StageUsage, from_json, to_json
from madke.scoring.scores import score
from madke.scoring.statistics import wilson
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def test_cons_and_co2_go_by_judge_and_by_matcher():
    scores = score(
        [
            transcript("agree, right", said=[BAIKAL, "the lake baikal"], consensus=True, answer=BAIKAL),
            transcript("agree, wrong", said=[TANGANYIKA, TANGANYIKA], consensus=True, answer=TANGANYIKA),
            transcript("only the judge says so", said=[BAIKAL, "the pearl of Siberia"], consensus=True, answer=BAIKAL),
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
    assert (scores.parse_failures["speak"].value, scores.parse_failures["reply"].value) == (1, 1)


def with_final(said, used, *, entry=None, **fields):
    """A transcript of one round whose final answer came from a stage that was used."""
    finished = transcript("1", said=said, consensus=None, answer=fields.get("answer"))
    (only,) = finished.rounds
    rounds = (replace(only, **{"verdict": None, **(entry or {})}),)
    usage = {"speak": StageUsage(calls=2), used: StageUsage(calls=1)}
    return replace(finished, rounds=rounds, final=Final(**fields), usage=usage)


@pytest.mark.parametrize(
    ("stage", "fields", "missed"),
    [
        ("pick", {"by": "judge", "agent": "Debater 1", "answer": None, "status": "abstained"}, 0),
        ("pick", {"by": "judge", "answer": None, "status": "abstained"}, 1),
        ("extract", {"by": "judge", "answer": BAIKAL}, 0),
        ("extract", {"by": "judge", "answer": None, "status": "abstained"}, 1),
    ],
)
def test_what_could_not_be_read_from_the_judge_counts_under_its_stage(stage, fields, missed):
    failures = score([with_final([BAIKAL, None], stage, **fields)]).parse_failures
    assert failures[stage].value == missed
    assert set(failures) == {"select", "speak", stage}


def test_extractions_of_each_round_count_once_the_last_being_the_final_answer():
    extracted = Final(by="judge", status="abstained")
    entry = {"extracted": extracted}
    finished = with_final([BAIKAL, BAIKAL], "extract", entry=entry, by="judge", status="abstained")
    first = replace(finished.rounds[0], extracted=Final(by="judge", answer=BAIKAL))
    scores = score([replace(finished, rounds=(first, *finished.rounds))])
    assert scores.parse_failures["extract"].value == 0.5


def test_unreadable_reflections_count_and_failed_ones_do_not():
    finished = transcript("1", said=[BAIKAL, BAIKAL], consensus=None, answer=BAIKAL)
    (entry,) = finished.rounds
    found = (Reflection(satisfied=None, text="?"), Reflection(satisfied=None, error="HTTP 500"))
    turns = tuple(replace(turn, reflection=each) for turn, each in zip(entry.turns, found, strict=True))
    scores = score([replace(finished, rounds=(replace(entry, turns=turns),))])
    assert (scores.parse_failures["reflect"].n, scores.parse_failures["reflect"].value) == (1, 1.0)


def test_given_stances_are_nobodys_replies():
    given = transcript("1", said=[None, BAIKAL], consensus=True, answer=BAIKAL, given=True)
    (entry,) = given.rounds
    readable = (replace(entry.turns[1], agent=entry.turns[0].agent), entry.turns[1])
    scores = score([replace(given, rounds=(entry, replace(entry, n=2, turns=readable)))])
    assert scores.parse_failures["speak"].value == 0


def test_replies_to_one_question_are_one_observation():
    entries = [transcript("1", said=[None] * 9, consensus=False, answer=BAIKAL, repeat=n) for n in range(3)]
    entries.append(transcript("2", said=[BAIKAL], consensus=False, answer=BAIKAL))
    unread = score(entries).parse_failures["speak"]
    assert (unread.value, unread.n) == (0.5, 2)
    assert (unread.low, unread.high) == wilson(1, 2)


def test_replies_to_questions_of_several_datasets_are_clustered():
    entries = [
        transcript(f"{name}{n}", said=said, consensus=False, answer=BAIKAL, metadata={"dataset": name})
        for name, said, count in (("fever", [None], 50), ("hotpotqa", [BAIKAL], 25), ("nq_open", [BAIKAL], 25))
        for n in range(count)
    ]
    unread = score(entries).parse_failures["speak"]
    assert (unread.value, unread.low, unread.high) == (0.5, 0, 1)


def test_what_the_last_round_left_is_kept_beside_the_metrics():
    scores = score([transcript("1", said=[BAIKAL, TANGANYIKA], consensus=False, answer=BAIKAL)])
    left = {name: scores.debate[name].value for name in ("entropy", "log_likelihood", "disagreement")}
    assert left == {"entropy": 1, "log_likelihood": -1, "disagreement": 1}


def test_analyses_and_shortened_prompts_are_counted():
    plain = transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL)
    cut = replace(plain, final=replace(plain.final, cut=Cut(stances=1)))
    scores = score([plain, cut, replace(plain, oracle=True)])
    assert (scores.read_golds, scores.shortened) == (1, 1)


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


def test_a_judge_who_was_not_asked_about_every_question_makes_no_cons():
    asked = transcript("asked", said=[BAIKAL, TANGANYIKA], consensus=False, answer=BAIKAL)
    spared = replace(asked, id="spared", rounds=tuple(replace(entry, verdict=None) for entry in asked.rounds))
    assert score([asked]).cons_judge.value == 0
    assert (score([asked, spared]).cons_judge, score([asked, spared]).co2_judge) == (None, None)


def test_a_judge_who_settles_a_debate_finds_no_consensus():
    settled = transcript("settled", said=[BAIKAL, TANGANYIKA], consensus=True, answer=BAIKAL)
    settled = replace(settled, stop_reason="settled", final=replace(settled.final, by="judge"))
    assert (score([settled]).cons_judge, score([settled]).cons_matcher.value) == (None, 0)
