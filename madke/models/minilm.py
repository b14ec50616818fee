"""all-MiniLM-L6-v2 (Wang et al. 2020), computed by NumPy: loading torch takes longer than most of what it is asked for.

The vectors agree with those of sentence-transformers to 1e-6. Texts are not padded: the tokens of many texts are the
rows of one matrix, and only attention looks at single texts. One thread computes one block of texts; NumPy's own
threads would wait for each other with full power.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = 384
MAX_TOKENS = 256
"""Tokens that are read of a text."""
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_BLOCK_TOKENS = 1_024
"""Tokens that are computed together. Blocks depend on the texts alone, so the vectors do not depend on the machine."""
_GELU_ROWS = 32
"""Rows of 1,536 numbers that stay in the processor's cache."""


class MiniLm:
    """The model in a folder of sentence-transformers."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        from safetensors.numpy import load_file
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._libraries: Any = ThreadpoolController()
        for layer in range(_LAYERS):
            name = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                parts = [self._weights[f"{name}.{part}.{kind}"] for part in ("query", "key", "value")]
                self._weights[f"{name}.all.{kind}"] = np.concatenate(parts)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of texts, shape ``(len(texts), DIMENSION)``."""
        import numpy as np

        tokens = [each.ids for each in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda row: -len(tokens[row]))
        vectors = np.empty((len(tokens), DIMENSION), dtype=np.float32)
        blocks = list(_blocks(order, tokens))
        with self._libraries.limit(limits=1, user_api="blas"), ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            blocks_of_vectors = threads.map(lambda rows: self._vectors([tokens[row] for row in rows]), blocks)
            for rows, block in zip(blocks, blocks_of_vectors, strict=True):
                vectors[rows] = block
        return vectors

    def _vectors(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The vectors of one block, whose texts are ordered by their numbers of tokens."""
        import numpy as np

        lengths = [len(each) for each in tokens]
        words = np.concatenate([np.asarray(each) for each in tokens])
        places = np.concatenate([np.arange(length) for length in lengths])
        state = self._table("word")[words] + self._table("position")[places]
        state = self._norm(state + self._table("token_type")[0], "embeddings")
        equal = [(length, len(list(group))) for length, group in groupby(lengths)]
        for layer in range(_LAYERS):
            state = self._layer(state, equal, f"encoder.layer.{layer}")
        ends = np.cumsum([0, *lengths])
        means = np.stack([state[start:end].mean(axis=0) for start, end in pairwise(ends)])
        vectors: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), _EPSILON)
        return vectors

    def _table(self, name: str) -> Any:
        return self._weights[f"embeddings.{name}_embeddings.weight"]

    def _layer(self, state: Any, equal: Sequence[tuple[int, int]], name: str) -> Any:
        import numpy as np

        projected = self._linear(state, f"{name}.attention.self.all")
        read = np.empty_like(state)
        start = 0
        for length, texts in equal:  # texts of one length together
            end = start + length * texts
            parts = projected[start:end].reshape(texts, length, 3, _HEADS, -1).transpose(2, 0, 3, 1, 4)
            scores = parts[0] @ parts[1].swapaxes(2, 3)
            scores *= np.float32(parts.shape[-1] ** -0.5)
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            read[start:end] = (scores @ parts[2]).transpose(0, 2, 1, 3).reshape(end - start, -1)
            start = end
        state = self._norm(state + self._linear(read, f"{name}.attention.output.dense"), f"{name}.attention.output")
        inner = _gelu(self._linear(state, f"{name}.intermediate.dense"))
        return self._norm(state + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, state: Any, name: str) -> Any:
        result = state @ self._weights[f"{name}.weight"].T
        result += self._weights[f"{name}.bias"]
        return result

    def _norm(self, state: Any, name: str) -> Any:
        import numpy as np

        state -= state.mean(axis=-1, keepdims=True)
        state /= np.sqrt(np.einsum("td,td->t", state, state)[:, None] / state.shape[-1] + np.float32(_EPSILON))
        state *= self._weights[f"{name}.LayerNorm.weight"]
        state += self._weights[f"{name}.LayerNorm.bias"]
        return state


def _blocks(order: Sequence[int], tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Rows in order, in blocks of at most :data:`_BLOCK_TOKENS`."""
    block: list[int] = []
    size = 0
    for row in order:
        if block and size + len(tokens[row]) > _BLOCK_TOKENS:
            yield block
            block, size = [], 0
        block.append(row)
        size += len(tokens[row])
    if block:
        yield block


def _gelu(values: Any) -> Any:
    """``x * (1 + erf(x / sqrt(2))) / 2``, in place; without SciPy, whose own takes a fifth of the whole time."""
    import numpy as np

    for start in range(0, len(values), _GELU_ROWS):
        rows = values[start : start + _GELU_ROWS]
        size = np.abs(rows) * np.float32(0.5**0.5)
        t = 1 / (1 + 0.3275911 * size)
        # Abramowitz and Stegun, 7.1.26: the error function to 1.5e-7.
        tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
        tail *= 0.5 * np.exp(-size * size)  # of the tail beyond |x|
        rows *= np.where(rows >= 0, 1 - tail, tail)
    return values
