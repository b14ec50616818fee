"""The call store: cache, resume and replay in one SQLite file, to which every finished call is appended.

A call is one row: columns for look-ups and sums, the whole call as compressed JSON, and a checksum. The texts of its
messages are separate rows, keyed by their hash, so that a shared text is stored once. A call whose row differs from its
checksum counts as missing, and is made again. A file that SQLite cannot read is renamed, and a new one takes its place.
"""

import asyncio
import json
import logging
import os
import sqlite3
import zlib
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from madke._util.files import disk_full
from madke.core.chat import LISTENERS, ChatRequest, Completion, Message, Purpose, Schema, Usage, fields_of
from madke.core.errors import UserError
from madke.models.prices import plain_name

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
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM calls"
_INSERT = f"INSERT INTO calls ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_INSERT_TEXT = "INSERT OR IGNORE INTO texts VALUES (?, ?)"
_LOST = "[this text of the call store is lost: the file was damaged]"
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""Exceptions of a file that cannot be used; the last two for invalid UTF-8 and for huge numbers in it."""
_DAMAGED = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    # Our statements and values are valid, so these errors come from the file. Code 0 is invalid UTF-8.
    *(0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG),
)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)

compact_json = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII output: models do emit lone surrogates, which have no UTF-8 form."""


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call, a hexadecimal SHA-256. Calls with equal keys are the same call.

    The key covers the model's name, the request (in its bound form, if it has one) and its purpose. The purpose keeps
    two debaters with identical prompts apart, and two repeats of a question. The key leaves out the endpoint's address
    (a server may move), retries and concurrency, the dataset and the variant (their effect is in the messages), and
    versions.
    """
    request = request.in_form(bound=True)
    messages = [[message.role, message.content] for message in request.messages]
    purpose = list(fields_of(request.purpose).values())
    parts = [model, messages, float(request.temperature), request.max_tokens, request.stop, request.seed, purpose]
    if request.bound is not None:
        parts.append(fields_of_schema(request.bound.schema))
    return sha256(compact_json(parts).encode("ascii")).hexdigest()


def fields_of_schema(schema: Schema) -> list[Any]:
    """The schema as JSON, for the key and the record of a call."""
    # Fields that came later stand only where they are set, so that the keys of stored calls stay what they are.
    return [
        schema.name,
        *(
            [each.name, each.words, each.numbers, each.max_length, *(["with_texts"] if each.with_texts else [])]
            for each in schema.fields
        ),
    ]


class Paid(NamedTuple):
    """Number and usage of paid calls."""

    calls: int
    usage: Usage


class Recorded(NamedTuple):
    """One call in a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str


class CallStore(AbstractContextManager["CallStore"]):
    """An open call store, created if missing; processes may share it. UserError if the file cannot be used as one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_flight: dict[str, asyncio.Future[Completion]] = {}
        """Calls of this process that are being made, by key."""
        self._waiting: list[tuple[tuple[Any, ...], dict[bytes, bytes], asyncio.Future[None]]] = []
        self._is_damaged = False
        with self._errors():
            try:
                self._db = _open(path)
            except _FAILURES as error:
                if _code(error) not in _DAMAGED:
                    raise
                if path.suffix != ".sqlite":  # call stores have it; the user named this one by mistake
                    raise UserError("is not a call store of madke; name another file", file=path) from error
                _set_aside(path)
                self._db = _open(path)
        self._file = path.stat()

    def find(self, key: str, *, payer: str = "", only_ok: bool = True) -> Completion | None:
        """The last completion stored under a :func:`call_key`, or None. It is ``paid`` if ``payer`` made the call."""
        column = _hash(key.encode())
        which = "WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"
        with self._errors():
            row = self._db.execute(f"{_SELECT} {which}", (column, not only_ok)).fetchone()
        record = row and row[0] == column and _record(row)
        return replace(_completion(record), paid=row[2] == payer) if record else None

    async def write(
        self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = ""
    ) -> None:
        """Add a finished call; it survives a kill once this returns. Calls of one event-loop step share a commit."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        texts = [_pack(message.content) for message in request.messages]
        row = _row(_hash(key.encode()), payer, model, _record_of(request, completion, [name for name, _ in texts]))
        self._waiting.append((row, dict(texts), written))
        loop.call_soon(self._commit_waiting)
        await written

    def calls(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """All stored calls, or those of one run, in the order of writing."""
        with self._errors():
            for row in self._db.execute(f"{_SELECT} WHERE ? IS NULL OR payer = ? ORDER BY id", (payer, payer)):
                if record := _record(row):
                    messages = tuple(Message(role=role, content=self._text(name)) for role, name in record["messages"])
                    yield Recorded(Purpose(**record["purpose"]), messages, _completion(record), plain_name(row[3]))

    def export(self) -> Iterator[dict[str, Any]]:
        """All texts, then all calls in the order of writing, as JSON objects for :meth:`restore`."""
        with self._errors():
            for (name,) in self._db.execute("SELECT hash FROM texts ORDER BY rowid"):
                yield {"text": name.hex(), "body": self._text(name.hex())}
            for row in self._db.execute(f"{_SELECT} ORDER BY id"):
                if record := _record(row):
                    yield {"key": row[0].hex(), "payer": row[2], "model": row[3], "call": record}

    def restore(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add what another store exported."""
        with self._errors(), self._db:
            for entry in entries:
                if "text" in entry:
                    _, body = _pack(entry["body"])
                    self._db.execute(_INSERT_TEXT, (bytes.fromhex(entry["text"]), body))
                else:
                    key = bytes.fromhex(entry["key"])
                    self._db.execute(_INSERT, _row(key, entry["payer"], entry["model"], entry["call"]))

    def paid(self) -> dict[tuple[str, str], Paid]:
        """(Payer, model name) -> all calls made, including failed ones.

        Calls at a service tier are apart, under the name of :func:`madke.models.prices.billed_as`.
        """
        sums = ", ".join(f"sum({name})" for name in _COUNTS)
        query = f"SELECT payer, model, count(*), {sums} FROM calls GROUP BY 1, 2 ORDER BY min(id)"
        with self._errors():
            return {
                (payer, model): Paid(calls, Usage(**dict(zip(_COUNTS, counts, strict=True))))
                for payer, model, calls, *counts in self._db.execute(query)
            }

    def close(self) -> None:
        """Close the file; rename it if damage was noticed."""
        try:
            self._commit_waiting()
        finally:
            self._db.close()
            if self._is_damaged and self._is_there():
                _set_aside(self.path)

    def __exit__(self, *error: object) -> None:
        self.close()

    def _commit_waiting(self) -> None:
        group, self._waiting = self._waiting, []
        if not group:
            return
        failure = None
        try:
            if not self._is_there():  # SQLite would keep writing to a deleted file, and the calls would be lost
                why = "was removed or replaced while it was in use; run the command again to continue with the new file"
                raise UserError(why, file=self.path)
            with self._errors(), self._db:
                self._db.executemany(_INSERT_TEXT, ChainMap(*(texts for _, texts, _ in group)).items())
                self._db.executemany(_INSERT, [row for row, _, _ in group])
        except UserError as error:
            failure = error
        for written in (each for _, _, each in group if not each.done()):  # done ones were cancelled
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

    def _text(self, name: str) -> str:
        row = self._db.execute("SELECT body FROM texts WHERE hash = ?", (bytes.fromhex(name),)).fetchone()
        with suppress(zlib.error, TypeError):
            if _hash(content := zlib.decompress(row[0])).hex() == name:
                return content.decode("utf-8", "surrogatepass")
        return _LOST

    def _is_there(self) -> bool:
        return self.path.exists() and os.path.samestat(self._file, self.path.stat())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn exceptions of the file into UserErrors."""
        try:
            yield
        except _FAILURES as error:
            if (code := _code(error)) in _DAMAGED:
                self._is_damaged = True
                todo = "run the command again: the file is set aside, and its calls are made again"
                why = f"is damaged ({error}); {todo}"
            elif code == sqlite3.SQLITE_FULL:
                raise disk_full(self.path) from error
            else:
                hint = "; the file and its folder must exist and be writable" if code in _UNWRITABLE else ""
                why = f"cannot be used as a call store: {error}{hint}"
            raise UserError(why, file=self.path) from error


def _open(path: Path) -> sqlite3.Connection:
    """Open a store, created if missing. UserError for a file of another program or format."""
    db = sqlite3.connect(path, timeout=30)
    try:
        # Write nothing, not even the journal mode, before the file is known to be a call store.
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
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
    """Rename an unreadable store, with its log."""
    aside = next(each for n in count(1) if not (each := path.with_name(f"{path.name}.damaged-{n}")).exists())
    try:
        for suffix in ("-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise UserError(f"is damaged and cannot be renamed: {error.strerror}", file=path) from error
    _log.warning("%s cannot be read and is now %s; its calls are made again", path, aside.name)


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for other exceptions."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _hash(content: bytes) -> bytes:
    """The first 16 bytes of the SHA-256: long enough that collisions cannot be constructed."""
    return sha256(content).digest()[:16]


@lru_cache(maxsize=64)
def _pack(text: str) -> tuple[bytes, bytes]:
    content = text.encode("utf-8", "surrogatepass")
    # A higher level saves a tenth of the space and takes twice the time.
    return _hash(content), zlib.compress(content, level=1)


def _record_of(request: ChatRequest, completion: Completion, texts: Sequence[bytes]) -> dict[str, Any]:
    """The call as JSON; ``texts`` are the hashes of its messages."""
    prompt = [(message.role, name.hex()) for message, name in zip(request.messages, texts, strict=True)]
    record = {**fields_of(request), "purpose": fields_of(request.purpose), "messages": prompt}
    for name in (*LISTENERS, "stage", "bound"):
        del record[name]
    if request.bound is not None:
        record["schema"] = fields_of_schema(request.bound.schema)
    return {**record, "completion": {**fields_of(completion), "usage": fields_of(completion.usage)}}


def _row(key: bytes, payer: str, model: str, record: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of the columns."""
    completion = record["completion"]
    counts = (completion["usage"][name] for name in _COUNTS)
    body = zlib.compress(compact_json(record).encode("ascii"), level=1)
    values = (key, completion["outcome"], payer, model, record["purpose"]["stage"], *counts, body)
    return (*values, _checksum(values))


def _checksum(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(tuple(values)).encode("ascii", "backslashreplace"))


def _record(row: Sequence[Any]) -> dict[str, Any] | None:
    """The call in the columns of a row; None if they differ from their checksum."""
    *values, checksum = row
    if _checksum(values) != checksum:
        return None
    record: dict[str, Any] = json.loads(zlib.decompress(values[-1]))
    return record


def _completion(record: Mapping[str, Any]) -> Completion:
    # 0.4.0 also counted searches of rerankers.
    usage = {name: count for name, count in record["completion"]["usage"].items() if name != "searches"}
    return Completion(**{**record["completion"], "usage": Usage(**usage)})
