"""all-MiniLM-L6-v2 (Wang et al. 2020), computed by NumPy: loading torch takes longer than most of what it is asked for.

The vectors agree with those of sentence-transformers to 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = 384
MOST_TOKENS = 256
"""Tokens that are read of a text."""
_LAYERS = 6
_HEADS = 12
_TINY = 1e-12


class MiniLm:
    """The model in a folder of sentence-transformers."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_TOKENS)

    def count_longer(self, texts: Sequence[str]) -> int:
        """How many texts have more tokens than the window."""
        return sum(bool(found.overflowing) for found in self._tokenizer.encode_batch(list(texts)))

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of a batch of texts, which share one padded length."""
        import numpy as np

        found = [each.ids for each in self._tokenizer.encode_batch(list(texts))]
        length = max(map(len, found))
        tokens = np.zeros((len(found), length), dtype=np.int64)
        shown = np.zeros((len(found), length), dtype=np.float32)
        for row, ids in enumerate(found):
            tokens[row, : len(ids)], shown[row, : len(ids)] = ids, 1
        table = {name: self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position")}
        state = table["word"][tokens] + table["position"][:length]
        state = self._normed(state + self._weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
        hidden = (shown - 1)[:, None, None, :] * np.float32(1e9)
        for layer in range(_LAYERS):
            state = self._layer(state, hidden, f"encoder.layer.{layer}")
        means = (state * shown[:, :, None]).sum(axis=1)
        vectors: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), _TINY)
        return vectors

    def _layer(self, state: Any, hidden: Any, name: str) -> Any:
        import numpy as np

        texts, length, width = state.shape

        def heads(part: str) -> Any:
            projected = self._linear(state, f"{name}.attention.self.{part}")
            return projected.reshape(texts, length, _HEADS, width // _HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").swapaxes(2, 3)
        scores *= np.float32((width / _HEADS) ** -0.5)
        scores += hidden
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        read = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, length, width)
        state = state + self._linear(read, f"{name}.attention.output.dense")
        state = self._normed(state, f"{name}.attention.output")
        inner = _gelu(self._linear(state, f"{name}.intermediate.dense"))
        return self._normed(state + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, state: Any, name: str) -> Any:
        # One product for all tokens: NumPy would make one for each text, in twice the time.
        result = state.reshape(-1, state.shape[-1]) @ self._weights[f"{name}.weight"].T
        result += self._weights[f"{name}.bias"]
        return result.reshape(*state.shape[:-1], -1)

    def _normed(self, state: Any, name: str) -> Any:
        import numpy as np

        state = state - state.mean(axis=-1, keepdims=True)
        state /= np.sqrt(np.square(state).mean(axis=-1, keepdims=True) + np.float32(_TINY))
        state *= self._weights[f"{name}.LayerNorm.weight"]
        state += self._weights[f"{name}.LayerNorm.bias"]
        return state


def _gelu(values: Any) -> Any:
    import numpy as np
    from scipy.special import erf

    share = erf(values * np.float32(0.5**0.5))
    share += 1
    share *= values
    share *= np.float32(0.5)
    return share
