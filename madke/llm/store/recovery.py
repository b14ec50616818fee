"""What is done with a damaged call store: everything that can be read is copied into a fresh file.

**What is noticed**: whatever SQLite stumbles over (a header or a page that cannot be, a file that is shorter than its
header says, a text or a table that no statement of ours fits), a write-ahead log that does not begin as one, and,
because every row carries a checksum, every piece of text its hash, and the index of hashes the piece's id once more, a
call that is not what was written, when it is read. Noticed at the opening it is recovered at once; noticed later, the
command ends, and the next opening recovers.

**What cannot be noticed**: damage where nobody looks (it is found when the call is read); a damaged entry of the index
of keys and a write-ahead log that is damaged after its first lines, or gone, whose calls are simply not there; a file
of no bytes. Such calls are made again; none is answered with a wrong text.

A call is kept if its row and every piece of its reply are what was written; a piece is not if the index of hashes, or
another piece, contradicts its id. A piece of a prompt that is lost is replaced by a note of that, since one piece may
be in every prompt and no answer needs it. The damaged file stays beside the fresh one, as ``calls.sqlite.damaged-1``
and so on, and its log with it. A damaged file of which no call can be read (that of a madke before there were checksums
is one) is left where it is.
"""

from __future__ import annotations

import fcntl
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import disk_full
from madke.llm.store.pages import Value, is_log, rows
from madke.llm.store.pieces import is_piece, short_hash
from madke.llm.store.rows import COLUMNS, is_whole
from madke.llm.store.schema import APPLICATION_ID, migrate

_log = logging.getLogger(__name__)

open_here: Counter[Path] = Counter()
"""Resolved path -> stores that this process has open, which no lock of the system tells apart from us."""

_OUR_COLUMNS = len(COLUMNS.split()) + 2
"""Of a call: its id before, the time of writing after them."""

_SHARED_BYTES = (510, 0x40000002)
"""How many bytes, and from where, SQLite locks for reading while a file is open in WAL mode; see the lock-byte page in
https://www.sqlite.org/fileformat2.html."""

_MISSING = "type = 'integer' AND atom NOT IN (SELECT id FROM pieces)"


def note_damage(path: Path) -> None:
    """Have the next opening of a store recover it."""
    try:
        _mark(path).touch()
    except OSError:  # a full or read-only disk: then the damage will be noticed again
        return


def shows_damage(path: Path) -> bool:
    """Whether a store must be recovered before it is opened."""
    try:
        return path.exists() and (_mark(path).exists() or _fresh(path).exists() or not is_log(_beside(path, "-wal")))
    except OSError:  # whoever opens it says why
        return False


def recover(path: Path) -> None:
    """Put what can be read of a damaged store in its place, and warn of it.

    A kill at any moment leaves the damaged store, or a fresh one that the next opening puts in its place.

    Raises:
        UserError: The file is no call store, none of its calls can be read, it is open elsewhere, or the disk is full.
    """
    try:
        with _alone(path):
            if not _fresh(path).exists():
                _copy(path)
            kept_as = _exchange(path)
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise disk_full(path) from error
        raise UserError(f"is damaged, and could not be recovered: {error}", file=path) from error
    with closing(sqlite3.connect(path)) as db:
        (kept,) = db.execute("SELECT count(*) FROM calls").fetchone()
    _log.warning("%s was damaged: %d calls could be read and are kept; the damaged file is now %s", path, kept, kept_as)


def _copy(path: Path) -> None:
    """Write what can be read into a fresh file."""
    part = _beside(path, ".recovering")
    part.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN")
            migrate(db, part)
            # Hash -> id by the index of pieces: a piece's hash does not tell whether its id is damaged.
            db.execute("CREATE TEMP TABLE ids (hash BLOB, id INTEGER, PRIMARY KEY (hash, id)) WITHOUT ROWID")
            for number, (first, *columns) in rows(path, _beside(path, "-wal")):
                if number is None:
                    if len(columns) == 1 and isinstance(first, bytes):
                        db.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (first, *columns))
                elif len(columns) == 2 and is_piece(*columns):
                    _keep_piece(db, number, *columns)
                elif _is_call(columns):
                    values = ", ".join("?" * _OUR_COLUMNS)
                    db.execute(f"INSERT OR IGNORE INTO calls VALUES ({values})", (number, *columns))
            contradicted = "SELECT 1 FROM ids WHERE hash = pieces.hash AND id <> pieces.id"
            db.execute(f"DELETE FROM pieces WHERE EXISTS ({contradicted})")
            db.execute(f"DELETE FROM calls WHERE EXISTS (SELECT 1 FROM json_each(reply) WHERE {_MISSING})")
            # One text may be in every prompt; without it the calls are still good answers.
            lost = db.execute(f"SELECT DISTINCT atom FROM calls, json_tree(messages) WHERE {_MISSING}").fetchall()
            for (number,) in lost:
                text = f"[text {number} of the call store is lost: it was damaged]".encode()
                db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (number, short_hash(text), text))
            (kept,) = db.execute("SELECT count(*) FROM calls").fetchone()
            db.execute("COMMIT")
        if not kept:
            what = "is damaged, and no call in it can be read" if _says_ours(path) else "is no call store of madke"
            todo = "if it was the store of a run, move it away: its calls are lost and made again"
            raise UserError(f"{what}; name another file, or, {todo}", file=path)
        part.replace(_fresh(path))
    finally:
        part.unlink(missing_ok=True)


def _keep_piece(db: sqlite3.Connection, number: int, hashed: Value, text: Value) -> None:
    if not db.execute("INSERT OR IGNORE INTO pieces VALUES (?, ?, ?)", (number, hashed, text)).rowcount:
        # Two pieces with one id, or one with two: neither is to be trusted.
        others = "SELECT hash, -1 FROM pieces WHERE (id = ?1) <> (hash = ?2)"
        db.execute(f"INSERT OR IGNORE INTO ids {others} AND (id = ?1 OR hash = ?2)", (number, hashed))


def _is_call(columns: Sequence[Any]) -> bool:
    return len(columns) == _OUR_COLUMNS - 1 and is_whole(columns)


def _exchange(path: Path) -> Path:
    """Put the fresh file in the damaged one's place; where that is kept."""
    candidates = (_beside(path, f".damaged-{n}") for n in count(1))
    kept_as = next(each for each in candidates if not each.exists() or each.samefile(path))
    if not kept_as.exists():
        kept_as.hardlink_to(path)
    log = _beside(path, "-wal")
    if log.exists():  # the fresh file must not find it
        log.replace(_beside(kept_as, "-wal"))
    _beside(path, "-shm").unlink(missing_ok=True)
    _mark(path).unlink(missing_ok=True)
    _fresh(path).replace(path)
    return kept_as


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep everybody else from opening the store."""
    busy = UserError("is damaged, and is open elsewhere; when that has ended, opening it again recovers it", file=path)
    if open_here[path.resolve()]:
        raise busy
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED_BYTES)
        except (BlockingIOError, PermissionError):
            raise busy from None
        yield


def _says_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(72)[68:] == APPLICATION_ID.to_bytes(4, "big")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _mark(path: Path) -> Path:
    """Says that damage was noticed."""
    return _beside(path, ".damaged")


def _fresh(path: Path) -> Path:
    """A recovered store, whole, that is not yet in its place."""
    return _beside(path, ".recovered")
