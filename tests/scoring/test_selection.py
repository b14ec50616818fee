"""What debaters took from the pool."""

from dataclasses import replace
from typing import Any

import pytest

from madke.scoring.debate_rows import selection_values
from tests.scoring.hand_made import RIGHT, WRONG, debate, pool

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


def test_shares_of_the_sources_add_up_to_1() -> None:
    found = values([(0, 1), (3,)], [(2,), ()])
    assert (found["share_wiki"], found["share_google"]) == (0.75, 0.25)
    assert values([(0,), (1,)])["share_google"] == 0
    assert "share_wiki" not in values([(), ()])


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
