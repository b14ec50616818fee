"""Vectors of texts by their words, without a model, for an installation without the extra ``offline``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from madke.models.offline.language import content

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DIMENSION = 4096
_PART = 0.3
"""Weight of a group of letters, next to 1 for a whole word: forms of one word share most of their letters."""


class WordVectors:
    """Unit vectors whose products are high for texts that share words, or parts of words."""

    name = "words"
    revision = "1"

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, shape (n, d), float32."""
        import numpy as np

        found = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for row, text in zip(found, texts, strict=True):
            for (part, weight), times in Counter(_parts(text)).items():
                row[crc32(part.encode()) % _DIMENSION] += weight * times**0.5
            row /= np.linalg.norm(row) or 1.0
        return found


def _parts(text: str) -> Iterator[tuple[str, float]]:
    for word in content(text):
        yield word, 1.0
        edged = f"^{word}$"
        for start in range(len(edged) - 3):
            yield edged[start : start + 4], _PART
