"""Fusion of rankings, against sums worked out by hand, and of the sources that list them."""

from collections.abc import Sequence

import pytest

from madke.core.knowledge import Hits, Passage
from madke.retrieval.ranking import Method, fuse
from madke.retrieval.source import HybridSource

SPARSE = {"a": 20.0, "b": 14.0, "c": 10.0}
DENSE = {"c": 0.9, "d": 0.8, "a": 0.5}


def test_reciprocal_ranks_are_added() -> None:
    fused = fuse([SPARSE, DENSE], "rrf")

    assert list(fused) == ["a", "c", "b", "d"]
    assert fused == pytest.approx({"a": 1 / 61 + 1 / 63, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 62})


def test_weighted_scores_go_from_0_to_1_and_what_is_missing_gets_the_lowest() -> None:
    fused = fuse([SPARSE, DENSE], "weighted", [0.5, 1.0])

    assert list(fused) == ["c", "d", "a", "b"]
    assert fused == pytest.approx({"c": 0.0 + 1.0, "d": 0.0 + 0.75, "a": 0.5 + 0.0, "b": 0.2 + 0.0})


@pytest.mark.parametrize("method", ["rrf", "weighted"])
def test_a_tie_goes_to_the_earlier_ranking(method: Method) -> None:
    assert list(fuse([{"b": 3.0}, {"a": 7.0}], method)) == ["b", "a"]
    assert list(fuse([{"a": 7.0}, {"b": 3.0}], method)) == ["a", "b"]


class Listed:
    """Answers every query with passages of these keys and scores, or with an error; remembers how deep it was read."""

    name = description = "listed"

    def __init__(self, scores: dict[str, float], text: str = "text", error: str | None = None) -> None:
        self.depths: list[int] = []
        self._hits = Hits(
            passages=tuple(
                Passage(source="x", key=key, title="", text=f"{text} {key}", score=score, rank=rank)
                for rank, (key, score) in enumerate(scores.items())
            ),
            error=error,
        )

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.depths.append(k)
        return [self._hits] * len(queries)


def test_each_part_is_read_a_hundred_deep_or_as_deep_as_asked() -> None:
    part = Listed({"a": 1})
    source = HybridSource([part], name="w")

    source.search(["q"], 5)
    source.search(["q"], 500)

    assert part.depths == [100, 500]


def test_a_key_that_two_corpora_use_stands_for_two_passages() -> None:
    wiki, textbooks = Listed({"1": 9, "2": 8}, text="wiki"), Listed({"1": 9}, text="textbook")

    (hits,) = HybridSource([wiki, textbooks], name="all").search(["q"], 5)

    assert [p.text for p in hits.passages] == ["wiki 1", "textbook 1", "wiki 2"]


def test_a_query_that_fails_in_one_source_fails_in_the_fusion() -> None:
    (hits,) = HybridSource([Listed({"1": 9}), Listed({}, error="broken")], name="all").search(["q"], 3)

    assert hits == Hits(error="broken")
