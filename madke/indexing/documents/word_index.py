"""BM25 in this process, without Java: bm25s over words that are divided and stemmed as in Anserini's English analyser.

k1 is 0.9 and b is 0.4, as in our Lucene indexes. ``eval/benchmarks/documents.py`` compares both.
"""

import logging
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Self

# One word per ideograph or hiragana letter; other letters and digits run on, also over an apostrophe or a full stop
# between letters and over a comma or a full stop between digits.
_SINGLE = "\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^\W{_SINGLE}]"
_WORD = re.compile(rf"[{_SINGLE}]|{_LETTER}+(?:(?:(?<=[^\W\d])['\u2019.:](?=[^\W\d])|(?<=\d)[.,](?=\d)){_LETTER}+)*")
_LUCENE_STOP_WORDS = """a an and are as at be but by for if in into is it no not of on or such that the their then
there these they this to was will with"""
_STOP_WORDS = frozenset(_LUCENE_STOP_WORDS.split())


def words_of(text: str) -> list[str]:
    """The stems of the words of a text, without possessive endings and stop words."""
    found = [word.lower().replace("\u2019", "'").removesuffix("'s") for word in _WORD.findall(text)]
    stems: list[str] = _stemmer().stemWords([word for word in found if word not in _STOP_WORDS])
    return stems


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter")


def _bm25s() -> Any:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG itself
    return bm25s


class WordIndex:
    """An index of numbered texts."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, texts: Iterable[str]) -> Self:
        """Index texts; each has its position as its number."""
        vocabulary: dict[str, int] = {}
        numbered = [[vocabulary.setdefault(word, len(vocabulary)) for word in words_of(text)] for text in texts]
        index = _bm25s().BM25(k1=0.9, b=0.4, method="lucene")
        if not vocabulary:  # bm25s divides by the mean number of words
            vocabulary, numbered = {"": 0}, [[0]]
        index.index((numbered, vocabulary), show_progress=False)
        return cls(index)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a saved index, memory-mapped."""
        return cls(_bm25s().BM25.load(folder, mmap=True, show_progress=False))

    def save(self, folder: Path) -> None:
        """Write the index to a folder."""
        self._index.save(folder, show_progress=False)

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """The numbers and scores of the best ``k`` texts that have a word of the query; ties go to the first."""
        known = self._index.vocab_dict
        words = [known[word] for word in words_of(query) if word in known]
        return [found for found in best(self._index.get_scores_from_ids(words), k) if found[1] > 0] if words else []


_DIGITS = 5
"""Decimals of a score that count. The last bits of a sum depend on the machine, and would break ties differently."""


def best(scores: Any, k: int) -> list[tuple[int, float]]:
    """The positions and values of the ``k`` largest of an array of scores; ties go to the first, on every machine."""
    import numpy as np

    scores = np.round(scores.astype(np.float64), _DIGITS)
    kth = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    candidates = np.flatnonzero(scores >= kth)
    found = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return [(int(number), float(scores[number])) for number in found]
