"""Serper's replies on disk, with the time of their retrieval, under the base URL and all parameters of the request.

A reply is kept with all its parts, so that what is taken from it can change without a new request.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from madke.core.errors import UserError
from madke.knowledge.sources.serper_reply import SerperReply


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A reply and when it came."""

    reply: SerperReply
    retrieved_at: datetime


class ReplyCache:
    """An SQLite file that several processes may share.

    The table ``answers`` of earlier versions holds organic results alone; it is left as it is, and not read.

    Raises:
        UserError: The file cannot be used; all methods may raise it.
    """

    def __init__(self, path: Path, base_url: str) -> None:
        self._path = path
        self._base_url = base_url
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies "
                "(base_url TEXT, parameters TEXT, retrieved_at TEXT, reply TEXT, PRIMARY KEY (base_url, parameters))"
            )

    def is_empty(self) -> bool:
        """Whether nothing is kept for this base URL."""
        with self._open() as database:
            return database.execute("SELECT 1 FROM replies WHERE base_url = ?", (self._base_url,)).fetchone() is None

    def read(self, asked: Mapping[str, Mapping[str, str | int]]) -> dict[str, Kept]:
        """What is kept, however old, for these queries with their parameters; other queries are left out."""
        found = {}
        with self._open() as database:
            for query, parameters in asked.items():
                row = database.execute(
                    "SELECT retrieved_at, reply FROM replies WHERE base_url = ? AND parameters = ?",
                    (self._base_url, _key(parameters)),
                ).fetchone()
                if row is not None:
                    reply = SerperReply.model_validate_json(row[1])
                    found[query] = Kept(reply=reply, retrieved_at=datetime.fromisoformat(row[0]))
        return found

    def write(self, parameters: Mapping[str, str | int], kept: Kept) -> None:
        """Keep a reply, in place of an older one."""
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)",
                (self._base_url, _key(parameters), kept.retrieved_at.isoformat(), kept.reply.model_dump_json()),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=30)) as database, database:
                yield database
        except sqlite3.Error as error:
            raise UserError(f"cannot be used as the cache of web searches: {error}", file=self._path) from None


def _key(parameters: Mapping[str, str | int]) -> str:
    return json.dumps(parameters, sort_keys=True)
