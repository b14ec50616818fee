"""BM25 in this process, without Java: NumPy over words that are divided and stemmed as in Anserini's English analyser.

k1 is 0.9 and b is 0.4, as in our Lucene indexes. The share of each word in the score of each text that has it is
computed once, as in bm25s (Lù, 2024, arXiv:2407.03618).
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

# One word per ideograph or hiragana letter; other letters and digits run on, also over an apostrophe or a full stop
# between letters and over a comma or a full stop between digits.
_SINGLE = "\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^\W{_SINGLE}]"
_WORD = re.compile(rf"[{_SINGLE}]|{_LETTER}+(?:(?:(?<=[^\W\d])['\u2019.:](?=[^\W\d])|(?<=\d)[.,](?=\d)){_LETTER}+)*")
_LUCENE_STOP_WORDS = """a an and are as at be but by for if in into is it no not of on or such that the their then
there these they this to was will with"""
_STOP_WORDS = frozenset(_LUCENE_STOP_WORDS.split())
_K1, _B = 0.9, 0.4
_WORDS = "words.json"


def words_of(text: str) -> list[str]:
    """The stems of the words of a text, without possessive endings and stop words."""
    return [stem for word in _WORD.findall(text) if (stem := _stem(word)) is not None]


def _stem(word: str) -> str | None:
    """The stem of a word as it stands in a text; None for a stop word."""
    word = word.lower().replace("\u2019", "'").removesuffix("'s")
    return None if word in _STOP_WORDS else str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter")


class _Numbers(dict[str, int]):
    """Word as it stands in a text -> the number of its stem; -1 for a stop word. Each word is stemmed once."""

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        stem = _stem(word)
        number = -1 if stem is None else self.vocabulary.setdefault(stem, len(self.vocabulary))
        self[word] = number
        return number


class WordIndex:
    """An index of numbered texts: for each word the texts that have it, and its share of their scores."""

    def __init__(self, vocabulary: dict[str, int], arrays: dict[str, NDArray[Any]]) -> None:
        self._vocabulary = vocabulary
        self._arrays = arrays
        self._count = int(arrays["count"][0])

    @classmethod
    def build(cls, texts: Iterable[str]) -> Self:
        """Index texts; each has its position as its number."""
        numbers, words, lengths = _Numbers(), array("i"), array("i")
        for text in texts:
            found = [number for word in _WORD.findall(text) if (number := numbers[word]) >= 0]
            words.extend(found)
            lengths.append(len(found))
        return cls(numbers.vocabulary, _scored(words, lengths, len(numbers.vocabulary)))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a saved index, memory-mapped."""
        import numpy as np

        arrays = {file.stem: np.load(file, mmap_mode="r") for file in folder.glob("*.npy")}
        return cls(json.loads((folder / _WORDS).read_bytes()), arrays)

    def save(self, folder: Path) -> None:
        """Write the index to a folder."""
        import numpy as np

        folder.mkdir(parents=True, exist_ok=True)
        (folder / _WORDS).write_text(json.dumps(self._vocabulary, ensure_ascii=True), encoding="ascii")
        for name, values in self._arrays.items():
            np.save(folder / f"{name}.npy", values)

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """The numbers and scores of the best ``k`` texts that have a word of the query; ties go to the first."""
        import numpy as np

        words = [self._vocabulary[word] for word in words_of(query) if word in self._vocabulary]
        if not words:
            return []
        starts, texts, shares = (self._arrays[name] for name in ("starts", "texts", "shares"))
        scores = np.zeros(self._count, dtype=np.float32)
        for word in words:
            part = slice(int(starts[word]), int(starts[word + 1]))
            scores[texts[part]] += shares[part]
        return [found for found in best(scores, k) if found[1] > 0]


def _scored(words: array[int], lengths: array[int], vocabulary: int) -> dict[str, NDArray[Any]]:
    """The arrays of an index from the words of all texts, one after the other, and the number of words of each text.

    Word ``w`` is in ``texts[starts[w]:starts[w + 1]]``, with these ``shares`` of their scores; ``count`` is the number
    of texts.
    """
    import numpy as np

    long = np.frombuffer(lengths, dtype=np.intc) if lengths else np.zeros(0, dtype=np.intc)
    count = len(long)
    of_text = np.repeat(np.arange(count, dtype=np.int64), long)
    of_word = np.frombuffer(words, dtype=np.intc).astype(np.int64) if words else np.zeros(0, dtype=np.int64)
    pairs, times = np.unique(of_word * max(count, 1) + of_text, return_counts=True)
    del of_word, of_text
    word, text = np.divmod(pairs, max(count, 1))
    frequency = np.bincount(word, minlength=vocabulary)
    rarity = np.log1p((count - frequency + 0.5) / (frequency + 0.5))
    # Empty texts count in the mean length, as in Lucene.
    norm = _K1 * (1 - _B + _B * long / (long.mean() or 1.0)) if count else long
    shares = rarity[word] * (times / (times + norm[text]))
    starts = np.concatenate([[0], np.cumsum(frequency)])
    return {
        "starts": starts.astype(np.int64),
        "texts": text.astype(np.int32),
        "shares": shares.astype(np.float32),
        "count": np.array([count], dtype=np.int64),
    }


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
