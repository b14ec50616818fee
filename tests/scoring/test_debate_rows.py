"""Values of debates and of their rounds: golden vectors of the papers, and what must not count."""

import math
from dataclasses import replace
from typing import Any

import pytest

from madke.core.question import Question
from madke.core.transcript import Final, Reflection, Transcript, Verdict
from madke.scoring.debate_rows import DebateMeasures, entropy, log_likelihood, selection_values
from madke.scoring.metrics import METRICS
from madke.scoring.scores import scores_of
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate, pool, turn

# What stands after each round: golden vectors of the papers, and what must not count.


@pytest.mark.parametrize(
    ("said", "found"),
    [
        # Zhang et al., MADC, appendix
        ([RIGHT] * 8 + [WRONG, OTHER], {"entropy": 0.9219}),
        ([RIGHT] * 9 + [WRONG], {"log_likelihood": -0.152}),
        ([RIGHT] * 10, {"entropy": 0, "log_likelihood": 0}),
        ([RIGHT] * 5 + [WRONG] * 5, {"entropy": 1}),
        (["the lake baikal", RIGHT, WRONG, "lake tanganyika"], {"entropy": 1}),
        ([RIGHT, RIGHT, WRONG, WRONG, None, FAILED], {"entropy": 1}),
        ([RIGHT, None], {"log_likelihood": -1, "cons": 0, "disagreement": None}),
        ([WRONG] * 4, {"log_likelihood": -3}),  # nobody is right
        ([None, None], {"log_likelihood": -2, "accuracy": 0, "right": 0}),
        # Accuracy is that of the majority; in a tie, of the earliest debater's answer.
        ([RIGHT, WRONG, WRONG], {"accuracy": 0, "right": 1 / 3}),
        ([RIGHT, RIGHT, WRONG], {"accuracy": 1, "right": 2 / 3, "disagreement": 2 / 3}),
        ([WRONG, RIGHT], {"accuracy": 0, "right": 1 / 2, "cons": 0, "co2": 0}),
        ([RIGHT, WRONG], {"accuracy": 1, "right": 1 / 2, "cons": 0, "co2": 0}),
        ([None, None, RIGHT], {"accuracy": 1, "right": 1 / 3}),
        ([FAILED, RIGHT], {"accuracy": 1, "right": 1, "cons": 0}),
        # A round is consistent if all who spoke agree.
        ([RIGHT, "lake baikal"], {"cons": 1, "co2": 1, "disagreement": 0}),
        ([WRONG, WRONG], {"cons": 1, "co2": 0}),
        ([RIGHT, RIGHT, FAILED], {"cons": 1, "co2": 1, "log_likelihood": 0}),
        ([RIGHT, RIGHT, None], {"cons": 0, "disagreement": 0}),
        ([RIGHT, WRONG, OTHER], {"disagreement": 1}),
        ([RIGHT, WRONG, FAILED], {"disagreement": 1}),
    ],
)
def test_one_round(said: list[Any], found: dict[str, float | None]) -> None:
    (row,) = DebateMeasures(debate(said, answer=WRONG)).rounds
    assert {name: row.get(name) for name in found} == pytest.approx(found, abs=5e-4)


def test_golden_formulas() -> None:
    assert entropy([8, 1, 1]) == pytest.approx(0.9219, abs=5e-5)
    assert log_likelihood(0, 4) == -3


def test_the_earliest_debater_is_the_first_of_round_1_whoever_speaks_first_later() -> None:
    turned = debate([RIGHT, WRONG], [RIGHT, WRONG])
    second = replace(turned.rounds[1], turns=tuple(reversed(turned.rounds[1].turns)))
    assert [row["accuracy"] for row in DebateMeasures(replace(turned, rounds=(turned.rounds[0], second))).rounds] == [
        1,
        1,
    ]


def test_each_debater_is_compared_with_itself_one_round_before() -> None:
    rows = DebateMeasures(
        debate([RIGHT, WRONG, None], [RIGHT, RIGHT, RIGHT], [WRONG, "the Lake Baikal", FAILED])
    ).rounds
    assert [row.get("self_disagreement") for row in rows] == [None, 0.5, 0.5]
    before, after = debate([RIGHT, WRONG], [RIGHT, WRONG]).rounds
    after = replace(after, turns=(turn("B", WRONG), turn("A", RIGHT)))  # another order is no change
    assert DebateMeasures(debate([RIGHT, WRONG], rounds=(before, after))).rounds[1]["self_disagreement"] == 0


def test_a_debater_alone_agrees_with_nobody_but_can_change() -> None:
    first, second = DebateMeasures(debate([WRONG], [RIGHT])).rounds
    assert set(first) == {"accuracy", "right"}
    assert set(second) == {"accuracy", "right", "self_disagreement"}


def test_without_gold_and_for_degrees_nothing_is_right_or_wrong() -> None:
    (row,) = DebateMeasures(debate([RIGHT, WRONG], golds=())).rounds
    assert set(row) == {"cons", "entropy", "disagreement"}
    (row,) = DebateMeasures(debate(["a deep lake", "a lake"], golds=("a deep lake",), task="translation")).rounds
    assert row["accuracy"] == 1
    assert not {"right", "log_likelihood"} & set(row)


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
    scores = scores_of([debate([WRONG, WRONG], repeat=0), debate([RIGHT, RIGHT], [RIGHT, RIGHT], repeat=1)])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(0.5, 1), (0.5, 1)]
    failed = debate([WRONG, WRONG], status="failed", answer=None, final=Final(by="majority", error="HTTP 500"))
    scores = scores_of([failed, debate([RIGHT, RIGHT], id_="2")])
    assert [(value.value, value.n) for value in scores.by_round["accuracy"]] == [(1, 1)]
    assert scores_of([failed]).by_round == {}


def test_an_agent_that_is_satisfied_at_once_does_not_disagree_with_itself() -> None:
    satisfied = [debate([RIGHT], id_=f"satisfied {n}") for n in range(3)]
    scores = scores_of([*satisfied, debate([WRONG], [OTHER], [WRONG], id_="revising")])
    assert [value and value.value for value in scores.by_round["self_disagreement"]] == [None, 0.25, 0.25]


# What a debate did to the answer.


FLIPS = ("corrected", "collapsed", "oracle")


@pytest.mark.parametrize(
    ("rounds", "answer", "flips"),
    [
        ([[WRONG, WRONG, RIGHT], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 1)),
        ([[WRONG, WRONG, OTHER], [RIGHT, RIGHT, RIGHT]], RIGHT, (1, 0, 0)),
        ([[RIGHT, RIGHT, WRONG], [WRONG, WRONG, WRONG]], WRONG, (0, 1, 1)),
        ([[RIGHT, RIGHT, WRONG], [RIGHT, RIGHT, RIGHT]], RIGHT, (0, 0, 1)),
        ([[WRONG, WRONG, WRONG], [WRONG, WRONG, WRONG]], WRONG, (0, 0, 0)),
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


def test_corrections_and_collapses_account_for_the_way_from_the_first_round_to_the_end() -> None:
    scores = scores_of(
        [
            debate([WRONG, RIGHT], [RIGHT, RIGHT], id_="1"),
            debate([RIGHT, RIGHT], [WRONG, WRONG], answer=WRONG, id_="2"),
            debate([WRONG, WRONG], answer=RIGHT, id_="3"),
        ]
    )
    first, found = scores.by_round["accuracy"][0].value, scores.debate
    assert first + found["corrected"].value - found["collapsed"].value == pytest.approx(scores.correct.value)
    assert (found["corrected"].value, found["corrected"].n) == (pytest.approx(2 / 3), 3)


@pytest.mark.parametrize(
    "finished",
    [
        debate([RIGHT]),
        debate([RIGHT, WRONG], golds=()),
        debate(["a lake", "the sea"], answer="a lake", golds=("a lake",), task="translation"),
    ],
)
def test_a_single_turn_an_unknown_answer_and_a_metric_of_degrees_have_no_corrections(finished: Transcript) -> None:
    assert not set(FLIPS) & set(DebateMeasures(finished).row)


def judged(
    *, agent: str | None = None, side: str | None = None, consensus: bool = True, answer: str | None = RIGHT
) -> Transcript:
    final = Final(by="judge", answer=answer, status="ok" if answer else "abstained", agent=agent)
    played = debate([RIGHT, WRONG], answer=answer, final=final)
    (entry,) = played.rounds
    verdict = Verdict(consensus=consensus, side=side)
    rounds = (type(entry)(n=1, order=(), turns=entry.turns, verdict=verdict),)
    return debate([RIGHT, WRONG], answer=answer, final=final, rounds=rounds)


def sides(finished: Transcript) -> dict[str, Any]:
    return {
        name: value
        for name, value in DebateMeasures(finished).row.items()
        if name.startswith(("sided_with_", "judge_tie"))
    }


@pytest.mark.parametrize(
    ("finished", "found"),
    [
        (judged(agent="B"), (0, 1, 0)),
        (judged(side="A"), (1, 0, 0)),  # settled, and the answer extracted in a call of its own
        (judged(), (0, 0, 1)),
        (judged(side="A", consensus=False), (0, 0, 1)),  # leaning to one side is not settling
    ],
)
def test_a_judge_who_takes_the_answer_sides_with_one_debater_or_none(
    finished: Transcript, found: tuple[int, ...]
) -> None:
    assert sides(finished) == dict(zip(("sided_with_A", "sided_with_B", "judge_tie"), found, strict=True))


def test_a_judge_who_could_not_be_read_is_on_no_side_and_makes_no_tie() -> None:
    assert sides(judged(answer=None)) == {}
    assert sides(debate([RIGHT, WRONG])) == {}


LISTED = {"wrong_answers": [WRONG, OTHER]}


@pytest.mark.parametrize(
    ("answer", "trapped"),
    [
        ("the lake tanganyika", 1),
        (RIGHT, 0),
        ("Lake Superior", 0),  # wrong, but no trap
        (None, 0),
    ],
)
def test_a_listed_wrong_answer_is_a_trap(answer: str | None, trapped: int) -> None:
    assert DebateMeasures(debate([WRONG, RIGHT], answer=answer, metadata=LISTED)).row["trapped"] == trapped


@pytest.mark.parametrize("metadata", [{}, {"wrong_answers": []}, {"wrong_answers": "Lake Tanganyika"}])
def test_without_a_list_there_is_no_trap(metadata: dict[str, Any]) -> None:
    assert "trapped" not in DebateMeasures(debate([WRONG, WRONG], answer=WRONG, metadata=metadata)).row


RAMDOCS = {"dataset": "ramdocs", "wrong_answers": [WRONG]}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("American football; ice hockey", 1),
        ("He played ice hockey and American football.", 1),
        ("Ice hockey", 0),  # one of two
        ("American football, ice hockey, basketball", 0),  # with a wrong one
        ("American football; ice hockey; a kind of basketball", 0),
        ("Rugby", 0),
    ],
)
def test_an_answer_names_all_golds_and_no_wrong_one(answer: str, right: int) -> None:
    asked = Question(
        question="Which sport is he known for?",
        answers=("American football", "Ice hockey"),
        metadata={"wrong_answers": ["Basketball", "football", "Ice Hockey"]},  # one within a gold, one that is a gold
    )
    assert METRICS["all_golds"](answer, asked) == right
    dated = Question(question="When was he born?", answers=("15 May 1885", "1924"))
    assert METRICS["all_golds"]("May 15, 1885; in 1924", dated) == 1
    assert METRICS["all_golds"]("May 16, 1885; in 1924", dated) == 0


def test_only_ramdocs_has_the_measure_and_no_answer_is_wrong() -> None:
    assert DebateMeasures(debate([RIGHT], metadata=RAMDOCS)).row["all_golds"] == 1
    assert DebateMeasures(debate([None], answer=None, metadata=RAMDOCS)).row["all_golds"] == 0
    assert "all_golds" not in DebateMeasures(debate([RIGHT], metadata={"wrong_answers": [WRONG]})).row


def test_what_is_accepted_as_right_is_no_trap() -> None:
    assert DebateMeasures(debate([RIGHT, RIGHT], metadata={"wrong_answers": [RIGHT, WRONG]})).row["trapped"] == 0


# What debaters took from the pool.


POOL = pool(
    ("wiki", "w0", "Lake Baikal"),
    ("wiki", "w1", "Lake Baikal"),
    ("wiki", "w2", "Great Lakes"),
    ("google", "g3", "Deepest lakes"),
)
BOTH = (RIGHT, WRONG)


def values(*selected: list[Any], **metadata: Any) -> dict[str, float]:
    said = [BOTH[: len(ids)] for ids in selected]
    return selection_values(debate(*said, selected=selected, pool=POOL, metadata=metadata))


def test_every_passage_of_a_gold_page_is_evidence_and_the_page_is_found_once() -> None:
    found = values([(0, 1), (1, 2)], gold_titles=["lake_baikal", "Great Lakes", "Lake Superior"])
    assert found["pool_recall"] == pytest.approx(2 / 3)
    assert found["selection_precision"] == 1
    # Of the two pages in the pool the first debater holds one, the second both.
    assert found["selection_recall"] == pytest.approx((1 / 2 + 1) / 2)


def test_gold_passages_are_known_by_their_keys_and_come_before_titles() -> None:
    found = values([(0, 2), (1, 2, 3)], gold_passages=["w1", "elsewhere"], gold_titles=["Great Lakes"])
    assert found["pool_recall"] == 0.5
    assert found["selection_precision"] == pytest.approx((0 + 1 / 3) / 2)
    assert found["selection_recall"] == 0.5


def test_selections_that_decline_have_no_precision_and_failed_ones_are_left_out() -> None:
    found = values([(), (0,)], [None, (3,)], gold_titles=["Lake Baikal"])
    assert (found["no_found"], found["selected_ids"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (found["selection_precision"], found["selection_recall"]) == (1 / 2, pytest.approx(1 / 3))
    nothing = values([(), ()], gold_titles=["Lake Baikal"])
    assert nothing["selection_recall"] == 0
    assert "selection_precision" not in nothing


def test_where_the_pool_holds_no_gold_only_the_pool_is_to_blame() -> None:
    found = values([(0,), (1,)], gold_titles=["Lake Vostok"])
    assert found["pool_recall"] == 0
    assert not {"selection_precision", "selection_recall"} & set(found)
    assert "pool_recall" not in values([(0,), (1,)])


def test_what_a_debater_searched_for_is_not_what_was_retrieved() -> None:
    searched = replace(POOL[2], asked_by="A", round=1)
    grown = debate(BOTH, selected=[[(2,), (0,)]], pool=(*POOL[:2], searched), metadata={"gold_titles": ["Great Lakes"]})
    assert selection_values(grown)["pool_recall"] == 0
    grown = replace(grown, metadata={"gold_titles": ["Lake Baikal", "Great Lakes"]})
    found = selection_values(grown)
    assert (found["pool_recall"], found["selection_precision"], found["selection_recall"]) == (0.5, 1, 0.5)


def test_selections_of_misinformation() -> None:
    assert values([(0,), (2, 3)], [(1,), (3,)], misinformation_passages=["g3"])["misinformation_selected"] == 0.5
    assert "misinformation_selected" not in values([(0,), (2,)], misinformation_passages=["absent"])


def test_given_first_rounds_are_nobodys_selections() -> None:
    found = selection_values(debate(BOTH, BOTH, selected=[[(), ()], [(0,), (0, 1)]], pool=POOL, first_round_given=True))
    assert (found["no_found"], found["selected_ids"]) == (0, 1.5)


def test_without_selections_only_the_pool_is_measured() -> None:
    untouched = debate(BOTH, selected=[[None, None]], pool=POOL, metadata={"gold_titles": ["Lake Baikal"]})
    assert selection_values(untouched) == {"pool_recall": 1}
    assert selection_values(replace(untouched, pool=())) == {}


def test_what_could_not_be_read_chose_nothing_and_declined_nothing() -> None:
    unread = debate(BOTH, selected=[[(), ()]], pool=POOL)
    (entry,) = unread.rounds
    selection = replace(entry.turns[0].selection, status="abstained", rule="none")
    turns = (replace(entry.turns[0], selection=selection), entry.turns[1])
    found = selection_values(replace(unread, rounds=(replace(entry, turns=turns),)))
    assert (found["no_found"], found["selected_ids"]) == (0.5, 0)


# Who follows whom, from a first round that was given.


def debated(given: list[Any], after: list[Any], **changes: Any) -> Transcript:
    return debate(given, after, first_round_given=True, **changes)


@pytest.mark.parametrize(
    ("given", "after", "found"),
    [
        ([RIGHT, WRONG], [RIGHT, WRONG], (0, 0, 0)),
        ([RIGHT, WRONG], [WRONG, RIGHT], (1, 0, 1)),
        ([WRONG, RIGHT], [RIGHT, None], (0, 1, 1)),
        ([RIGHT, RIGHT, WRONG], [WRONG, RIGHT, "Loch Ness"], (0.5, 0, 0)),
        ([RIGHT, WRONG, None], [RIGHT, RIGHT, WRONG], (0, 0, 1)),
    ],
)
def test_shares_are_of_the_debaters_with_that_stance(given: list[Any], after: list[Any], found: Any) -> None:
    names = ("right_to_wrong", "right_to_none", "wrong_to_right")
    values = DebateMeasures(debated(given, after)).changes_of_mind()
    assert tuple(values[name] for name in names) == found
    assert values.items() <= DebateMeasures(debated(given, after)).row.items()


def test_a_failed_call_is_no_change_of_mind() -> None:
    assert DebateMeasures(debated([RIGHT, WRONG], [FAILED, RIGHT])).changes_of_mind() == {"wrong_to_right": 1}


@pytest.mark.parametrize(
    "other",
    [
        debate([RIGHT, WRONG], [WRONG, WRONG]),
        debate([RIGHT, WRONG], first_round_given=True),
        debated([RIGHT, RIGHT], [WRONG, RIGHT]),
        debated([RIGHT, WRONG], [WRONG, WRONG], answers=()),
    ],
)
def test_other_debates_have_no_such_values(other: Transcript) -> None:
    assert DebateMeasures(other).changes_of_mind() == {}


def test_stances_of_one_kind_follow_nobody() -> None:
    assert DebateMeasures(debated([RIGHT, RIGHT], [WRONG, RIGHT])).changes_of_mind() == {}
    assert DebateMeasures(debated([WRONG, None], [RIGHT, RIGHT])).changes_of_mind() == {}


# Diversity of the translations of a debate, against the formula.


SHORT, LONG = "a b c d", "a b c d e f"


def translated(
    *rounds: list[Any], answer: str | None = SHORT, golds: tuple[str, ...] = (SHORT,), **changes: Any
) -> Transcript:
    return debate(*rounds, answer=answer, golds=golds, task="translation", **changes)


def test_diversity_is_what_bleu_in_both_directions_leaves() -> None:
    # SHORT against LONG: all n-grams right, brevity exp(1 - 6/4). LONG against SHORT: 4/6, 3/5, 2/4 and 1/3.
    bleus = math.exp(1 - 6 / 4), (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert DebateMeasures(translated([SHORT], [LONG])).diversity()["diversity"] == pytest.approx(1 - sum(bleus) / 2)


def test_samples_that_read_nothing_are_no_two_translations_of_a_debate() -> None:
    assert DebateMeasures(translated([SHORT, LONG])).diversity() == {}
    sequential = translated([SHORT, LONG])
    (entry,) = sequential.rounds
    first, last = entry.turns
    read = replace(entry, turns=(first, replace(last, reads=(first.agent,))))
    assert DebateMeasures(replace(sequential, rounds=(read,))).diversity()["diversity"] > 0


def test_the_base_is_the_first_translation_and_the_current_one_the_last() -> None:
    assert DebateMeasures(translated([SHORT, LONG], [LONG, SHORT])).diversity()["diversity"] == 0
    assert DebateMeasures(translated([SHORT], [SHORT], ["x y z w"])).diversity()["diversity"] > 0.8


def test_a_translation_that_its_author_is_satisfied_with_did_not_move() -> None:
    alone = translated([SHORT])
    (entry,) = alone.rounds
    reviewed = replace(entry, turns=(replace(entry.turns[0], reflection=Reflection(satisfied=True)),))
    assert DebateMeasures(alone).diversity() == {}
    assert DebateMeasures(replace(alone, rounds=(reviewed,))).diversity() == {"diversity": 0}


@pytest.mark.parametrize(
    "finished", [translated([None, LONG]), translated([SHORT, None]), debate([SHORT, LONG], answer=SHORT)]
)
def test_two_translations_are_needed(finished: Transcript) -> None:
    assert "diversity" not in DebateMeasures(finished).row
