"""The replies of query stages and listwise rerankers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.engine.parse import parse_ranking, parse_searches


@pytest.mark.parametrize(
    ("text", "order", "rule"),
    [
        ("Ranking: [2] > [0] > [1]", (2, 0, 1), "ranking"),
        ("I read [0] first.\n**Ranking:** [1] > [0] > [2]", (1, 0, 2), "ranking"),
        ("Ranking:\n[2]\n[1]\n[0]", (2, 1, 0), "ranking"),
        ("Ranking: [0] > [1] > [2]\nBetter:\nFinal ranking: [2] > [1] > [0]", (2, 1, 0), "ranking"),
        ("Ranking: [2] > [2] > [0]", (2, 0, 1), "repaired"),  # one twice, one missing
        ("Ranking: [1]", (1, 0, 2), "repaired"),
        ("Ranking: [7] > [1] > [0] > [2]", (1, 0, 2), "repaired"),  # there is no [7]
        ("[2] > [1] > [0]", (), ""),  # not in the requested form: [0] may only be mentioned
        ("Ranking: none of them helps", (), ""),
        ("", (), ""),
    ],
)
def test_the_order_of_the_last_ranking(text: str, order: tuple[int, ...], rule: str) -> None:
    parsed = parse_ranking(text, size=3)
    assert (parsed.value, parsed.rule if order else "") == (order, rule)


@given(st.text(alphabet="Ranking: [0123456789]>\n"), st.integers(0, 30))
def test_any_reply_gives_a_permutation_or_nothing(text: str, size: int) -> None:
    order = parse_ranking(f"Ranking: {text}", size=size).value
    assert order == () or sorted(order) == list(range(size))


@pytest.mark.parametrize(
    ("text", "limit", "queries"),
    [
        ("[Search: depth of Lake Baikal]", 1, ("depth of Lake Baikal",)),
        ("[Search: one]\n[Search: two]\n[Search: three]", 4, ("one", "two", "three")),
        ("[Search: one]\n[Search: two]\n[Search: three]", 2, ("two", "three")),
        ("[Search: one]\n[Search: one]", 4, ("one",)),
        ('- [search: "a \n b"]', 4, ("a b",)),
        ("[Search: your query]", 4, ()),  # an echo of the prompt
        ("Search for the depth of the lake", 4, ()),
        ("[Search: ]", 4, ()),
    ],
)
def test_the_queries_of_a_reply(text: str, limit: int, queries: tuple[str, ...]) -> None:
    assert parse_searches(text, limit=limit).value == queries
