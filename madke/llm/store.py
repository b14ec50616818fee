"""The call store: cache, resume and replay in one SQLite file, to which every finished call is appended.

A damaged file (an unreadable page, or a wrong checksum) is renamed when it is opened, or at the end of the command that
noticed the damage. Its readable calls are kept; the others are made again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from madke.core.chat import ChatModel, ChatRequest, Completion, Usage
from madke.core.errors import UserError
from madke.files import disk_full
from madke.llm import call_rows
from madke.llm.call_rows import COLUMNS, COUNTS, Damage, Recorded, call_key, read_record

__all__ = ["CallStore", "Paid", "Stored", "call_key"]

_log = logging.getLogger(__name__)

_APPLICATION = 0x4D41444B
_FORMAT = 3
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM calls"
_INSERT = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_INSERT_TEXT = "INSERT OR IGNORE INTO texts VALUES (?, ?)"
_LONGEST_GAP = 10_000
"""The copy of a damaged file ends after this many consecutive missing ids."""

_FAILURES = (sqlite3.Error, Damage, UnicodeDecodeError, OverflowError)
"""Exceptions that an unreadable store can raise; the last two for invalid UTF-8 and for huge numbers in it."""
_DAMAGED = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    # Our statements and values are valid, so these errors come from the file. Code 0 is invalid UTF-8.
    *(0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG),
)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


class Paid(NamedTuple):
    """Number and usage of paid calls."""

    calls: int
    usage: Usage


class CallStore:
    """An open call store, created if missing; processes may share it. UserError if the file cannot be used as one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_flight: dict[str, asyncio.Future[Completion]] = {}
        """Calls in flight of the :class:`Stored` models of this process, by key."""
        self._waiting: list[tuple[tuple[Any, ...], dict[bytes, bytes], asyncio.Future[None]]] = []
        self._damaged = False
        with self._errors():
            try:
                self._db = _opened(path)
            except _FAILURES as error:
                if not _is_damage(error):
                    raise
                if path.suffix != ".sqlite":  # call stores have it; the user named this one by mistake
                    raise UserError("is not a call store of madke; name another file", file=path) from error
                _set_aside(path)
                self._db = _opened(path)
        self._file = path.stat()

    def find(self, key: str, *, payer: str = "", only_ok: bool = True) -> Completion | None:
        """The last completion stored under a :func:`call_key`, or None. It is ``paid`` if ``payer`` made the call."""
        column = call_rows.short_hash(key.encode())
        with self._errors():
            which = "WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"
            row = self._db.execute(f"{_SELECT} {which}", (column, not only_ok)).fetchone()
            if row is None:
                return None
            if row[0] != column:
                raise Damage("its index names another call")
            return replace(call_rows.read_completion(read_record(row)), paid=row[2] == payer)

    async def write(
        self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = ""
    ) -> None:
        """Add a finished call; it survives a kill once this returns. Calls of one event-loop step share a commit."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((*call_rows.call_row(key, payer, model, request, completion), written))
        loop.call_soon(self._commit_waiting)
        await written

    def recorded(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """All stored calls, or those of one run, in the order of writing."""
        with self._errors():
            for row in self._db.execute(f"{_SELECT} WHERE ? IS NULL OR payer = ? ORDER BY id", (payer, payer)):
                yield call_rows.read_call(row, self._db)

    def paid(self, *, without: Collection[str] = ()) -> dict[tuple[str, str], Paid]:
        """(Payer, model name) -> all calls made, including failed ones, except those of the stages in ``without``."""
        sums = ", ".join(f"sum({name})" for name in COUNTS)
        which = f"stage NOT IN ({', '.join('?' * len(without))})"
        query = f"SELECT payer, model, count(*), {sums} FROM calls WHERE {which} GROUP BY 1, 2 ORDER BY min(id)"
        with self._errors():
            return {
                (payer, model): Paid(calls, Usage(**dict(zip(COUNTS, counts, strict=True))))
                for payer, model, calls, *counts in self._db.execute(query, tuple(without))
            }

    def close(self) -> None:
        """Close the file; rename it if damage was noticed."""
        try:
            self._commit_waiting()
        finally:
            self._db.close()
            if self._damaged and self._is_there():
                with self._errors():
                    _set_aside(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _commit_waiting(self) -> None:
        group, self._waiting = self._waiting, []
        failure = None
        try:
            if group:
                self._commit([row for row, _, _ in group], ChainMap(*(texts for _, texts, _ in group)))
        except UserError as error:
            failure = error
        for written in (each for _, _, each in group if not each.done()):  # done ones were cancelled
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

    def _commit(self, rows: Sequence[tuple[Any, ...]], texts: Mapping[bytes, bytes]) -> None:
        if not self._is_there():  # SQLite would keep writing to a deleted file, and the calls would be lost
            why = "was removed or replaced while it was in use; run the command again to continue with the present file"
            raise UserError(why, file=self.path)
        with self._errors(), self._db:
            self._db.executemany(_INSERT_TEXT, texts.items())
            self._db.executemany(_INSERT, rows)

    def _is_there(self) -> bool:
        return self.path.exists() and os.path.samestat(self._file, self.path.stat())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn exceptions of the file into UserErrors."""
        try:
            yield
        except _FAILURES as error:
            if _is_damage(error):
                self._damaged = True
                why = f"is damaged ({error}); run the command again to continue with the calls that can be read"
            elif _code(error) == sqlite3.SQLITE_FULL:
                raise disk_full(self.path) from error
            else:
                hint = "; the file and its folder must exist and be writable" if _code(error) in _UNWRITABLE else ""
                why = f"cannot be used as a call store: {error}{hint}"
            raise UserError(why, file=self.path) from error


class Stored:
    """A model whose calls go through a call store.

    A stored completion with outcome ``ok`` answers; any other call is made again. A completion is ``paid`` if this run
    made the call. Concurrent calls with equal keys become one.

    Args:
        model: The wrapped model, called when the store has no answer.
        store: The store for look-ups and writes.
        replay: Never call the model: answer with the last stored completion, errors included.
        payer: Identifies this run among those that share the store.
    """

    def __init__(self, model: ChatModel, store: CallStore, *, replay: bool = False, payer: str = "") -> None:
        self.name = model.name
        self._model = model
        self._store = store
        self._replay = replay
        self._payer = payer

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer from the store, or call the model and store its completion."""
        key, in_flight = call_key(self.name, request), self._store.in_flight
        while True:
            known = self._store.find(key, payer=self._payer, only_ok=not self._replay)
            if known is not None:
                return known
            if self._replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            if key not in in_flight:
                break
            running = in_flight[key]
            await asyncio.wait([running])
            if not running.cancelled():
                return replace(running.result(), paid=False)
        running = in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            completion = await self._model.complete(request)
            await self._store.write(key, self.name, request, completion, payer=self._payer)
            running.set_result(completion)
            return completion
        finally:
            del in_flight[key]
            # Without a result (Ctrl-C, a bug) the waiting tasks must call the model themselves.
            running.cancel()


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30)
    try:
        # Write nothing, not even the journal mode, before the file is known to be a call store.
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise UserError("is an SQLite file but not a call store of madke; name another file", file=path)
        (written,) = db.execute("PRAGMA user_version").fetchone()
        if tables and written != _FORMAT:
            todo = "move it away to start again, or use the madke version that wrote it"
            raise UserError(f"is a call store in format {written}, expected {_FORMAT}; {todo}", file=path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 4000")  # pages; a checkpoint waits for the disk
        if not tables:
            header = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT}"
            db.executescript(f"BEGIN IMMEDIATE; {header}; {call_rows.SCHEMA} COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _set_aside(path: Path) -> None:
    """Rename a damaged store, and replace it with a new one that holds its readable calls."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.part")
    aside = next(each for n in count(1) if not (each := path.with_name(f"{path.name}.damaged-{n}")).exists())
    try:
        with closing(_opened(fresh)) as db, closing(sqlite3.connect(path)) as damaged, db:
            damaged.execute("PRAGMA writable_schema = ON")  # makes SQLite read a truncated file
            kept = _copy(damaged, db)
        for suffix in ("-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
        fresh.replace(path)
    except OSError as error:
        raise UserError(f"is damaged and cannot be renamed: {error.strerror}", file=path) from error
    finally:
        fresh.unlink(missing_ok=True)
    _log.warning("%s was damaged: %d calls could be read and are kept; the damaged file is now %s", path, kept, aside)


def _copy(damaged: sqlite3.Connection, fresh: sqlite3.Connection) -> int:
    kept = 0
    for row in _readable(damaged, f"{_SELECT} WHERE id = ?"):
        with suppress(Damage):
            read_record(row)
            fresh.execute(_INSERT, row)
            kept += 1
    for row in _readable(damaged, "SELECT hash, body FROM texts WHERE rowid = ?"):
        with suppress(Damage):
            call_rows.read_text(*row)
            fresh.execute(_INSERT_TEXT, row)
    return kept


def _readable(damaged: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The readable rows, queried one id at a time, up to a long gap."""
    missed = number = 0
    while missed < _LONGEST_GAP:
        number, missed = number + 1, missed + 1
        with suppress(*_FAILURES):
            if row := damaged.execute(query, (number,)).fetchone():
                missed = 0
                yield row


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for other exceptions."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_damage(error: Exception) -> bool:
    return not isinstance(error, sqlite3.Error) or _code(error) in _DAMAGED
