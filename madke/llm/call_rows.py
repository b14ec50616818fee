"""Which calls are the same, and how a call lies in the file.

A call is one row: columns that are looked up or added up, and all of it as compressed JSON. The texts of its messages
are rows of their own, named by their hash, so that shared ones are stored once. A row ends with a checksum.
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
"""``payer``: which of the runs that share the file made the call."""

COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
COLUMNS = ("key", "outcome", "payer", "model", "stage", *COUNTS, "body", "checksum")
LOST = "[this text of the call store is lost: the file was damaged]"

_to_json = json.JSONEncoder(separators=(",", ":")).encode
"""In ASCII: a lone surrogate, which models do emit, has no UTF-8."""


class Damage(Exception):
    """What is read from the file is not what was written."""


class Recorded(NamedTuple):
    """One call of a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call, SHA-256 in hexadecimal: calls with equal keys are the same call.

    It holds the model's name, the request, and the purpose: two debaters with identical prompts must not become clones
    of each other, nor two repeats of one question. Left out are the endpoint's address (a server may move), retries and
    concurrency, the dataset and the variant (what they change is in the messages), and versions.
    """
    messages = [[message.role, message.content] for message in request.messages]
    purpose = list(fields_of(request.purpose).values())
    asked = [model, messages, float(request.temperature), request.max_tokens, request.stop, request.seed, purpose]
    return sha256(_to_json(asked).encode("ascii")).hexdigest()


def short_hash(content: bytes) -> bytes:
    """Half a SHA-256, 16 bytes: nobody can make two texts agree in it."""
    return sha256(content).digest()[:16]


@lru_cache(maxsize=64)
def _packed(content: bytes) -> tuple[bytes, bytes]:
    # A higher level saves a tenth of the space, at twice the time.
    return short_hash(content), zlib.compress(content, level=1)


def call_row(
    key: str, payer: str, model: str, request: ChatRequest, completion: Completion
) -> tuple[tuple[Any, ...], dict[bytes, bytes]]:
    """The values of :data:`COLUMNS`; and hash -> compressed text of its messages."""
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
    """What the row of a call holds; :class:`Damage` if it is not what was written."""
    *values, checksum = row
    if _checksum(values) != checksum:
        raise Damage("a call is not what was written")
    record: dict[str, Any] = json.loads(zlib.decompress(values[-1]))
    return record


def read_completion(record: dict[str, Any]) -> Completion:
    """The completion in a record."""
    return Completion(**{**record["completion"], "usage": Usage(**record["completion"]["usage"])})


def read_text(name: bytes, body: bytes) -> str:
    """The text in a row; :class:`Damage` if it is not what was written."""
    with suppress(zlib.error, TypeError):
        content = zlib.decompress(body)
        if short_hash(content) == name:
            return content.decode("utf-8", "surrogatepass")
    raise Damage("a text is not what was written")


def read_call(row: Sequence[Any], db: sqlite3.Connection) -> Recorded:
    """The call in a row; :class:`Damage` if it is not what was written. A text that the file has lost is LOST."""

    def text(name: str) -> str:
        found = db.execute("SELECT hash, body FROM texts WHERE hash = ?", (bytes.fromhex(name),)).fetchone()
        return read_text(*found) if found else LOST

    record = read_record(row)
    messages = tuple(Message(role=role, content=text(name)) for role, name in record["messages"])
    return Recorded(Purpose(**record["purpose"]), messages, read_completion(record), row[COLUMNS.index("model")])
