"""The call store: cache, resume and replay in one SQLite file, to which every finished call is appended.

A call is one row: columns for look-ups and sums, the whole call as compressed JSON, and a checksum. The texts of its
messages are separate rows, keyed by their hash, so that a shared text is stored once.

A damaged file (an unreadable page, or a wrong checksum) is renamed when it is opened, or at the end of the command that
noticed the damage. Its readable calls are kept; the others are made again.
"""

import asyncio
import json
import logging
import os
import sqlite3
import zlib
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from madke.core.chat import LISTENERS, ChatModel, ChatRequest, Completion, Message, Purpose, Usage, fields_of
from madke.core.errors import UserError
from madke.files import disk_full

_log = logging.getLogger(__name__)

_APPLICATION = 0x4D41444B
_FORMAT = 3
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY, body BLOB);
    CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY, key BLOB, outcome TEXT, payer TEXT, model TEXT, stage TEXT, prompt_tokens INTEGER,
        cached_tokens INTEGER, completion_tokens INTEGER, reasoning_tokens INTEGER, body BLOB, checksum INTEGER
    );
    CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key);
"""
"""``payer``: the run that made the call; several runs can share the file."""

_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_COLUMNS = ("key", "outcome", "payer", "model", "stage", *_COUNTS, "body", "checksum")
_LOST = "[this text of the call store is lost: the file was damaged]"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM calls"
_INSERT = f"INSERT INTO calls ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_INSERT_TEXT = "INSERT OR IGNORE INTO texts VALUES (?, ?)"
_LONGEST_GAP = 10_000
"""The copy of a damaged file ends after this many consecutive missing ids."""

_to_json = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII output: models do emit lone surrogates, which have no UTF-8 form."""


class _Damage(Exception):
    """A row of the file differs from what was written."""


class Recorded(NamedTuple):
    """One call in a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str


_FAILURES = (sqlite3.Error, _Damage, UnicodeDecodeError, OverflowError)
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


class CallStore(AbstractContextManager["CallStore"]):
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
        column = _short_hash(key.encode())
        with self._errors():
            which = "WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"
            row = self._db.execute(f"{_SELECT} {which}", (column, not only_ok)).fetchone()
            if row is None:
                return None
            if row[0] != column:
                raise _Damage("its index names another call")
            return replace(_read_completion(_read_record(row)), paid=row[2] == payer)

    async def write(
        self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = ""
    ) -> None:
        """Add a finished call; it survives a kill once this returns. Calls of one event-loop step share a commit."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting.append((*_call_row(key, payer, model, request, completion), written))
        loop.call_soon(self._commit_waiting)
        await written

    def recorded(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """All stored calls, or those of one run, in the order of writing."""
        with self._errors():
            for row in self._db.execute(f"{_SELECT} WHERE ? IS NULL OR payer = ? ORDER BY id", (payer, payer)):
                yield _read_call(row, self._db)

    def paid(self, *, without: Collection[str] = ()) -> dict[tuple[str, str], Paid]:
        """(Payer, model name) -> all calls made, including failed ones, except those of the stages in ``without``."""
        sums = ", ".join(f"sum({name})" for name in _COUNTS)
        which = f"stage NOT IN ({', '.join('?' * len(without))})"
        query = f"SELECT payer, model, count(*), {sums} FROM calls WHERE {which} GROUP BY 1, 2 ORDER BY min(id)"
        with self._errors():
            return {
                (payer, model): Paid(calls, Usage(**dict(zip(_COUNTS, counts, strict=True))))
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

    A stored completion with outcome ``ok`` answers; any other call is made again. Under ``replay`` the last stored
    completion answers, errors included. A completion is ``paid`` if ``payer``, this run among those that share the
    store, made the call. Concurrent calls with equal keys become one.
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


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call, a hexadecimal SHA-256. Calls with equal keys are the same call.

    The key covers the model's name, the request and its purpose. The purpose keeps two debaters with identical prompts
    apart, and two repeats of a question. The key leaves out the endpoint's address (a server may move), retries and
    concurrency, the dataset and the variant (their effect is in the messages), and versions.
    """
    messages = [[message.role, message.content] for message in request.messages]
    purpose = list(fields_of(request.purpose).values())
    asked = [model, messages, float(request.temperature), request.max_tokens, request.stop, request.seed, purpose]
    return sha256(_to_json(asked).encode("ascii")).hexdigest()


def _short_hash(content: bytes) -> bytes:
    """The first 16 bytes of the SHA-256: long enough that collisions cannot be constructed."""
    return sha256(content).digest()[:16]


@lru_cache(maxsize=64)
def _packed(text: str) -> tuple[bytes, bytes]:
    content = text.encode("utf-8", "surrogatepass")
    # A higher level saves a tenth of the space and takes twice the time.
    return _short_hash(content), zlib.compress(content, level=1)


def _call_row(
    key: str, payer: str, model: str, request: ChatRequest, completion: Completion
) -> tuple[tuple[Any, ...], dict[bytes, bytes]]:
    """The values of _COLUMNS, and the texts of the messages: hash -> compressed text."""
    texts = [_packed(message.content) for message in request.messages]
    prompt = [(message.role, name.hex()) for message, (name, _) in zip(request.messages, texts, strict=True)]
    asked = {**fields_of(request), "purpose": fields_of(request.purpose), "messages": prompt}
    for name in (*LISTENERS, "stage"):
        del asked[name]
    record = {**asked, "completion": {**fields_of(completion), "usage": fields_of(completion.usage)}}
    counts = (getattr(completion.usage, name) for name in _COUNTS)
    columns = (_short_hash(key.encode()), completion.outcome, payer, model, request.purpose.stage, *counts)
    values = (*columns, zlib.compress(_to_json(record).encode("ascii"), level=1))
    return (*values, _checksum(values)), dict(texts)


def _checksum(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(tuple(values)).encode("ascii", "backslashreplace"))


def _read_record(row: Sequence[Any]) -> dict[str, Any]:
    *values, checksum = row
    if _checksum(values) != checksum:
        raise _Damage("a call is not what was written")
    record: dict[str, Any] = json.loads(zlib.decompress(values[-1]))
    return record


def _read_completion(record: dict[str, Any]) -> Completion:
    return Completion(**{**record["completion"], "usage": Usage(**record["completion"]["usage"])})


def _read_text(name: bytes, body: bytes) -> str:
    with suppress(zlib.error, TypeError):
        content = zlib.decompress(body)
        if _short_hash(content) == name:
            return content.decode("utf-8", "surrogatepass")
    raise _Damage("a text is not what was written")


def _read_call(row: Sequence[Any], db: sqlite3.Connection) -> Recorded:
    """The call in a row; _LOST replaces a text that the file no longer has."""

    def text(name: str) -> str:
        found = db.execute("SELECT hash, body FROM texts WHERE hash = ?", (bytes.fromhex(name),)).fetchone()
        return _read_text(*found) if found else _LOST

    record = _read_record(row)
    messages = tuple(Message(role=role, content=text(name)) for role, name in record["messages"])
    return Recorded(Purpose(**record["purpose"]), messages, _read_completion(record), row[3])


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
            db.executescript(f"BEGIN IMMEDIATE; {header}; {_SCHEMA} COMMIT")
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
        with suppress(_Damage):
            _read_record(row)
            fresh.execute(_INSERT, row)
            kept += 1
    for row in _readable(damaged, "SELECT hash, body FROM texts WHERE rowid = ?"):
        with suppress(_Damage):
            _read_text(*row)
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
