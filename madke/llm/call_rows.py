"""The key of a call, and its row in the call store.

A call is one row: columns for look-ups and sums, and the whole call as compressed JSON. The texts of its messages are
separate rows, keyed by their hash, so that a shared text is stored once. A row ends with a checksum.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from madke.core.chat import ChatRequest, Completion, Message, Purpose, Usage, fields_of

SCHEMA = """
    CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY, body BLOB);
    CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY, key BLOB, outcome TEXT, payer TEXT, model TEXT, stage TEXT, prompt_tokens INTEGER,
        cached_tokens INTEGER, completion_tokens INTEGER, reasoning_tokens INTEGER, body BLOB, checksum INTEGER
    );
    CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key);
"""
"""``payer``: the run that made the call; several runs can share the file."""

COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
COLUMNS = ("key", "outcome", "payer", "model", "stage", *COUNTS, "body", "checksum")
LOST = "[this text of the call store is lost: the file was damaged]"

_to_json = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII output: models do emit lone surrogates, which have no UTF-8 form."""


class Damage(Exception):
    """A row of the file differs from what was written."""


class Recorded(NamedTuple):
    """One call in a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str


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


def short_hash(content: bytes) -> bytes:
    """The first 16 bytes of the SHA-256: long enough that collisions cannot be constructed."""
    return sha256(content).digest()[:16]


@lru_cache(maxsize=64)
def _packed(content: bytes) -> tuple[bytes, bytes]:
    # A higher level saves a tenth of the space and takes twice the time.
    return short_hash(content), zlib.compress(content, level=1)


def call_row(
    key: str, payer: str, model: str, request: ChatRequest, completion: Completion
) -> tuple[tuple[Any, ...], dict[bytes, bytes]]:
    """The values of :data:`COLUMNS`, and the texts of the messages: hash -> compressed text."""
    texts = [_packed(message.content.encode("utf-8", "surrogatepass")) for message in request.messages]
    prompt = [(message.role, name.hex()) for message, (name, _) in zip(request.messages, texts, strict=True)]
    asked = {**fields_of(request), "purpose": fields_of(request.purpose), "messages": prompt}
    del asked["on_delta"]
    record = {**asked, "completion": {**fields_of(completion), "usage": fields_of(completion.usage)}}
    counts = (getattr(completion.usage, name) for name in COUNTS)
    columns = (short_hash(key.encode()), completion.outcome, payer, model, request.purpose.stage, *counts)
    values = (*columns, zlib.compress(_to_json(record).encode("ascii"), level=1))
    return (*values, _checksum(values)), dict(texts)


def _checksum(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(tuple(values)).encode("ascii", "backslashreplace"))


def read_record(row: Sequence[Any]) -> dict[str, Any]:
    """The record in the row of a call; :class:`Damage` if the checksum does not match."""
    *values, checksum = row
    if _checksum(values) != checksum:
        raise Damage("a call is not what was written")
    record: dict[str, Any] = json.loads(zlib.decompress(values[-1]))
    return record


def read_completion(record: dict[str, Any]) -> Completion:
    """The completion in a record."""
    return Completion(**{**record["completion"], "usage": Usage(**record["completion"]["usage"])})


def read_text(name: bytes, body: bytes) -> str:
    """The text in a row; :class:`Damage` if its hash does not match."""
    with suppress(zlib.error, TypeError):
        content = zlib.decompress(body)
        if short_hash(content) == name:
            return content.decode("utf-8", "surrogatepass")
    raise Damage("a text is not what was written")


def read_call(row: Sequence[Any], db: sqlite3.Connection) -> Recorded:
    """The call in a row; :class:`Damage` if a check fails. :data:`LOST` replaces a text that the file no longer has."""

    def text(name: str) -> str:
        found = db.execute("SELECT hash, body FROM texts WHERE hash = ?", (bytes.fromhex(name),)).fetchone()
        return read_text(*found) if found else LOST

    record = read_record(row)
    messages = tuple(Message(role=role, content=text(name)) for role, name in record["messages"])
    return Recorded(Purpose(**record["purpose"]), messages, read_completion(record), row[COLUMNS.index("model")])
