"""Folders in pyserini's format: Lucene and FAISS indexes that others publish.

* A Lucene document stores its source text in the field ``raw`` (``-storeRaw``) or ``contents`` (``-storeContents``).
* A FAISS folder of pyserini's holds the vectors in ``index`` and one document id per line in ``docid``.
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from madke._util.files import open_unpacked
from madke.core.errors import UserError
from madke.retrieval.indexes.index_folder import StoredPassage
from madke.retrieval.indexes.lucene import java_thread, open_lucene

Passages = Callable[[Sequence[int]], list[StoredPassage]]
"""From rows to passages; raises LookupError for a row without one."""

VECTORS = "index"
DOCIDS = "docid"


def is_lucene(folder: Path) -> bool:
    """Whether the folder holds a Lucene index."""
    return any(path.is_file() for path in folder.glob("segments_*"))


def is_faiss(folder: Path) -> bool:
    """Whether the folder holds FAISS vectors and the ids of their documents."""
    return (folder / VECTORS).is_file() and (folder / DOCIDS).is_file()


def describe(folder: Path) -> str | None:
    """Describe a folder in pyserini's format in one line; None if it is not in this format."""
    if is_lucene(folder):
        kind, count = "Lucene index", open_searcher(folder).get_total_num_docs()
    elif is_faiss(folder):
        kind, count = "FAISS vectors", len(Lines(folder / DOCIDS))
    else:
        return None
    return f"{kind} in pyserini's format: {count:,} documents, fingerprint {fingerprint_of(folder)}"


def open_searcher(folder: Path) -> Any:
    """Open Anserini's searcher, with the published BM25 parameters, over a Lucene folder that stores its texts."""
    searcher = open_lucene(folder)
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


def open_passages(folder: Path, texts: Path) -> tuple[Passages, int]:
    """A function from rows of a FAISS folder to passages, and the number of rows.

    The passages are in ``texts``, a Lucene folder in pyserini's format. The function raises LookupError for a row
    without one.
    """
    if not is_lucene(texts):
        raise UserError("this folder holds no texts; expected a Lucene index in pyserini's format", file=texts)
    ids, searcher = Lines(folder / DOCIDS), open_searcher(texts)

    def passages(rows: Sequence[int]) -> list[StoredPassage]:
        stored = []
        with java_thread():
            for row in rows:
                document = searcher.doc(ids[row])
                if document is None:
                    raise LookupError(f"document {ids[row]!r} of {folder} has no text in {texts}")
                stored.append(stored_passage(ids[row], document))
        return stored

    return passages, len(ids)


FETCHED = "fetched.json"
"""The file in which ``madke index fetch`` records which published index a folder holds."""
_EDGE = 1 << 16
_BLOCK = 1 << 20


def fingerprint_of(path: Path) -> str:
    """Twelve hexadecimal digits that identify a file or the content of a folder, without reading it whole.

    They hash names, sizes, and the first and last 64 KiB of every file (this covers all of Lucene's ``segments_N``,
    which lists the live documents).
    """
    digest = sha256()
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not part.is_file() or part.name in ("write.lock", FETCHED):
            continue
        with open_unpacked(part) as file:
            size = file.seek(0, 2)
            digest.update(f"{part.name}\n{size}\n".encode())
            for start in {0, max(0, size - _EDGE)}:
                file.seek(start)
                digest.update(file.read(_EDGE))
    return digest.hexdigest()[:12]


class Lines:
    """The lines of a file, memory-mapped. The ends of all lines are in memory, 8 bytes each."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        try:
            self._text = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise UserError(f"cannot be read: {error}", file=path) from None
        blocks = ((start, self._text[start : start + _BLOCK]) for start in range(0, len(self._text), _BLOCK))
        ends = [start + np.flatnonzero(block == ord("\n")) for start, block in blocks]
        last = [] if self._text[-1] == ord("\n") else [len(self._text)]
        self._ends = np.concatenate([*ends, np.array(last, dtype=np.int64)])

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} lines")
        start = int(self._ends[row - 1]) + 1 if row else 0
        return self._text[start : int(self._ends[row])].tobytes().rstrip().decode()
