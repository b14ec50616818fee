"""The embedded model ``offline``: an extractive reader that behaves like a chat model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from madke.assets import cache_dir
from madke.core.chat import ChatRequest, Completion, Usage
from madke.llm.offline.offline_replies import reply
from madke.llm.offline.prompt_reader import read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from madke.encoders import Encoder

_TOKEN = re.compile(r"\w+|[^\w\s]")


class OfflineChat:
    """The embedded model: an extractive reader, not a language model. Its answers are spans of the prompt's text.

    It splits the passages into sentences, scores candidate spans with a sentence encoder and fixed weights, and fills a
    reply template. At temperature 0 a reply depends only on the messages. At higher temperatures seeded noise (from the
    request's seed and purpose) on the scores of selections and first stances makes debaters differ. A debater that has
    changed to another's answer keeps it unless a passage that nobody has quoted yet supports a different one.

    Args:
        encoder: Default: ``madke.encoders.load_encoder("minilm")``, loaded at the first call.
        cache: The SQLite file of sentence vectors. Default: a file in madke's cache folder.
    """

    name = "offline/extractive-3"

    def __init__(self, encoder: Encoder | None = None, cache: Path | None = None) -> None:
        self._encoder = encoder
        self._cache = cache
        # One worker: the encoder itself uses all cores, and the event loop stays free.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="madke-offline")

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request; UserError if the sentence encoder is not installed."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._complete, request)

    async def aclose(self) -> None:
        """Stop the worker and close the cache."""
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
        seed = json.dumps([request.seed, *asdict(request.purpose).values()])
        noise = random.Random(hashlib.blake2b(seed.encode(), digest_size=16).digest())
        prompt = read_prompt(request.messages)
        written = reply(prompt, lambda texts: self._embeddings(texts), request.temperature, noise)
        text, finish = _truncated(written, request)
        prompt_tokens = sum(len(_TOKEN.findall(message.content)) for message in request.messages)
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=len(_TOKEN.findall(text)), estimated=True)
        return Completion(text=text, finish_reason=finish, usage=usage, seconds=time.perf_counter() - start)


def _truncated(text: str, request: ChatRequest) -> tuple[str, str]:
    """The text up to a stop string or the token limit, and the finish reason."""
    text = text[: min((at for stop in request.stop if (at := text.find(stop)) >= 0), default=len(text))]
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) > request.max_tokens:
        return text[: tokens[request.max_tokens].start()].rstrip(), "length"
    return text, "stop"


class Embeddings:
    """Unit vectors of texts, from a SQLite file that processes may share, else from the encoder.

    Vectors are rounded to half precision before use, so that new and cached ones are equal.
    """

    def __init__(self, encoder: Encoder, path: Path) -> None:
        self._encoder = encoder
        self._disk = sqlite3.connect(path, timeout=60, check_same_thread=False)
        self._disk.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        self._disk.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, half BLOB NOT NULL) WITHOUT ROWID")

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of ``texts``, shape (n, d), float32."""
        import numpy as np

        weights = f"{self._encoder.name}\0{self._encoder.revision}"
        keys = [hashlib.blake2b(f"{weights}\0{text}".encode(), digest_size=16).digest() for text in texts]
        found = (self._disk.execute("SELECT key, half FROM vector WHERE key = ?", (key,)).fetchone() for key in keys)
        known: dict[bytes, bytes] = dict(filter(None, found))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            fresh = self._encoder.encode_queries(list(missing.values())).astype(np.float16)
            rows = [(key, row.tobytes()) for key, row in zip(missing, fresh, strict=True)]
            with self._disk:
                self._disk.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?)", rows)
            known.update(rows)
        return np.stack([np.frombuffer(known[key], dtype=np.float16) for key in keys]).astype(np.float32)

    def close(self) -> None:
        """Close the file."""
        self._disk.close()
