"""The open call store: finding, writing and reading calls."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import UserError
from madke.files import disk_full
from madke.llm.store.pieces import Damage, Pieces
from madke.llm.store.recovery import note_damage, open_here, recover, shows_damage
from madke.llm.store.rows import COLUMNS, Finished, Recorded, finished, key_column, read_call, read_completion, rows_of
from madke.llm.store.schema import APPLICATION_ID, migrate

_INSERT = f"INSERT INTO calls ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split()))})"
_FIND = f"SELECT {COLUMNS} FROM calls WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"

_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""The figures of :class:`madke.core.chat.Usage` that can be added up."""

_FAILURES = (sqlite3.Error, Damage, UnicodeDecodeError, OverflowError)
"""What goes wrong with a file; Python's own two where SQLite gives it a text that is none, or an id beyond all."""
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    # Our statements and values are right, so what does not fit them is the file.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


class Paid(NamedTuple):
    """Some calls of one model."""

    calls: int
    usage: Usage


class CallStore:
    """An open call store. Close it, or use it as a context manager; several processes may have it open.

    A file whose damage shows is recovered when it is opened: see :mod:`madke.llm.store.recovery`.

    Args:
        path: The file; made if missing, in a folder that exists.

    Raises:
        UserError: The file is no call store, is damaged while others have it open, cannot be written, or comes from a
            newer madke.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_flight: dict[str, asyncio.Future[Completion]] = {}
        """Calls that :class:`Stored` models of this process are making now, by key."""
        self._waiting: list[tuple[Finished, asyncio.Future[None]]] = []
        self._closed = False
        with self._errors():
            if shows_damage(path):
                recover(path)
            try:
                self._db = self._opened()
            except _FAILURES as error:
                if not _is_damage(error):
                    raise
                recover(path)
                self._db = self._opened()
        self._file = path.stat()
        open_here[path.resolve()] += 1
        self._pieces = Pieces(self._db)

    def find(self, key: str, *, payer: str = "", only_ok: bool = True) -> Completion | None:
        """The completion that was stored last under the key, or None.

        It counts as paid if ``payer`` made the call: what a run paid for before a kill it has still paid for.

        Args:
            key: See :func:`madke.llm.store.call_key`.
            payer: The run that asks.
            only_ok: Pass over completions whose outcome is not ``ok``.
        """
        try:  # once for every call, and so without the context manager
            column = key_column(key)
            row = self._db.execute(_FIND, (column, not only_ok)).fetchone()
            if row is None:
                return None
            if row[0] != column:  # by a damaged index
                raise Damage("a call has another's key")
            return replace(read_completion(row, self._pieces), paid=row[2] == payer)
        except _FAILURES as error:
            raise self._said(error) from error

    async def write(
        self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = ""
    ) -> None:
        """Add a finished call of a run; it survives a kill of this process when this returns.

        Calls that end in the same turn of the event loop are one transaction. One that is cancelled while it waits is
        written all the same: it is paid for.

        Raises:
            UserError: The file was removed or replaced, or cannot be written.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((finished(key, payer, model, request, completion), written))
        loop.call_soon(self._commit_waiting)
        await written

    def recorded(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """Every stored call, or those that one run made, in the order in which they were written.

        Args:
            payer: The run; None for all.
        """
        query = f"SELECT {COLUMNS} FROM calls WHERE ?1 IS NULL OR payer = ?1 ORDER BY id"
        with self._errors():
            for row in self._db.execute(query, (payer,)):
                yield read_call(row, self._pieces)

    def paid(self, *, without: Collection[str] = ()) -> dict[tuple[str, str], Paid]:
        """(Payer, model's own name) -> all calls that were made, repeated and failed ones too.

        Args:
            without: Stages whose calls are left out.
        """
        sums = ", ".join(f"sum(coalesce(json_extract(completion, '$.usage.{name}'), 0))" for name in _COUNTS)
        others = f"json_extract(request, '$.purpose.stage') NOT IN ({', '.join('?' * len(without))})"
        which = f"WHERE {others}" if without else ""
        query = f"SELECT payer, model, count(*), {sums} FROM calls {which} GROUP BY payer, model ORDER BY min(id)"
        with self._errors():
            rows = self._db.execute(query, tuple(without)).fetchall()
            if any([type(value) for value in row] != [str, str, int, *[int] * len(_COUNTS)] for row in rows):
                raise Damage("what calls have used is not what was written")
        return {
            (payer, model): Paid(calls, Usage(**dict(zip(_COUNTS, counts, strict=True))))
            for payer, model, calls, *counts in rows
        }

    def close(self) -> None:
        """Close the file."""
        if self._closed:
            return
        try:
            self._commit_waiting()
        finally:
            self._closed = True
            open_here[self.path.resolve()] -= 1
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _commit_waiting(self) -> None:
        """Write all calls that wait, and tell those who wait how it went."""
        group, self._waiting = self._waiting, []
        if not group:
            return
        failure = None
        try:
            self._commit([call for call, _ in group])
        except UserError as error:
            failure = error
        for _, written in group:
            if written.done():  # cancelled
                continue
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

    def _commit(self, calls: Sequence[Finished]) -> None:
        if not self._is_there():  # SQLite would go on writing into a file without a name, and all would be lost
            why = "was removed or replaced while it was in use; the same command again goes on with what is there now"
            raise UserError(why, file=self.path)
        with self._errors():
            try:
                with _transaction(self._db):
                    self._db.executemany(_INSERT, rows_of(calls, self._pieces))
            except BaseException:
                self._pieces.forget()
                raise

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(self._file, self.path.stat())
        except OSError:
            return False

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            # Nothing may be written, not even the journal mode, before the file is known to be ours.
            tables = _number(db, "SELECT count(*) FROM sqlite_master")
            if tables and _number(db, "PRAGMA application_id") != APPLICATION_ID:
                if _number(db, "SELECT count(*) FROM sqlite_master WHERE name IN ('calls', 'pieces')") == 2:
                    raise Damage("its header is not what was written")
                raise UserError("is an SQLite file, but no call store of madke; name another file", file=self.path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            with _transaction(db):
                migrate(db, self.path)
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._said(error) from error

    def _said(self, error: Exception) -> UserError:
        if _is_damage(error):
            note_damage(self.path)
            return UserError(f"is damaged ({error}); the same command again recovers what can be read", file=self.path)
        if _code(error) == sqlite3.SQLITE_FULL:
            return disk_full(self.path)
        hint = "; it and its folder must be there and writable" if _code(error) in _UNWRITABLE else ""
        return UserError(f"cannot be used as a call store: {error}{hint}", file=self.path)


def _number(db: sqlite3.Connection, query: str) -> int:
    number: int = db.execute(query).fetchone()[0]
    return number


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends it itself where the disk is full
            db.execute("ROLLBACK")
        raise


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an error of the module's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_damage(error: Exception) -> bool:
    if not isinstance(error, sqlite3.Error):
        return True
    # Without a code: the module's own, of a text that is no UTF-8.
    return _code(error) in _DAMAGED or (type(error) is sqlite3.OperationalError and not _code(error))
