"""The offline model as a chat model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from madke.assets import cache_dir
from madke.core.chat import ChatRequest, Completion, Usage
from madke.llm.offline.embeddings import Embeddings, QueryEncoder
from madke.llm.offline.prompt import read_prompt
from madke.llm.offline.replies import reply

_TOKEN = re.compile(r"\w+|[^\w\s]")


class OfflineChat:
    """The embedded model: no language model, but a reader that takes its answers out of the prompt's own text.

    It reads the rendered messages, splits the passages into sentences, scores candidate spans with a sentence encoder
    and fixed weights, and words what it found. It knows nothing that does not stand in the prompt, and says so where
    that leaves it without an answer. At temperature 0 a reply depends on the messages alone; above, seeded noise on
    the scores (from the request's seed and purpose) lets debaters differ.

    Args:
        encoder: Scores meaning; by default ``madke.encoders.load_encoder("minilm")``, loaded at the first call.
        cache: The SQLite file of sentence vectors; by default one in madke's cache folder.
    """

    name = "offline/extractive-1"

    def __init__(self, encoder: QueryEncoder | None = None, cache: Path | None = None) -> None:
        self._encoder = encoder
        self._cache = cache
        # One worker: the encoder uses all cores by itself, and the event loop stays free.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="madke-offline")

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            UserError: The sentence encoder is not installed.
        """
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._complete, request)

    async def aclose(self) -> None:
        """Ends the worker and closes the cache."""
        self._worker.shutdown()
        if "_embeddings" in vars(self):
            self._embeddings.close()

    @cached_property
    def _embeddings(self) -> Embeddings:
        encoder = self._encoder
        if encoder is None:
            from madke.encoders import load_encoder

            encoder = load_encoder("minilm")
        return Embeddings(encoder, self._cache or cache_dir("embeddings") / "offline.sqlite")

    def _complete(self, request: ChatRequest) -> Completion:
        start = time.perf_counter()
        prompt = read_prompt(request.messages)
        full = reply(prompt, lambda texts: self._embeddings(texts), request.temperature, _noise(request))
        text, finish = _ended(full, request)
        prompt_tokens = sum(len(_TOKEN.findall(message.content)) for message in request.messages)
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=len(_TOKEN.findall(text)), estimated=True)
        return Completion(text=text, finish_reason=finish, usage=usage, seconds=time.perf_counter() - start)


def _noise(request: ChatRequest) -> random.Random:
    """A source of noise of its own for each call, the same in every process."""
    purpose = request.purpose
    key = [request.seed, purpose.question, purpose.stage, purpose.agent, purpose.round, purpose.sample, purpose.repeat]
    return random.Random(hashlib.blake2b(json.dumps(key).encode(), digest_size=16).digest())


def _ended(text: str, request: ChatRequest) -> tuple[str, str]:
    """The text up to a stop string or the token limit, and the finish reason."""
    stops = [at for stop in request.stop if (at := text.find(stop)) >= 0]
    text = text[: min(stops)] if stops else text
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) > request.max_tokens:
        return text[: tokens[request.max_tokens].start()].rstrip(), "length"
    return text, "stop"
