"""Diversity of the translations of a debate, against the formula."""

import math
from dataclasses import replace
from typing import Any

import pytest

from madke.core.transcript import Reflection, Transcript
from madke.scoring.debate_rows import DebateMeasures
from tests.scoring.hand_made import debate

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
