"""Values of debates and of their rounds: golden vectors of the papers, and what must not count."""

import math
from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Final, Reflection, Selection, Transcript, Verdict
from madke.scoring.debate_rows import DebateMeasures, selection_values
from madke.scoring.metrics import unit_of
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate, pool, turn


def with_turn(finished: Transcript, n: int, **changes: Any) -> Transcript:
    """The same with other fields in one turn of its only round."""
    (entry,) = finished.rounds
    turns = [replace(each, **changes) if place == n else each for place, each in enumerate(entry.turns)]
    return replace(finished, rounds=(replace(entry, turns=tuple(turns)),))


# After each round


@pytest.mark.parametrize(
    ("said", "found"),
    [
        # Zhang et al., MADC, appendix
        ([RIGHT] * 8 + [WRONG, OTHER], {"entropy": 0.9219}),
        ([RIGHT] * 9 + [WRONG], {"log_likelihood": -0.152}),
        # Answers are grouped by the matcher. Those that are missing are in no group.
        (["the lake baikal", RIGHT, WRONG, "lake tanganyika"], {"entropy": 1}),
        ([RIGHT, RIGHT, WRONG, WRONG, None, FAILED], {"entropy": 1}),
        ([RIGHT, None], {"log_likelihood": -1, "cons": 0, "disagreement": None}),
        ([WRONG] * 4, {"log_likelihood": -3}),  # nobody is right
        ([None, None], {"log_likelihood": -2, "accuracy": 0, "right": 0}),
        # Accuracy is that of the majority; in a tie, of the earliest debater's answer.
        ([RIGHT, WRONG, WRONG], {"accuracy": 0, "right": 1 / 3, "disagreement": 2 / 3}),
        ([WRONG, RIGHT], {"accuracy": 0, "right": 1 / 2, "cons": 0, "co2": 0}),
        ([RIGHT, WRONG], {"accuracy": 1, "right": 1 / 2, "cons": 0, "co2": 0}),
        # A round is consistent if all who spoke agree.
        ([RIGHT, "lake baikal"], {"cons": 1, "co2": 1, "disagreement": 0, "entropy": 0, "log_likelihood": 0}),
        ([WRONG, WRONG], {"cons": 1, "co2": 0}),
        ([RIGHT, RIGHT, FAILED], {"cons": 1, "co2": 1, "log_likelihood": 0}),
        ([RIGHT, RIGHT, None], {"cons": 0, "disagreement": 0}),
    ],
)
def test_one_round(said: list[Any], found: dict[str, float | None]) -> None:
    (row,) = DebateMeasures(debate(said, answer=WRONG)).rounds
    assert {name: row.get(name) for name in found} == pytest.approx(found, abs=5e-4)


def test_the_earliest_debater_is_the_first_of_round_1_whoever_speaks_first_later() -> None:
    spoken = debate([RIGHT, WRONG], [RIGHT, WRONG])
    second = replace(spoken.rounds[1], turns=spoken.rounds[1].turns[::-1])
    measures = DebateMeasures(replace(spoken, rounds=(spoken.rounds[0], second)))
    assert [row["accuracy"] for row in measures.rounds] == [1, 1]


def test_each_debater_is_compared_with_itself_one_round_before() -> None:
    rounds = [RIGHT, WRONG, None], [RIGHT, RIGHT, RIGHT], [WRONG, "the Lake Baikal", FAILED]
    assert [row.get("self_disagreement") for row in DebateMeasures(debate(*rounds)).rounds] == [None, 0.5, 0.5]
    before, after = debate([RIGHT, WRONG], [RIGHT, WRONG]).rounds
    after = replace(after, turns=(turn("B", WRONG), turn("A", RIGHT)))  # another order is no change
    assert DebateMeasures(debate([RIGHT, WRONG], rounds=(before, after))).rounds[1]["self_disagreement"] == 0


def test_what_does_not_apply_to_a_round_is_missing() -> None:
    first, second = DebateMeasures(debate([WRONG], [RIGHT])).rounds
    assert set(first) == {"accuracy", "right"}
    assert set(second) == {"accuracy", "right", "self_disagreement"}
    (without_gold,) = DebateMeasures(debate([RIGHT, WRONG], golds=())).rounds
    assert set(without_gold) == {"cons", "entropy", "disagreement"}
    (of_degrees,) = DebateMeasures(debate(["the lake", "a sea"], golds=("the lake",), task="translation")).rounds
    assert set(of_degrees) == {"accuracy", "cons", "co2", "entropy", "disagreement"}


def test_a_debate_that_has_ended_keeps_what_it_held_and_changes_no_more() -> None:
    scores = scores_of(
        [
            debate([RIGHT, RIGHT], id_="one round"),
            debate([WRONG, RIGHT], [RIGHT, RIGHT], id_="two"),
            debate([WRONG, OTHER], [WRONG, RIGHT], [RIGHT, RIGHT], id_="three"),
        ]
    )
    found = {name: [value and (value.value, value.n) for value in values] for name, values in scores.by_round.items()}
    third = pytest.approx(1 / 3)
    assert found["accuracy"] == [(third, 3), (pytest.approx(2 / 3), 3), (1, 3)]
    assert found["cons"] == [(third, 3), (pytest.approx(2 / 3), 3), (1, 3)]
    assert found["disagreement"] == [(pytest.approx(2 / 3), 3), (third, 3), (0, 3)]
    # Liang et al., Figure 1, is about all questions: who is satisfied disagrees with itself in 0 further iterations.
    assert found["self_disagreement"] == [None, (third, 3), (pytest.approx(1 / 6), 3)]


def test_repeats_are_one_question_in_each_round_and_failed_debates_are_in_none() -> None:
    failed = debate([WRONG, WRONG], status="failed", answer=None, final=Final(by="majority", error="HTTP 500"))
    repeats = debate([WRONG, WRONG], repeat=0), debate([RIGHT, RIGHT], [RIGHT, RIGHT], repeat=1)
    scores = scores_of([*repeats, replace(failed, id="2")])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(0.5, 1), (0.5, 1)]
    assert scores_of([failed]).by_round == {}


# What a debate did to the answer

FLIPS = ("corrected", "collapsed", "oracle")


@pytest.mark.parametrize(
    ("rounds", "answer", "flips"),
    [
        ([[WRONG, WRONG, RIGHT], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 1)),
        ([[RIGHT, RIGHT, WRONG], [WRONG, WRONG, WRONG]], WRONG, (0, 1, 1)),
        ([[RIGHT, RIGHT, WRONG], [RIGHT, RIGHT, RIGHT]], RIGHT, (0, 0, 1)),
        # Right only later is no oracle, and the majority that counts is the first one.
        ([[WRONG, WRONG, OTHER], [RIGHT, RIGHT, RIGHT]], WRONG, (0, 0, 0)),
        # Nobody could be read at first; an abstention at the end is wrong.
        ([[None, None, FAILED], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 0)),
        ([[RIGHT, RIGHT, None], [RIGHT, RIGHT, RIGHT]], None, (0, 1, 1)),
    ],
)
def test_the_final_answer_is_held_against_the_first_round(
    rounds: list[Any], answer: str | None, flips: tuple[int, ...]
) -> None:
    values = DebateMeasures(debate(*rounds, answer=answer)).row
    assert tuple(values[name] for name in FLIPS) == flips


@pytest.mark.parametrize(
    "finished",
    [
        debate([RIGHT]),
        debate([RIGHT, WRONG], golds=()),
        debate(["a lake", "the sea"], answer="a lake", golds=("a lake",), task="translation"),
    ],
    ids=["a single turn", "an unknown answer", "a metric of degrees"],
)
def test_nothing_is_corrected(finished: Transcript) -> None:
    assert not set(FLIPS) & set(DebateMeasures(finished).row)


@pytest.mark.parametrize(
    ("answer", "listed", "trapped"),
    [
        ("the lake tanganyika", [WRONG, OTHER], 1),
        ("Lake Superior", [WRONG, OTHER], 0),  # wrong, but no trap
        (None, [WRONG, OTHER], 0),
        (RIGHT, [RIGHT, WRONG], 0),  # accepted as right
        (WRONG, [], None),
        (WRONG, WRONG, None),  # no list
    ],
)
def test_a_listed_wrong_answer_is_a_trap(answer: str | None, listed: Any, trapped: int | None) -> None:
    finished = debate([WRONG, RIGHT], answer=answer, metadata={"wrong_answers": listed})
    assert DebateMeasures(finished).row.get("trapped") == trapped


def test_only_ramdocs_asks_for_all_golds_and_no_answer_is_wrong() -> None:
    ramdocs = {"dataset": "ramdocs", "wrong_answers": [WRONG]}
    assert DebateMeasures(debate([RIGHT], metadata=ramdocs)).row["all_golds"] == 1
    assert DebateMeasures(debate([None], answer=None, metadata=ramdocs)).row["all_golds"] == 0
    assert "all_golds" not in DebateMeasures(debate([RIGHT], metadata={"wrong_answers": [WRONG]})).row


# What a judge and a summarizer did


def judged(
    *said: Any, by: str = "majority", answer: str | None = RIGHT, agent: str | None = None, **verdict: Any
) -> Transcript:
    """A debate of one round that a judge has read; ``by``: who gave its final answer."""
    final = Final(by=by, answer=answer, status="ok" if answer else "abstained", agent=agent)
    played = debate(said, answer=answer, final=final)
    return replace(played, rounds=(replace(played.rounds[0], verdict=Verdict(**{"text": "...", **verdict})),))


def sides(finished: Transcript) -> list[float | None]:
    values = DebateMeasures(finished).row
    return [values.get(name) for name in ("sided_with_A", "sided_with_B", "judge_tie")]


def test_a_judge_who_takes_the_answer_sides_with_one_debater_or_none() -> None:
    assert sides(judged(RIGHT, WRONG, by="judge", consensus=True, agent="B")) == [0, 1, 0]
    # Settled, and the answer extracted in a call of its own. Leaning to one side is not settling.
    assert sides(judged(RIGHT, WRONG, by="judge", consensus=True, side="A")) == [1, 0, 0]
    assert sides(judged(RIGHT, WRONG, by="judge", consensus=False, side="A")) == [0, 0, 1]
    assert sides(judged(RIGHT, WRONG, by="judge", consensus=True)) == [0, 0, 1]
    # Who could not be read is on no side and makes no tie.
    assert sides(judged(RIGHT, WRONG, by="judge", consensus=True, answer=None)) == [None, None, None]
    assert sides(debate([RIGHT, WRONG])) == [None, None, None]


@pytest.mark.parametrize(
    ("said", "consensus", "wrong"),
    [
        ([RIGHT, "baikal"], True, {"false_same": 0}),
        ([RIGHT, WRONG], True, {"false_same": 1}),
        ([RIGHT, None], True, {"false_same": 1}),
        ([RIGHT, WRONG], False, {"false_different": 0}),
        ([RIGHT, "baikal"], False, {"false_different": 1}),
    ],
)
def test_a_verdict_is_held_against_the_matcher(said: list[str | None], consensus: bool, wrong: dict[str, int]) -> None:
    assert DebateMeasures(judged(*said, consensus=consensus)).judge_values() == wrong


def test_a_verdict_without_a_call_and_a_judge_that_takes_the_answer_are_left_out() -> None:
    assert DebateMeasures(judged(RIGHT, WRONG, consensus=True, by="judge")).judge_values() == {}
    assert DebateMeasures(judged(RIGHT, WRONG, consensus=True, text="")).judge_values() == {}


@pytest.mark.parametrize(("answer", "new"), [(RIGHT, 0.0), ("Lake Superior", 1.0)])
def test_a_summary_is_held_against_all_answers_of_the_debaters(answer: str, new: float) -> None:
    values = DebateMeasures(judged(RIGHT, WRONG, consensus=False, answer=answer, by="summarizer")).judge_values()
    assert values == {"false_different": 0.0, "new_summary": new}


# What debaters took from the pool

POOL = pool(
    ("wiki", "w0", "Lake Baikal"),
    ("wiki", "w1", "Lake Baikal"),
    ("wiki", "w2", "Great Lakes"),
    ("google", "g3", "Deepest lakes"),
)
BOTH = (RIGHT, WRONG)
BAIKAL, LAKES = "Lake Baikal", "Great Lakes"


@pytest.mark.parametrize(
    ("selected", "metadata", "found"),
    [
        # Every passage of a gold page is evidence, and the page is found once: the first debater holds one of the two
        # in the pool, the second both.
        (
            [[(0, 1), (1, 2)]],
            {"gold_titles": ["lake_baikal", LAKES, "Lake Superior"]},
            {"pool_recall": 2 / 3, "selection_precision": 1, "selection_recall": (1 / 2 + 1) / 2},
        ),
        # Gold passages are known by their keys, and come before titles.
        (
            [[(0, 2), (1, 2, 3)]],
            {"gold_passages": ["w1", "elsewhere"], "gold_titles": [LAKES]},
            {"pool_recall": 1 / 2, "selection_precision": (0 + 1 / 3) / 2, "selection_recall": 1 / 2},
        ),
        # Selections that decline have no precision, and failed ones are left out.
        (
            [[(), (0,)], [None, (3,)]],
            {"gold_titles": [BAIKAL]},
            {"no_found": 1 / 3, "selected_ids": 2 / 3, "selection_precision": 1 / 2, "selection_recall": 1 / 3},
        ),
        # Where the pool holds no gold, only the pool is to blame.
        (
            [[(0,), (1,)]],
            {"gold_titles": ["Lake Vostok"]},
            {"pool_recall": 0, "selection_precision": None, "selection_recall": None},
        ),
        ([[(0,), (2, 3)], [(1,), (3,)]], {"misinformation_passages": ["g3"]}, {"misinformation_selected": 1 / 2}),
        ([[(0,), (2,)]], {"misinformation_passages": ["absent"]}, {"misinformation_selected": None}),
    ],
)
def test_selections(selected: list[Any], metadata: dict[str, Any], found: dict[str, float | None]) -> None:
    played = debate(*[BOTH] * len(selected), selected=selected, pool=POOL, metadata=metadata)
    values = selection_values(played)
    assert {name: values.get(name) for name in found} == pytest.approx(found)


def test_what_a_debater_searched_for_is_not_what_was_retrieved() -> None:
    searched = replace(POOL[2], asked_by="A", round=1)
    gold = {"gold_titles": [BAIKAL, LAKES]}
    found = selection_values(debate(BOTH, selected=[[(2,), (0,)]], pool=(*POOL[:2], searched), metadata=gold))
    assert (found["pool_recall"], found["selection_precision"], found["selection_recall"]) == (0.5, 1, 0.5)


def test_what_was_not_selected_is_not_counted() -> None:
    given = debate(BOTH, BOTH, selected=[[(), ()], [(0,), (0, 1)]], pool=POOL, first_round_given=True)
    found = selection_values(given)
    assert (found["no_found"], found["selected_ids"]) == (0, 1.5), "a given first round is nobody's selection"
    untouched = debate(BOTH, selected=[[None, None]], pool=POOL, metadata={"gold_titles": [BAIKAL]})
    assert selection_values(untouched) == {"pool_recall": 1}
    assert selection_values(replace(untouched, pool=())) == {}
    unread = Selection(status="abstained", rule="none")
    found = selection_values(with_turn(debate(BOTH, selected=[[(), ()]], pool=POOL), 0, selection=unread))
    assert (found["no_found"], found["selected_ids"]) == (0.5, 0), "what could not be read declined nothing"


# Who follows whom, from a first round that was given


@pytest.mark.parametrize(
    ("given", "after", "found"),
    [
        ([RIGHT, WRONG], [RIGHT, WRONG], (0, 0, 0)),
        ([RIGHT, WRONG], [WRONG, RIGHT], (1, 0, 1)),
        ([WRONG, RIGHT], [RIGHT, None], (0, 1, 1)),
        ([RIGHT, RIGHT, WRONG], [WRONG, RIGHT, OTHER], (0.5, 0, 0)),
        ([RIGHT, WRONG], [FAILED, RIGHT], (None, None, 1)),  # a failed call is no change of mind
        # If all debaters are right, or none is, following cannot be measured.
        ([RIGHT, RIGHT], [WRONG, RIGHT], (None, None, None)),
        ([WRONG, None], [RIGHT, RIGHT], (None, None, None)),
    ],
)
def test_shares_are_of_the_debaters_with_that_stance(given: list[Any], after: list[Any], found: Any) -> None:
    row = DebateMeasures(debate(given, after, first_round_given=True)).row
    assert tuple(row.get(name) for name in ("right_to_wrong", "right_to_none", "wrong_to_right")) == found


def test_minds_change_only_after_a_given_round_and_with_gold_answers() -> None:
    rounds = [RIGHT, WRONG], [WRONG, WRONG]
    assert DebateMeasures(debate(*rounds)).changes_of_mind() == {}
    assert DebateMeasures(debate(rounds[0], first_round_given=True)).changes_of_mind() == {}
    assert DebateMeasures(debate(*rounds, first_round_given=True, answers=())).changes_of_mind() == {}


# Diversity of the translations of a debate, against the formula

SHORT, LONG = "a b c d", "a b c d e f"


def diversity(finished: Transcript) -> float | None:
    return DebateMeasures(finished).diversity().get("diversity")


def translated(*rounds: list[Any], **changes: Any) -> Transcript:
    return debate(*rounds, answer=SHORT, golds=(SHORT,), task="translation", **changes)


def test_diversity_is_what_bleu_in_both_directions_leaves() -> None:
    # SHORT against LONG: all n-grams right, brevity exp(1 - 6/4). LONG against SHORT: 4/6, 3/5, 2/4 and 1/3.
    bleus = math.exp(1 - 6 / 4), (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert diversity(translated([SHORT], [LONG])) == pytest.approx(1 - sum(bleus) / 2)


def test_the_base_is_the_first_translation_and_the_current_one_the_last() -> None:
    assert diversity(translated([SHORT, LONG], [LONG, SHORT])) == 0
    assert diversity(translated([SHORT], [SHORT], ["x y z w"])) > 0.8


def test_the_last_translation_follows_from_the_first_where_it_read_or_reviewed_it() -> None:
    samples, alone = translated([SHORT, LONG]), translated([SHORT])
    assert diversity(samples) is None
    assert diversity(with_turn(samples, 1, reads=("A",))) > 0
    assert diversity(alone) is None
    assert diversity(with_turn(alone, 0, reflection=Reflection(satisfied=True))) == 0


@pytest.mark.parametrize(
    "finished", [translated([None], [LONG]), translated([SHORT], [None]), debate([SHORT], [LONG], answer=SHORT)]
)
def test_two_translations_are_needed(finished: Transcript) -> None:
    assert "diversity" not in DebateMeasures(finished).row


def test_all_values_of_debates_and_rounds_have_a_unit() -> None:
    debates = [
        debate([WRONG, RIGHT], [RIGHT, RIGHT], selected=[[(0,), ()], [(0,), (0,)]], pool=POOL),
        debate([WRONG, RIGHT], [RIGHT, RIGHT], first_round_given=True, metadata={"wrong_answers": [WRONG]}),
        translated(["a lake"], ["the lake"]),
    ]
    rows = [row for each in debates for row in (DebateMeasures(each).row, *DebateMeasures(each).rounds)]
    names = {name for row in rows for name in row}
    assert len(names) > 20
    assert {name for name in names if unit_of(name) is None} == set()
