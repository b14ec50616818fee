"""A hybrid of sources that list what they are told to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from madke.core.knowledge import Hits, Passage
from madke.knowledge.fusion import HybridSource


class Listed:
    """Answers every query with passages of these keys and scores; remembers how many it was asked for."""

    name = "listed"

    def __init__(self, description: str, scores: dict[str, float], text: str = "text") -> None:
        self.description = description
        self.depths: list[int] = []
        self._passages = tuple(
            Passage(source="x", key=key, title="", text=f"{text} {key}", score=score, rank=rank)
            for rank, (key, score) in enumerate(scores.items())
        )

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.depths.append(k)
        return [Hits(passages=self._passages)] * len(queries)


def test_a_weighted_sum_ranks_by_scores() -> None:
    sparse, dense = Listed("BM25", {"a": 20, "b": 14, "c": 10}), Listed("vectors", {"c": 0.9, "d": 0.8, "a": 0.5})

    source = HybridSource([sparse, dense], name="wiki", fusion="weighted", weights=[0.5, 1])
    (hits,) = source.search(["q"], 3)

    assert [(p.source, p.key, p.rank) for p in hits.passages] == [("wiki", "c", 0), ("wiki", "d", 1), ("wiki", "a", 2)]
    assert [p.score for p in hits.passages] == pytest.approx([1.0, 0.75, 0.5])


def test_equal_weights_are_the_default() -> None:
    sparse, dense = Listed("BM25", {"a": 20, "b": 14, "c": 10}), Listed("vectors", {"c": 0.9, "d": 0.8, "a": 0.5})

    default = HybridSource([sparse, dense], name="wiki").search(["q"], 4)
    weighted = HybridSource([sparse, dense], name="wiki", fusion="weighted", weights=[1, 1]).search(["q"], 4)

    assert default == weighted
    assert [p.key for p in default[0].passages] == ["a", "c", "d", "b"]


def test_the_description_says_what_is_fused_and_how() -> None:
    parts = [Listed("BM25", {}), Listed("vectors", {})]

    assert HybridSource(parts, name="w").description == "weighted sum of BM25 and vectors"
    assert HybridSource(parts, name="w", fusion="rrf").description == "rank fusion of BM25 and vectors"
    weighted = HybridSource(parts, name="w", fusion="weighted", weights=[0.5, 1])
    assert weighted.description == "weighted sum of 0.5 x BM25 and 1 x vectors"


def test_each_part_is_read_a_hundred_deep_or_as_deep_as_asked() -> None:
    part = Listed("BM25", {"a": 1})
    source = HybridSource([part, part], name="w")

    source.search(["q"], 5)
    source.search(["q"], 500)

    assert part.depths == [100, 100, 500, 500]


def test_a_key_that_two_corpora_use_stands_for_two_passages() -> None:
    wiki, textbooks = Listed("a", {"1": 9, "2": 8}, text="wiki"), Listed("b", {"1": 9}, text="textbook")

    (hits,) = HybridSource([wiki, textbooks], name="all").search(["q"], 5)

    assert [p.text for p in hits.passages] == ["wiki 1", "textbook 1", "wiki 2"]
