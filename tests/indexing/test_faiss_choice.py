"""Which FAISS index `auto` takes."""

import pytest

from madke.indexing.dense import choose

GB = 10**9
WIKIPEDIA = 21_015_324


@pytest.mark.parametrize(
    ("count", "dimension", "memory", "factory"),
    [
        (103_515, 384, 24 * GB, "Flat"),
        (1_953_125, 768, 24 * GB, "Flat"),  # exactly a quarter
        (1_953_126, 768, 24 * GB, "SQ8"),
        (WIKIPEDIA, 768, 24 * GB, "SQ8"),
        (WIKIPEDIA, 768, 16 * GB, "PQ192np"),
        (WIKIPEDIA, 768, 300 * GB, "Flat"),
        (WIKIPEDIA, 768, 4 * GB, "PQ96np"),
        (WIKIPEDIA, 768, 2 * GB, "PQ48np"),
        (1, 10, 1, "PQ1np"),
    ],
)
def test_the_most_exact_index_that_fits_the_memory(count: int, dimension: int, memory: int, factory: str) -> None:
    assert choose(count, dimension, memory)[0] == factory


def test_the_reason_gives_both_sizes() -> None:
    assert choose(WIKIPEDIA, 768, 24 * GB)[1] == "Flat would take 64.6 GB of 24.0 GB memory, SQ8 takes 16.1 GB"
    assert choose(WIKIPEDIA, 768, GB)[1].endswith("which is still too much: searches will read from disk")
