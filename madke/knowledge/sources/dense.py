"""Dense retrieval: FAISS files mapped from disk and searched as one, queries through the index's own encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.encoders import Dtype, Encoder, load_encoder
from madke.knowledge.faiss_shards import FaissShards
from madke.knowledge.manifest import MANIFEST, PASSAGES, DenseSettings, open_manifest
from madke.knowledge.passage_store import PassageStore, StoredPassage
from madke.knowledge.pyserini import DocIds, faiss_file, fingerprint_of, open_texts

_CHUNK = 1_000
"""Queries searched at a time: one pass over the vectors serves them all; Ctrl-C gets through between two chunks."""


@dataclass(frozen=True, kw_only=True)
class _Vectors:
    """What a dense index folder holds, whoever made it."""

    description: str
    files: Sequence[Path]
    """FAISS files, in the order of their rows."""
    rows: int
    revision: str
    """Which weights the encoder had; empty where nobody says."""
    parameters: str
    """FAISS's search parameters."""
    encoder: Callable[[], Encoder]
    """Loads what encodes the queries."""
    passages: Callable[[Sequence[int]], list[StoredPassage]]
    """The passages of some rows. Raises LookupError, with the reason, where one has no text."""


class DenseSource:
    """A source over the dense index in ``folder``; ``name`` is what its passages are marked with.

    The encoder is loaded, and the vectors are read, with the first search.

    Args:
        folder: An index of ours, or, with ``encoder`` and ``texts``, a FAISS folder in pyserini's format.
        name: The source's name.
        encoder: Encodes the queries; by default the one that an index of ours was built with.
        texts: The index that holds the passages' texts under the same ids; ours hold their own.

    Raises:
        UserError: The folder holds no complete dense index, or a package is missing.
    """

    def __init__(
        self, folder: Path, *, name: str, encoder: Encoder | str | None = None, texts: Path | None = None
    ) -> None:
        self.name = name
        if texts is None:
            self._vectors = _open_ours(folder, encoder)
        elif encoder is None:
            raise UserError("a FAISS folder does not say what encodes its queries; name an encoder", file=folder)
        else:
            self._vectors = _open_pyserini(folder, encoder, texts)
        self.description = self._vectors.description
        self._folder = folder

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The ``k`` passages whose vectors have the largest inner product with each query's."""
        found: list[Hits] = []
        for start in range(0, len(queries), _CHUNK):
            vectors = self._encoder.encode_queries(queries[start : start + _CHUNK])
            scores, rows = self._index.search(vectors, min(k, self._vectors.rows))
            found.extend(map(self._hits, scores.tolist(), rows.tolist()))
        return found

    @cached_property
    def _encoder(self) -> Encoder:
        encoder = self._vectors.encoder()
        if encoder.dimension != self._index.dimension:
            raise UserError(
                f"vectors of {self._index.dimension} dimensions; encoder {encoder.name!r} makes {encoder.dimension}",
                file=self._folder,
            )
        if encoder.revision != self._vectors.revision and encoder.revision and self._vectors.revision:
            raise UserError(
                f"encoder {encoder.name!r} has changed since the index was built (revision {encoder.revision}, "
                f"{self._vectors.revision} expected); build the index again",
                file=self._folder,
            )
        return encoder

    @cached_property
    def _index(self) -> FaissShards:
        index = FaissShards(self._vectors.files, parameters=self._vectors.parameters)
        if len(index) != self._vectors.rows:
            raise UserError(f"{len(index):,} vectors, and {self._vectors.rows:,} ids for them", file=self._folder)
        return index

    def _hits(self, scores: list[float], rows: list[int]) -> Hits:
        # An approximate index may find fewer than it was asked for; row -1 stands in the rest.
        rows = [row for row in rows if row >= 0]
        try:
            stored = self._vectors.passages(rows)
        except LookupError as error:
            return Hits(error=str(error))
        return Hits(
            passages=tuple(
                Passage(source=self.name, key=key, title=title, text=text, score=score, rank=rank)
                for rank, ((key, title, text), score) in enumerate(zip(stored, scores, strict=False))
            )
        )


def _open_ours(folder: Path, encoder: Encoder | str | None) -> _Vectors:
    manifest = open_manifest(folder)
    settings = manifest.index
    if not isinstance(settings, DenseSettings):
        raise UserError(f"a {settings.kind} index; a dense one was expected", file=folder)
    store = PassageStore(folder / PASSAGES)
    files = sorted(folder / file.path for file in manifest.files if file.path.endswith(".index"))
    if not files:
        raise UserError("names no FAISS file; build the index again", file=folder / MANIFEST)
    return _Vectors(
        description=f"{settings.encoder} vectors of {manifest.passages:,} passages ({folder}, {manifest.fingerprint})",
        files=files,
        rows=len(store),
        revision=settings.revision,
        parameters=settings.parameters,
        encoder=partial(_load, encoder or settings.encoder, settings.dtype),
        passages=lambda rows: [store[row] for row in rows],
    )


def _open_pyserini(folder: Path, encoder: Encoder | str, texts: Path) -> _Vectors:
    ids = DocIds(folder)
    text_of, texts_fingerprint = open_texts(texts)

    def passages(rows: Sequence[int]) -> list[StoredPassage]:
        wanted = [ids[row] for row in rows]
        found = text_of(wanted)
        stored = [passage for passage in found if passage is not None]
        if len(stored) < len(wanted):
            raise LookupError(f"document {wanted[found.index(None)]!r} of {folder} has no text in {texts}")
        return stored

    name = encoder if isinstance(encoder, str) else encoder.name
    return _Vectors(
        description=f"{name} vectors of {len(ids):,} documents ({folder}, {fingerprint_of(folder)}), "
        f"texts from {texts} ({texts_fingerprint})",
        files=[faiss_file(folder)],
        rows=len(ids),
        revision="",
        parameters="",
        encoder=partial(_load, encoder, "float32"),
        passages=passages,
    )


def _load(encoder: Encoder | str, dtype: Dtype) -> Encoder:
    return load_encoder(encoder, dtype=dtype) if isinstance(encoder, str) else encoder
