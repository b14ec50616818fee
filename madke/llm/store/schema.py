"""The tables of a call store, and how older files come to have them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from madke.core.errors import UserError
from madke.llm.store.pieces import Damage, Pieces, split
from madke.llm.store.rows import COLUMNS, Finished, key_column, rows_of, to_json

_MOST_VERSIONS = 1_000
"""No madke will ever have had so many schemas."""

APPLICATION_ID = 0x4D41444B
"""``MADK``; SQLite keeps it in the file's header."""

_INSERT_OLD = f"INSERT INTO calls (id, written, {COLUMNS}) VALUES (?, ?, {', '.join('?' * len(COLUMNS.split()))})"


def _whole_texts(db: sqlite3.Connection) -> None:
    for statement in (
        f"PRAGMA application_id = {APPLICATION_ID}",
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
    ):
        db.execute(statement)


def _texts_in_pieces(db: sqlite3.Connection) -> None:
    for statement in (
        "ALTER TABLE calls RENAME TO calls_1",
        "DROP INDEX calls_by_key",
        # hash: see `pieces.short_hash`; text: UTF-8
        "CREATE TABLE pieces (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text BLOB NOT NULL)",
        """CREATE TABLE calls (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL,  -- hash of the call's key
            outcome TEXT NOT NULL,
            payer TEXT NOT NULL,
            model TEXT NOT NULL,
            request TEXT NOT NULL,  -- JSON: purpose and parameters
            completion TEXT NOT NULL,  -- JSON: all but outcome and text
            messages TEXT NOT NULL,  -- JSON: [[role, [id of a piece, ...]], ...]
            reply TEXT NOT NULL,  -- JSON: [id of a piece, ...]
            checksum INTEGER NOT NULL,  -- CRC-32 of the columns from key to reply
            written TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ'))
        )""",
        "CREATE INDEX calls_by_key ON calls (key)",  # SQLite ends every entry with the row's id
    ):
        db.execute(statement)

    pieces = Pieces(db)
    text_of = "SELECT text FROM texts WHERE hash = ?"

    def message(role: str, hashed: str) -> tuple[str, tuple[str, ...]]:
        row = db.execute(text_of, (hashed,)).fetchone()
        if row is None or sha256(row[0]).hexdigest() != hashed:
            raise Damage("a text is not what was written")
        return role, split(row[0].decode("utf-8", "surrogatepass"))

    for number, written, key, outcome, payer, model, request, completion in db.execute(
        "SELECT id, written, key, outcome, payer, model, request, completion FROM calls_1 ORDER BY id"
    ):
        try:
            asked, said = json.loads(request), json.loads(completion)
            messages = [message(*each) for each in asked.pop("messages")]
            reply = split(said.pop("text"))
            del said["outcome"]
            call = Finished(key_column(key), outcome, payer, model, to_json(asked), to_json(said), messages, reply)
            (row,) = rows_of([call], pieces)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damage("a call is not what was written") from error
        db.execute(_INSERT_OLD, (number, written, *row))
    db.execute("DROP TABLE calls_1")
    db.execute("DROP TABLE texts")


_MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_whole_texts, _texts_in_pieces)
"""Append only: ``user_version`` counts those that a file has been through."""


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Give a file, new or old, today's tables. To be called inside a transaction.

    Raises:
        UserError: The file comes from a newer madke.
        Damage: The file holds what was not written.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= _MOST_VERSIONS:
        raise Damage(f"there is no schema {version}")
    if version > len(_MIGRATIONS):
        todo = f"update madke, or, if it is damaged, make an empty file {path.name}.damaged: then it is recovered"
        raise UserError(f"has schema {version}, this madke knows up to {len(_MIGRATIONS)}; {todo}", file=path)
    for step in _MIGRATIONS[version:]:
        step(db)
    if version < len(_MIGRATIONS):
        db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
