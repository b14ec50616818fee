"""Dense retrieval: FAISS shards mapped from disk and searched as one, queries through the index's own encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.encoders import Encoder, load_encoder
from madke.knowledge.manifest import PASSAGES, DenseSettings, open_manifest
from madke.knowledge.passage_store import PassageStore

_CHUNK = 1_000
"""Queries searched at a time: one pass over the vectors serves them all; Ctrl-C gets through between two chunks."""
_BLOCK = 8 << 20


class DenseSource:
    """A source over the dense index in ``folder``; ``name`` is what its passages are marked with.

    The encoder is loaded, and the shards are read, with the first search.

    Args:
        folder: The index.
        name: The source's name.
        encoder: Encodes the queries; by default the one that the index was built with.

    Raises:
        UserError: The folder holds no complete dense index, or a package is missing.
    """

    def __init__(self, folder: Path, *, name: str, encoder: Encoder | None = None) -> None:
        manifest = open_manifest(folder)
        if not isinstance(manifest.index, DenseSettings):
            raise UserError(f"a {manifest.index.kind} index; a dense one was expected", file=folder)
        self.name = name
        self.description = (
            f"{manifest.index.encoder} vectors of {manifest.passages:,} passages ({folder}, {manifest.fingerprint})"
        )
        self._settings = manifest.index
        self._shards = sorted(folder / file.path for file in manifest.files if file.path.endswith(".index"))
        self._store = PassageStore(folder / PASSAGES)
        self._given_encoder = encoder

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The ``k`` passages whose vectors have the largest inner product with each query's."""
        found: list[Hits] = []
        for start in range(0, len(queries), _CHUNK):
            vectors = self._encoder.encode_queries(queries[start : start + _CHUNK])
            scores, rows = self._index.search(vectors, min(k, len(self._store)))
            found.extend(map(self._hits, scores.tolist(), rows.tolist()))
        return found

    @cached_property
    def _encoder(self) -> Encoder:
        return self._given_encoder or load_encoder(self._settings.encoder, dtype=self._settings.dtype)

    @cached_property
    def _index(self) -> Any:
        try:
            import faiss
        except ImportError as error:
            raise UserError("dense indexes need faiss-cpu: pip install 'madke[dense]'") from error
        # It numbers the rows of its shards one after the other, as the passage store does.
        joined = faiss.IndexShards(self._settings.dimension)
        self._opened = []
        for path in self._shards:
            _read_ahead(path)
            self._opened.append(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))
            joined.add_shard(self._opened[-1])
        return joined

    def _hits(self, scores: list[float], rows: list[int]) -> Hits:
        passages = []
        for rank, (score, row) in enumerate(zip(scores, rows, strict=True)):
            key, title, text = self._store[row]
            passages.append(Passage(source=self.name, key=key, title=title, text=text, score=score, rank=rank))
        return Hits(passages=tuple(passages))


def _read_ahead(path: Path) -> None:
    """Read a file once from end to end: faulting its pages in one by one would take about ten times as long."""
    with path.open("rb", buffering=0) as file:
        while file.read(_BLOCK):
            pass
