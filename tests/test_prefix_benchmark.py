"""The bound that the benchmark of shared prefixes is held against: no order goes beyond it, and it is not too high."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest

from eval.benchmarks import prefix
from eval.benchmarks.shared_prefix import shared_prefix
from tests.support.installed import needs

needs("scipy", "report")


@pytest.fixture(autouse=True)
def _every_character_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "_BLOCK", 1)


def saved(questions: list[list[str]]) -> tuple[int, int]:
    # A last line that nothing shares: the last token of a prompt is never taken from the cache.
    sent = [("m", str(n), f"{prompt}\0") for n, prompts in enumerate(questions) for prompt in prompts]
    found = shared_prefix(sent, block=1)
    return found.within, found.across


def best_of_all_orders(questions: list[list[list[str]]]) -> tuple[int, int]:
    """The most that any order of the lines in each prompt saves; the order of the calls changes nothing."""
    each = [["".join(order) for order in permutations(lines)] for prompts in questions for lines in prompts]
    found = []
    for texts in product(*each):
        left = iter(texts)
        found.append(saved([[next(left) for _ in prompts] for prompts in questions]))
    return max(within for within, _ in found), max(across for _, across in found)


def joined(questions: list[list[list[str]]]) -> list[list[str]]:
    return [["".join(lines) for lines in prompts] for prompts in questions]


@pytest.mark.parametrize("seed", range(8))
def test_no_order_of_calls_and_lines_saves_more(seed: int) -> None:
    draw = random.Random(seed)
    lines = ["".join(draw.choices("ab", k=draw.randint(1, 4))) + "\n" for _ in range(5)]
    questions = [[draw.choices(lines, k=draw.randint(1, 3)) for _ in range(2)] for _ in range(2)]
    within, across = prefix.best_shared(joined(questions))
    most_within, most_across = best_of_all_orders(questions)
    assert most_within <= within
    assert most_across <= across


def test_it_is_reached_where_lines_begin_differently() -> None:
    questions = [[["a1\n", "b22\n", "c333\n"], ["b22\n", "c333\n"], ["c333\n", "d4444\n"]]]
    assert prefix.best_shared(joined(questions))[0] == best_of_all_orders(questions)[0] == 9 + 5


def test_the_same_prompt_again_is_saved_whole() -> None:
    assert prefix.best_shared([["a1\nb22\n"] * 3]) == (14, 14)
