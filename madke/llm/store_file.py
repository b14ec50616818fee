"""The SQLite file of a call store: its rows, and what can be read of a damaged file.

A call is one row: columns for look-ups and sums, the whole call as compressed JSON, and a checksum. The texts of its
messages are separate rows, keyed by their hash, so that a shared text is stored once.
"""

import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from madke.core.chat import LISTENERS, ChatRequest, Completion, Message, Purpose, Usage, fields_of
from madke.core.errors import UserError
from madke.endpoints.prices import plain_name
from madke.llm.call_key import compact_json, fields_of_schema

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

COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_COLUMNS = ("key", "outcome", "payer", "model", "stage", *COUNTS, "body", "checksum")
_LOST = "[this text of the call store is lost: the file was damaged]"
SELECT = f"SELECT {', '.join(_COLUMNS)} FROM calls"
INSERT = f"INSERT INTO calls ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
INSERT_TEXT = "INSERT OR IGNORE INTO texts VALUES (?, ?)"
_LONGEST_GAP = 10_000
"""The copy of a damaged file ends after this many consecutive missing ids."""


class Damage(Exception):
    """A row of the file differs from what was written."""


class Recorded(NamedTuple):
    """One call in a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str


FAILURES = (sqlite3.Error, Damage, UnicodeDecodeError, OverflowError)
"""Exceptions that an unreadable store can raise; the last two for invalid UTF-8 and for huge numbers in it."""
_DAMAGED = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    # Our statements and values are valid, so these errors come from the file. Code 0 is invalid UTF-8.
    *(0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG),
)
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def text_hash(content: bytes) -> bytes:
    """The first 16 bytes of the SHA-256: long enough that collisions cannot be constructed."""
    return sha256(content).digest()[:16]


@lru_cache(maxsize=64)
def _packed(text: str) -> tuple[bytes, bytes]:
    content = text.encode("utf-8", "surrogatepass")
    # A higher level saves a tenth of the space and takes twice the time.
    return text_hash(content), zlib.compress(content, level=1)


def call_row(
    key: str, payer: str, model: str, request: ChatRequest, completion: Completion
) -> tuple[tuple[Any, ...], dict[bytes, bytes]]:
    """The values of _COLUMNS, and the texts of the messages: hash -> compressed text."""
    texts = [_packed(message.content) for message in request.messages]
    prompt = [(message.role, name.hex()) for message, (name, _) in zip(request.messages, texts, strict=True)]
    asked = {**fields_of(request), "purpose": fields_of(request.purpose), "messages": prompt}
    for name in (*LISTENERS, "stage", "bound"):
        del asked[name]
    if request.bound is not None:
        asked["schema"] = fields_of_schema(request.bound.schema)
    record = {**asked, "completion": {**fields_of(completion), "usage": fields_of(completion.usage)}}
    counts = (getattr(completion.usage, name) for name in COUNTS)
    columns = (text_hash(key.encode()), completion.outcome, payer, model, request.purpose.stage, *counts)
    values = (*columns, _body(record))
    return (*values, _checksum(values)), dict(texts)


def exported(db: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Everything in a store as JSON objects: the texts of messages, then the calls in the order of writing."""
    for name, body in db.execute("SELECT hash, body FROM texts ORDER BY rowid"):
        yield {"text": name.hex(), "body": _read_text(name, body)}
    for row in db.execute(f"{SELECT} ORDER BY id"):
        key, _, payer, model, *_ = row
        yield {"key": key.hex(), "payer": payer, "model": model, "call": stored_record(row)}


def restore(db: sqlite3.Connection, entries: Iterable[Mapping[str, Any]]) -> None:
    """Add what :func:`exported` returned."""
    for entry in entries:
        if "text" in entry:
            content = zlib.compress(entry["body"].encode("utf-8", "surrogatepass"), level=1)
            db.execute(INSERT_TEXT, (bytes.fromhex(entry["text"]), content))
            continue
        record = entry["call"]
        completion = stored_completion(record)
        columns = (bytes.fromhex(entry["key"]), completion.outcome, entry["payer"], entry["model"])
        counts = (getattr(completion.usage, name) for name in COUNTS)
        values = (*columns, record["purpose"]["stage"], *counts, _body(record))
        db.execute(INSERT, (*values, _checksum(values)))


def _body(record: Mapping[str, Any]) -> bytes:
    return zlib.compress(compact_json(record).encode("ascii"), level=1)


def _checksum(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(tuple(values)).encode("ascii", "backslashreplace"))


def stored_record(row: Sequence[Any]) -> dict[str, Any]:
    """The call in the columns of a row; Damage if its checksum differs."""
    *values, checksum = row
    if _checksum(values) != checksum:
        raise Damage("a call is not what was written")
    record: dict[str, Any] = json.loads(zlib.decompress(values[-1]))
    return record


def stored_completion(record: dict[str, Any]) -> Completion:
    """The completion of a record."""
    return Completion(**{**record["completion"], "usage": Usage(**record["completion"]["usage"])})


def _read_text(name: bytes, body: bytes) -> str:
    with suppress(zlib.error, TypeError):
        content = zlib.decompress(body)
        if text_hash(content) == name:
            return content.decode("utf-8", "surrogatepass")
    raise Damage("a text is not what was written")


def read_call(row: Sequence[Any], db: sqlite3.Connection) -> Recorded:
    """The call in a row; _LOST replaces a text that the file no longer has."""

    def text(name: str) -> str:
        found = db.execute("SELECT hash, body FROM texts WHERE hash = ?", (bytes.fromhex(name),)).fetchone()
        return _read_text(*found) if found else _LOST

    record = stored_record(row)
    messages = tuple(Message(role=role, content=text(name)) for role, name in record["messages"])
    return Recorded(Purpose(**record["purpose"]), messages, stored_completion(record), plain_name(row[3]))


def open_store(path: Path) -> sqlite3.Connection:
    """Open a store, created if missing. UserError for a file of another program, one of :data:`FAILURES` for damage."""
    db = sqlite3.connect(path, timeout=30)
    try:
        # Write nothing, not even the journal mode, before the file is known to be a call store.
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            if tables == {"calls", "texts"}:
                raise Damage("its header names no program")
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


def set_aside(path: Path) -> None:
    """Rename a damaged store, and replace it with a new one that holds its readable calls."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.part")
    aside = next(each for n in count(1) if not (each := path.with_name(f"{path.name}.damaged-{n}")).exists())
    try:
        with closing(open_store(fresh)) as db, db:
            kept = _copy(path, db) or _copy_without_header(path, db)
        for suffix in ("-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
        fresh.replace(path)
    except OSError as error:
        raise UserError(f"is damaged and cannot be renamed: {error.strerror}", file=path) from error
    finally:
        fresh.unlink(missing_ok=True)
    _log.warning("%s was damaged: %d calls could be read and are kept; the damaged file is now %s", path, kept, aside)


def _copy(path: Path, fresh: sqlite3.Connection) -> int:
    """Add the readable calls of a file; their number."""
    with closing(sqlite3.connect(path)) as damaged:
        with suppress(*FAILURES):
            damaged.execute("PRAGMA writable_schema = ON")  # makes SQLite read a truncated file
        return _copy_rows(damaged, fresh)


def _copy_without_header(path: Path, fresh: sqlite3.Connection) -> int:
    """The same for a file with an unreadable first page: that of an empty store takes its place, in a copy.

    The page holds SQLite's header and the schema, which are the same in every store.
    """
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(_SCHEMA)
        page = bytearray(empty.serialize()[: empty.execute("PRAGMA page_size").fetchone()[0]])
    page[18:20] = b"\2\2"  # the file may have a log
    page[28:32] = bytes(4)  # its size is that of the file
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as folder:
        for each in (path, path.with_name(f"{path.name}-wal")):
            with suppress(FileNotFoundError):
                copyfile(each, Path(folder) / each.name)
        with (Path(folder) / path.name).open("r+b") as file:
            file.write(page)
        return _copy(Path(folder) / path.name, fresh)


def _copy_rows(damaged: sqlite3.Connection, fresh: sqlite3.Connection) -> int:
    kept = 0
    for row in _readable(damaged, f"{SELECT} WHERE id = ?"):
        with suppress(Damage):
            stored_record(row)
            fresh.execute(INSERT, row)
            kept += 1
    for row in _readable(damaged, "SELECT hash, body FROM texts WHERE rowid = ?"):
        with suppress(Damage):
            _read_text(*row)
            fresh.execute(INSERT_TEXT, row)
    return kept


def _readable(damaged: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The readable rows, queried one id at a time, up to a long gap."""
    missed = number = 0
    while missed < _LONGEST_GAP:
        number, missed = number + 1, missed + 1
        with suppress(*FAILURES):
            if row := damaged.execute(query, (number,)).fetchone():
                missed = 0
                yield row


def error_code(error: Exception) -> int:
    """SQLite's primary result code; 0 for other exceptions."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: Exception) -> bool:
    """Whether one of :data:`FAILURES` means that the file is damaged."""
    return not isinstance(error, sqlite3.Error) or error_code(error) in _DAMAGED
