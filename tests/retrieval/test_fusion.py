"""Fusion of rankings, against sums worked out by hand, and of the sources that list them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.knowledge import Hits, Passage
from madke.retrieval.fusion import HybridSource, Method, fuse

SPARSE = {"a": 20.0, "b": 14.0, "c": 10.0}
DENSE = {"c": 0.9, "d": 0.8, "a": 0.5}


def test_reciprocal_ranks_are_added() -> None:
    fused = fuse([SPARSE, DENSE], "rrf")

    assert list(fused) == ["a", "c", "b", "d"]
    assert fused == pytest.approx({"a": 1 / 61 + 1 / 63, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 62})


def test_weights_multiply_reciprocal_ranks() -> None:
    fused = fuse([SPARSE, DENSE], "rrf", [1.0, 2.0])

    assert list(fused) == ["c", "a", "d", "b"]
    assert fused["a"] == pytest.approx(1 / 61 + 2 / 63)


def test_weighted_scores_go_from_0_to_1_and_what_is_missing_gets_the_lowest() -> None:
    fused = fuse([SPARSE, DENSE], "weighted", [0.5, 1.0])

    assert list(fused) == ["c", "d", "a", "b"]
    assert fused == pytest.approx({"c": 0.0 + 1.0, "d": 0.0 + 0.75, "a": 0.5 + 0.0, "b": 0.2 + 0.0})


def test_weights_are_1_unless_given() -> None:
    assert fuse([SPARSE, DENSE]) == fuse([SPARSE, DENSE], "weighted", [1.0, 1.0])


@pytest.mark.parametrize("method", ["rrf", "weighted"])
def test_a_tie_goes_to_the_earlier_ranking(method: Method) -> None:
    assert list(fuse([{"b": 3.0}, {"a": 7.0}], method)) == ["b", "a"]
    assert list(fuse([{"a": 7.0}, {"b": 3.0}], method)) == ["a", "b"]


def test_equal_scores_all_count_and_an_empty_ranking_counts_nothing() -> None:
    assert fuse([{"a": 0.0, "b": 0.0}, {}], "weighted") == {"a": 1.0, "b": 1.0}
    assert fuse([{}, {}], "weighted") == fuse([], "rrf") == {}


def ranking(scores: dict[str, int]) -> dict[str, float]:
    return {item: scores[item] / 8 for item in sorted(scores, key=lambda item: (-scores[item], item))}


RANKINGS = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-40, 40)).map(ranking), max_size=4)
METHODS = st.sampled_from(["rrf", "weighted"])


@given(RANKINGS, METHODS, st.data())
def test_the_order_of_the_rankings_breaks_ties_and_nothing_else(
    rankings: list[dict[str, float]], method: Method, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rankings))

    assert fuse(shuffled, method) == fuse(rankings, method)


@given(RANKINGS, METHODS, st.sampled_from([0.25, 2.0, 1024.0]))
def test_weights_count_relative_to_each_other(rankings: list[dict[str, float]], method: Method, factor: float) -> None:
    weights = [1.0 + place for place in range(len(rankings))]

    scaled = fuse(rankings, method, [factor * weight for weight in weights])

    assert list(scaled) == list(fuse(rankings, method, weights))


@given(RANKINGS, METHODS)
def test_every_item_is_there_once_and_scores_fall(rankings: list[dict[str, float]], method: Method) -> None:
    fused = fuse(rankings, method)

    assert set(fused) == {item for one in rankings for item in one}
    assert list(fused.values()) == sorted(fused.values(), reverse=True)


@given(RANKINGS, st.integers(-5, 5), st.sampled_from([0.5, 4.0]))
def test_the_scale_of_a_source_does_not_matter(rankings: list[dict[str, float]], shift: int, scale: float) -> None:
    moved = [{item: scale * score + shift for item, score in one.items()} for one in rankings]

    assert fuse(moved, "weighted") == pytest.approx(fuse(rankings, "weighted"))


class Listed:
    """Answers every query with passages of these keys and scores; remembers how many it was asked for."""

    name = "listed"

    def __init__(
        self, description: str, scores: dict[str, float], text: str = "text", error: str | None = None
    ) -> None:
        self.description = description
        self.depths: list[int] = []
        self._error = error
        self._passages = tuple(
            Passage(source="x", key=key, title="", text=f"{text} {key}", score=score, rank=rank)
            for rank, (key, score) in enumerate(scores.items())
        )

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.depths.append(k)
        return [Hits(passages=self._passages, error=self._error)] * len(queries)


def test_a_weighted_sum_ranks_by_scores() -> None:
    sparse, dense = Listed("BM25", {"a": 20, "b": 14, "c": 10}), Listed("vectors", {"c": 0.9, "d": 0.8, "a": 0.5})

    source = HybridSource([sparse, dense], name="wiki", fusion="weighted", weights=[0.5, 1])
    (hits,) = source.search(["q"], 3)

    assert [(p.source, p.key, p.rank) for p in hits.passages] == [("wiki", "c", 0), ("wiki", "d", 1), ("wiki", "a", 2)]
    assert [p.score for p in hits.passages] == pytest.approx([1.0, 0.75, 0.5])


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


def test_a_query_that_fails_in_one_source_fails_in_the_fusion() -> None:
    (hits,) = HybridSource([Listed("a", {"1": 9}), Listed("b", {}, error="broken")], name="all").search(["q"], 3)

    assert hits == Hits(error="broken")
