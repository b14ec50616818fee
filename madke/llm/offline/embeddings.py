"""Sentence embeddings that are computed once: kept in memory and on disk, across calls, arms and processes."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_REMEMBERED = 50_000
"""Vectors kept in memory (75 MB at 384 dimensions); the oldest give way, the file keeps all."""


class QueryEncoder(Protocol):
    """The part of a sentence encoder that the reader uses."""

    @property
    def name(self) -> str:
        """What loads it."""
        ...

    @property
    def revision(self) -> str:
        """Which weights that name stands for here; see :class:`madke.encoders.Encoder`."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One L2-normalised row per text."""
        ...


class Embeddings:
    """Unit vectors of texts, from memory, from disk, or from the encoder, in this order.

    Vectors are rounded to half precision before anything uses them, so that a fresh one and a cached one are equal.
    Other weights of the same name have vectors of their own. Safe to share between threads; several processes may share
    the file.

    Args:
        encoder: Computes what is missing, all missing texts of one request in one call.
        path: The SQLite file; made if missing.
    """

    def __init__(self, encoder: QueryEncoder, path: Path) -> None:
        self._encoder = encoder
        self._memory: dict[bytes, NDArray[np.float32]] = {}
        self._lock = threading.Lock()
        self._disk = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        self._disk.execute("PRAGMA journal_mode = WAL")
        self._disk.execute("PRAGMA synchronous = NORMAL")
        self._disk.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, half BLOB NOT NULL) WITHOUT ROWID")

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of ``texts``, shape (n, d), float32."""
        import numpy as np

        weights = f"{self._encoder.name}\0{self._encoder.revision}"
        keys = [hashlib.blake2b(f"{weights}\0{text}".encode(), digest_size=16).digest() for text in texts]
        with self._lock:
            wanted = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._memory}
            self._load(list(wanted))
            missing = {key: text for key, text in wanted.items() if key not in self._memory}
            if missing:
                fresh = self._encoder.encode_queries(list(missing.values())).astype(np.float16)
                self._disk.execute("BEGIN IMMEDIATE")
                self._disk.executemany(
                    "INSERT OR IGNORE INTO vector VALUES (?, ?)",
                    [(key, row.tobytes()) for key, row in zip(missing, fresh, strict=True)],
                )
                self._disk.execute("COMMIT")
                self._memory.update(zip(missing, fresh.astype(np.float32), strict=True))
            vectors = np.stack([self._memory[key] for key in keys])
            for key in list(self._memory)[: max(0, len(self._memory) - _REMEMBERED)]:
                del self._memory[key]
            return vectors

    def close(self) -> None:
        """Closes the file."""
        self._disk.close()

    def _load(self, keys: list[bytes]) -> None:
        import numpy as np

        for start in range(0, len(keys), 500):
            chunk = keys[start : start + 500]
            marks = ",".join("?" * len(chunk))
            for key, half in self._disk.execute(f"SELECT key, half FROM vector WHERE key IN ({marks})", chunk):
                self._memory[key] = np.frombuffer(half, dtype=np.float16).astype(np.float32)
