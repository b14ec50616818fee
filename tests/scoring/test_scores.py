from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Final, StageUsage, Transcript, Truncation
from madke.scoring.scores import Scores, scores_of
from madke.scoring.statistics import wilson
from tests.support.transcripts import transcript

BAIKAL, TANGANYIKA = "Lake Baikal", "Lake Tanganyika"


def test_cons_and_co2_go_by_judge_and_by_matcher() -> None:
    scores = scores_of(
        [
            transcript("agree, right", said=[BAIKAL, "the lake baikal"], consensus=True, answer=BAIKAL),
            transcript("agree, wrong", said=[TANGANYIKA, TANGANYIKA], consensus=True, answer=TANGANYIKA),
            transcript("only the judge says so", said=[BAIKAL, "the pearl of Siberia"], consensus=True, answer=BAIKAL),
            transcript("differ, right", said=[BAIKAL, TANGANYIKA], consensus=False, answer=BAIKAL),
        ]
    )
    assert scores.correct.value == 0.75
    assert (scores.debate["cons_judge"].value, scores.debate["co2_judge"].value) == (0.75, 0.5)
    assert (scores.debate["cons_matcher"].value, scores.debate["co2_matcher"].value) == (0.5, 0.25)
    assert scores.metrics["f1"].value == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert scores.stop_reasons == {"consensus": 3, "rounds": 1}


def test_what_could_not_be_read_never_counts_as_agreement_or_as_right() -> None:
    scores = scores_of([transcript("1", said=[None, None], consensus=None, answer=None)])
    assert (scores.debate["cons_judge"].value, scores.debate["cons_matcher"].value, scores.correct.value) == (0, 0, 0)
    assert (scores.abstained, scores.failed) == (1, 0)
    stages = {"speak": 1, "judge": 1, "summarize": 1, "select": 0}
    assert {stage: scores.parse_failures[stage].value for stage in stages} == stages


def test_an_honest_decline_is_wrong_but_not_unparsed() -> None:
    declined = transcript("1", said=[None, None], consensus=None, answer=None)
    (entry,) = declined.rounds
    turns = tuple(replace(turn, stance=replace(turn.stance, rule="declined")) for turn in entry.turns)
    final = replace(declined.final, rule="declined")
    scores = scores_of([replace(declined, rounds=(replace(entry, turns=turns),), final=final)])
    assert (scores.correct.value, scores.abstained) == (0, 1)
    assert (scores.parse_failures["speak"].value, scores.parse_failures["summarize"].value) == (0, 0)


def test_failed_questions_are_in_no_mean_and_bound_the_score() -> None:
    scores = scores_of(
        [
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL),
            transcript("2", said=[TANGANYIKA, BAIKAL], consensus=False, answer=TANGANYIKA),
            transcript("3", said=[BAIKAL, BAIKAL], consensus=True, answer=None, status="failed"),
        ]
    )
    assert (scores.questions, scores.failed, scores.correct.n) == (3, 1, 2)
    assert scores.correct.value == 0.5
    assert scores.correct_if_failed == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_given_stances_are_nobodys_replies() -> None:
    given = transcript("1", said=[None, BAIKAL], consensus=True, answer=BAIKAL, first_round_given=True)
    (entry,) = given.rounds
    readable = (replace(entry.turns[1], agent=entry.turns[0].agent), entry.turns[1])
    scores = scores_of([replace(given, rounds=(entry, replace(entry, n=2, turns=readable)))])
    assert scores.parse_failures["speak"].value == 0


def test_repeats_of_a_question_are_one_observation() -> None:
    scores = scores_of(
        [
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=0),
            transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=TANGANYIKA, repeat=1),
            transcript("2", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=0),
            transcript("2", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, repeat=1),
        ]
    )
    assert (scores.questions, scores.transcripts, scores.correct.n) == (2, 4, 2)
    assert scores.correct.value == 0.75


def test_without_gold_there_is_no_correct_but_there_is_cons() -> None:
    scores = scores_of([transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL, golds=())])
    assert scores.correct is None
    assert "co2_judge" not in scores.debate
    assert scores.debate["cons_judge"].value == 1


def test_a_judge_who_was_not_asked_about_every_question_makes_no_cons() -> None:
    asked = transcript("asked", said=[BAIKAL, TANGANYIKA], consensus=False, answer=BAIKAL)
    spared = replace(asked, id="spared", rounds=tuple(replace(entry, verdict=None) for entry in asked.rounds))
    assert scores_of([asked]).debate["cons_judge"].value == 0
    assert not {"cons_judge", "co2_judge"} & scores_of([asked, spared]).debate.keys()


def test_a_judge_who_settles_a_debate_finds_no_consensus() -> None:
    settled = transcript("settled", said=[BAIKAL, TANGANYIKA], consensus=True, answer=BAIKAL)
    settled = replace(settled, stop_reason="settled", final=replace(settled.final, by="judge"))
    found = scores_of([settled]).debate
    assert (found.get("cons_judge"), found["cons_matcher"].value) == (None, 0)


def graded(id_: str, said: list[str], answer: str | None = BAIKAL, **changes: Any) -> Transcript:
    return transcript(id_, said=said, consensus=said[0] == said[1], answer=answer, **changes)


def test_a_graders_co2_needs_no_grade_where_debaters_did_not_agree() -> None:
    entries = [graded("1", [BAIKAL, BAIKAL]), graded("2", [BAIKAL, TANGANYIKA]), graded("3", [BAIKAL, BAIKAL])]
    found = scores_of(entries, {"grader": {("1", 0): 1.0}}).debate
    assert (found["co2_judge_grader"].value, found["co2_judge_grader"].n) == (0.5, 2)
    assert found["co2_matcher_grader"] == found["co2_judge_grader"]
    assert "co2_judge_grader" not in scores_of(entries).debate


def test_missing_grades_are_counted_and_bound_the_grader() -> None:
    entries = [
        graded("1", [BAIKAL, BAIKAL]),
        graded("2", [BAIKAL, BAIKAL]),
        graded("2", [BAIKAL, BAIKAL], repeat=1),
        graded("3", [BAIKAL, BAIKAL], answer=None),
        graded("4", [BAIKAL, BAIKAL], golds=()),
        graded("5", [BAIKAL, BAIKAL], answer=None, status="failed"),
    ]
    scores = scores_of(entries, {"grader": {("1", 0): 1.0, ("2", 1): 0.0, ("3", 0): 0.0}})
    assert scores.ungraded == 1
    # Of questions 1 and 2: nobody asked about what abstained, failed or has no gold.
    assert (scores.parse_failures["grade"].value, scores.parse_failures["grade"].n) == (0.25, 2)
    assert scores.metrics["grader"].value == pytest.approx(1 / 3)
    alone = scores_of(entries)
    assert (alone.ungraded, "grade" in alone.parse_failures) == (0, False)


def test_rates_over_repeats_are_bootstrapped_over_questions() -> None:
    def run(repeats: int) -> Scores:
        return scores_of(
            [
                graded(f"q{n}", [BAIKAL, BAIKAL], answer=TANGANYIKA if (n, k) == (0, 1) else BAIKAL, repeat=k)
                for n in range(10)
                for k in range(repeats)
            ]
        )

    without, found = run(1), run(3)
    assert found.correct.value == pytest.approx(29 / 30)
    assert (found.correct.low, found.correct.high) == (pytest.approx(0.9), 1.0)
    assert (without.correct.low, without.correct.high) == wilson(10, 10)


def with_final(said: list[Any], used: str, *, entry: dict[str, Any] | None = None, **fields: Any) -> Transcript:
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
def test_what_could_not_be_read_from_the_judge_counts_under_its_stage(
    stage: str, fields: dict[str, Any], missed: int
) -> None:
    failures = scores_of([with_final([BAIKAL, None], stage, **fields)]).parse_failures
    assert failures[stage].value == missed
    assert set(failures) == {"select", "speak", stage}


def test_replies_to_one_question_are_one_observation() -> None:
    entries = [transcript("1", said=[None] * 9, consensus=False, answer=BAIKAL, repeat=n) for n in range(3)]
    entries.append(transcript("2", said=[BAIKAL], consensus=False, answer=BAIKAL))
    unread = scores_of(entries).parse_failures["speak"]
    assert (unread.value, unread.n) == (0.5, 2)
    assert (unread.low, unread.high) == wilson(1, 2)


def test_analyses_and_shortened_prompts_are_counted() -> None:
    plain = transcript("1", said=[BAIKAL, BAIKAL], consensus=True, answer=BAIKAL)
    cut = replace(plain, final=replace(plain.final, truncated=Truncation(stances=1)))
    scores = scores_of([plain, cut, replace(plain, oracle=True)])
    assert (scores.read_golds, scores.shortened) == (1, 1)
