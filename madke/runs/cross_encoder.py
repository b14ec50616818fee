"""A cross-encoder from the Hugging Face Hub or a folder, in this process, as a reranker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from madke.assets import install
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.encoders import revision_of
from madke.runs.cast import Service
from madke.terminal import printed_once

_BATCH = 32


class CrossEncoderReranker(Service):
    """A cross-encoder of sentence-transformers: a question and passages in, a JSON list of their scores out.

    The pairs of all waiting questions are scored together, in one thread. Code that comes with a model is never run.
    UserError if the model cannot be loaded, or gives more than one score for a pair.
    """

    def __init__(self, model: str) -> None:
        self._model = _loaded(model)
        super().__init__(" ".join(filter(None, (f"hf/{model}", revision_of(model)))))

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, passage.content) for r in requests for passage in r.messages[1:]]
        scores = iter(await asyncio.to_thread(self._scores, pairs))
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        found = self._model.predict(list(pairs), batch_size=_BATCH, show_progress_bar=False)
        return [float(score) for score in found]


def _loaded(model: str) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise UserError(f"hf/{model} needs the package {error.name}: {install('dense')}") from None
    printed_once("huggingface_hub")
    try:
        loaded = CrossEncoder(model, trust_remote_code=False)
    except (OSError, ValueError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        expected = "expected a cross-encoder, as a folder or a name on the Hub"
        raise UserError(f"cannot load the reranker hf/{model} ({first_line}); {expected}") from error
    if loaded.num_labels != 1:
        raise UserError(f"hf/{model} gives {loaded.num_labels} scores for a pair; expected a reranker with one")
    return loaded
