"""The call store: cache, resume and replay in one SQLite file.

Every call that ended is written, with its outcome, before anybody sees it. What is written is never changed: a call
that is made again (because it had failed) adds a row.

**The key** is the SHA-256 of: the model's name (which names its endpoint), the messages, temperature, ``max_tokens``,
stop strings, seed, and the purpose (question, stage, agent, round, sample, repeat). The purpose is in it because two
debaters with identical prompts must not become clones of each other, nor two repeats of one question.

**Left out of it**: the time, keys and other credentials, retry and concurrency settings (they change no reply), the
dataset and the variant (what they change is in the messages), and versions of servers and of madke (unknown, or
without effect on what was asked). Whoever wants fresh replies takes a fresh store.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, Usage
from madke.core.errors import UserError

_APPLICATION_ID = 0x4D41444B
"""``MADK``; SQLite keeps it in the file's header."""

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {_APPLICATION_ID}",
        "CREATE TABLE texts (hash TEXT PRIMARY KEY, text BLOB NOT NULL)",  # UTF-8
        """CREATE TABLE calls (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL,
            outcome TEXT NOT NULL,
            payer TEXT NOT NULL,  -- which of the runs that share the file made the call
            model TEXT NOT NULL,
            request TEXT NOT NULL,  -- JSON: purpose, parameters, messages as [role, hash of a text]
            completion TEXT NOT NULL,  -- JSON
            written TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ'))
        )""",
        "CREATE INDEX calls_by_key ON calls (key, id)",
    ),
)
"""Append only: ``user_version`` counts those that a file has been through."""


class Recorded(NamedTuple):
    """One call of a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion


_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""The figures of :class:`madke.core.chat.Usage` that can be added up."""


class Paid(NamedTuple):
    """Some calls of one model."""

    calls: int
    usage: Usage


class CallStore:
    """An open call store. Close it, or use it as a context manager; several processes may have it open.

    Args:
        path: The file; made if missing, in a folder that exists.

    Raises:
        UserError: The file is no call store, is damaged, cannot be written, or comes from a newer madke.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_flight: dict[str, asyncio.Future[Completion]] = {}
        """Calls that :class:`Stored` models of this process are making now, by key."""
        with self._errors():
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._db.close()
            raise

    def find(self, key: str, *, payer: str = "", only_ok: bool = True) -> Completion | None:
        """The completion that was stored last under the key, or None.

        It counts as paid if ``payer`` made the call: what a run paid for before a kill it has still paid for.

        Args:
            key: See :func:`call_key`.
            payer: The run that asks.
            only_ok: Pass over completions whose outcome is not ``ok``.
        """
        query = "SELECT completion, payer FROM calls WHERE key = ? AND (? OR outcome = 'ok') ORDER BY id DESC LIMIT 1"
        with self._errors():
            row = self._db.execute(query, (key, not only_ok)).fetchone()
        return None if row is None else replace(_completion(row[0]), paid=row[1] == payer)

    def write(self, key: str, model: str, request: ChatRequest, completion: Completion, *, payer: str = "") -> None:
        """Add a finished call of a run; it survives a kill of this process when this returns."""
        texts = [(_hash(message.content), _utf8(message.content)) for message in request.messages]
        record = {
            "purpose": asdict(request.purpose),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "stop": request.stop,
            "seed": request.seed,
            "messages": [(message.role, text[0]) for message, text in zip(request.messages, texts, strict=True)],
        }
        row = (key, completion.outcome, payer, model, _json(record), _json(asdict(completion)))
        with self._errors(), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
            self._db.execute(
                "INSERT INTO calls (key, outcome, payer, model, request, completion) VALUES (?, ?, ?, ?, ?, ?)", row
            )

    def recorded(self, *, payer: str | None = None) -> Iterator[Recorded]:
        """Every stored call, or those that one run made, in the order in which they were written.

        Args:
            payer: The run; None for all.
        """
        query = "SELECT request, completion FROM calls WHERE ?1 IS NULL OR payer = ?1 ORDER BY id"
        with self._errors():
            for request, completion in self._db.execute(query, (payer,)):
                record = json.loads(request)
                messages = tuple(Message(role=role, content=self._text(text)) for role, text in record["messages"])
                yield Recorded(Purpose(**record["purpose"]), messages, _completion(completion))

    def paid(self) -> dict[tuple[str, str], Paid]:
        """(Payer, model's own name) -> all calls that were made, repeated and failed ones too."""
        sums = ", ".join(f"sum(json_extract(completion, '$.usage.{name}'))" for name in _COUNTS)
        query = f"SELECT payer, model, count(*), {sums} FROM calls GROUP BY payer, model ORDER BY min(id)"
        with self._errors():
            rows = self._db.execute(query).fetchall()
        return {
            (payer, model): Paid(calls, Usage(**dict(zip(_COUNTS, counts, strict=True))))
            for payer, model, calls, *counts in rows
        }

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _text(self, hashed: str) -> str:
        text: bytes = self._db.execute("SELECT text FROM texts WHERE hash = ?", (hashed,)).fetchone()[0]
        return text.decode("utf-8", "surrogatepass")

    def _open(self) -> None:
        # Nothing may be written, not even the journal mode, before the file is known to be ours.
        tables = self._number("SELECT count(*) FROM sqlite_master")
        if tables and self._number("PRAGMA application_id") != _APPLICATION_ID:
            raise UserError("is an SQLite file, but no call store of madke; name another file", file=self.path)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            version = self._number("PRAGMA user_version")
            if version > len(_MIGRATIONS):
                raise UserError(
                    f"has schema {version}, this madke knows up to {len(_MIGRATIONS)}; update madke", file=self.path
                )
            for statements in _MIGRATIONS[version:]:
                for statement in statements:
                    self._db.execute(statement)
            if version < len(_MIGRATIONS):
                self._db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def _number(self, query: str) -> int:
        number: int = self._db.execute(query).fetchone()[0]
        return number

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise UserError(f"cannot be used as a call store: {error}", file=self.path) from error


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call: SHA-256, in hexadecimal, of what the module's docstring lists."""
    parts = [
        model,
        [(message.role, message.content) for message in request.messages],
        float(request.temperature),
        request.max_tokens,
        request.stop,
        request.seed,
        astuple(request.purpose),
    ]
    return _hash(_json(parts))


class Stored:
    """A model whose calls go through a call store.

    A live look-up is answered by a stored completion whose outcome is ``ok``; anything else is asked anew. What the
    store answers carries the usage of the call that was made; it is ``paid`` if this run made it (before a kill, or
    in the run that is replayed), and not if another run that shares the store did. Calls with equal keys that
    are under way at the same time become one.

    Args:
        model: Who is asked when the store has no answer.
        store: Where calls are looked up and written.
        replay: Never ask the model: answer with whatever was stored last, errors included. What is not there is a
            failed completion.
        payer: Names this run among those that share the store.
    """

    def __init__(self, model: ChatModel, store: CallStore, *, replay: bool = False, payer: str = "") -> None:
        self.name = model.name
        self._model = model
        self._store = store
        self._replay = replay
        self._payer = payer

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer from the store, or ask the model and write down what it said."""
        key = call_key(self.name, request)
        while True:
            known = self._store.find(key, payer=self._payer, only_ok=not self._replay)
            if known is not None:
                return known
            if self._replay:
                return Completion(outcome="failed", error="not in the call store", attempts=0, paid=False)
            running = self._store.in_flight.get(key)
            if running is None:
                return await self._ask(key, request)
            await asyncio.wait([running])
            if not running.cancelled():
                return replace(running.result(), paid=False)

    async def _ask(self, key: str, request: ChatRequest) -> Completion:
        running: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._store.in_flight[key] = running
        try:
            completion = await self._model.complete(request)
            self._store.write(key, self.name, request, completion, payer=self._payer)
            running.set_result(completion)
            return completion
        finally:
            del self._store.in_flight[key]
            # Without a result (Ctrl-C, a bug) those who wait must ask for themselves.
            running.cancel()


def _completion(text: str) -> Completion:
    record = json.loads(text)
    return Completion(**{**record, "usage": Usage(**record["usage"])})


def _json(value: Any) -> str:
    # Escapes, not characters: a lone surrogate, which models do emit, has no UTF-8.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _hash(text: str) -> str:
    return sha256(_utf8(text)).hexdigest()
