"""Folders in pyserini's formats: an Anserini Lucene index, and a FAISS file with the ids of its rows.

A Lucene document stores its source text in the field ``raw`` (``-storeRaw``) or ``contents`` (``-storeContents``). A
FAISS folder holds the vectors in ``index`` and one document id per line in ``docid``.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke.core.errors import UserError
from madke.indexing.index_folder import MANIFEST, PASSAGES, PassageStore, StoredPassage, open_manifest
from madke.indexing.large_files import Lines, fingerprint_of
from madke.indexing.lucene import attached, open_lucene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1, B = 0.9, 0.4
"""BM25 parameters of pyserini's published results."""

Texts = Callable[[Sequence[str]], list[StoredPassage | None]]
"""Maps document ids to passages; None for an id that the index lacks."""

VECTORS = "index"
"""The vectors of a FAISS folder."""
DOCIDS = "docid"
"""The ids of its documents, one per line."""


def is_lucene(folder: Path) -> bool:
    """Whether the folder holds a Lucene index."""
    return any(path.is_file() for path in folder.glob("segments_*"))


def is_faiss(folder: Path) -> bool:
    """Whether the folder holds a FAISS file and the ids of its documents."""
    return (folder / VECTORS).is_file() and (folder / DOCIDS).is_file()


def describe(folder: Path) -> str | None:
    """Describe a folder in pyserini's format in one line; None if it is no such folder."""
    if is_lucene(folder):
        kind, count = "Lucene index", open_searcher(folder).get_total_num_docs()
    elif is_faiss(folder):
        kind, count = "FAISS vectors", len(Lines(folder / DOCIDS))
    else:
        return None
    return f"{kind} in pyserini's format: {count:,} documents, fingerprint {fingerprint_of(folder)}"


def open_searcher(folder: Path) -> Any:
    """Open Anserini's searcher, with the published BM25 parameters, over a Lucene folder that stores its texts."""
    searcher = open_lucene(folder, k1=K1, b=B)
    first = searcher.doc(0) if searcher.get_total_num_docs() else None
    if first is None:
        raise UserError("this Lucene index holds no documents", file=folder)
    if first.get("raw") is None and first.get("contents") is None:
        remedy = "use one that does, or index again with -storeRaw"
        raise UserError(f"this Lucene index does not store the texts of its documents; {remedy}", file=folder)
    return searcher


def stored_passage(docid: str, document: Any) -> StoredPassage:
    r"""The passage of a Lucene document, from its ``raw`` field or else from ``contents``.

    The field holds JSON (``{"title", "text"}``, ``{"title", "contents"}`` or ``{"contents"}``) or plain text. A quoted
    first line, ``"title"\ntext``, is the title, as in ``wikipedia-dpr-100w``.
    """
    raw = document.get("raw")
    stored = document.get("contents") if raw is None else raw
    try:
        fields = json.loads(stored)
    except (ValueError, RecursionError):
        fields = None
    text, title = stored, ""
    if isinstance(fields, dict):
        text = next((fields[name] for name in ("text", "contents") if isinstance(fields.get(name), str)), stored)
        title = fields["title"] if isinstance(fields.get("title"), str) else ""
    head, newline, body = text.partition("\n")
    head = head.strip()
    if not title and newline and len(head) > 1 and head[0] == head[-1] == '"':
        title, text = head[1:-1], body
    return StoredPassage(docid, title, text)


def open_passages(folder: Path, texts: Path) -> tuple[Callable[[Sequence[int]], list[StoredPassage]], int, str]:
    """A function from rows of a FAISS folder to passages, the number of rows, and the fingerprint of the texts.

    The function raises LookupError for a row without a text.
    """
    ids = Lines(folder / DOCIDS)
    text_of, fingerprint = _open_texts(texts)

    def passages(rows: Sequence[int]) -> list[StoredPassage]:
        wanted = [ids[row] for row in rows]
        found = text_of(wanted)
        stored = [passage for passage in found if passage is not None]
        if len(stored) < len(wanted):
            raise LookupError(f"document {wanted[found.index(None)]!r} of {folder} has no text in {texts}")
        return stored

    return passages, len(ids), fingerprint


def _open_texts(folder: Path) -> tuple[Texts, str]:
    """Texts by document id, and the fingerprint, of a Lucene folder in pyserini's format or an index of madke's."""
    if (folder / MANIFEST).is_file():
        fingerprint = open_manifest(folder).fingerprint
        return _texts_of_store(PassageStore(folder / PASSAGES)), fingerprint
    if not is_lucene(folder):
        raise UserError(
            "this folder holds no texts; expected an index of `madke index build`, or a Lucene index of pyserini's",
            file=folder,
        )
    searcher = open_searcher(folder)

    def passages(docids: Sequence[str]) -> list[StoredPassage | None]:
        with attached():
            documents = [(docid, searcher.doc(docid)) for docid in docids]
            return [None if document is None else stored_passage(docid, document) for docid, document in documents]

    return passages, fingerprint_of(folder)


def _texts_of_store(store: PassageStore) -> Texts:
    """Look up ids in sorted hashes, created on first use: 12 bytes per passage (252 MB for 21 million)."""
    import numpy as np

    @cache
    def by_hash() -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        hashes = np.frombuffer(array("q", map(hash, store.ids())), np.int64)
        rows = np.argsort(hashes).astype(np.uint32)
        return hashes[rows], rows

    def passage(docid: str) -> StoredPassage | None:
        hashes, rows = by_hash()
        first, last = (int(np.searchsorted(hashes, hash(docid), side)) for side in ("left", "right"))
        candidates = (store[int(row)] for row in rows[first:last])
        return next((candidate for candidate in candidates if candidate.id == docid), None)

    return lambda docids: [passage(docid) for docid in docids]
