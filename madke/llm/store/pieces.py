"""Texts in pieces: what many texts have in common lies in the file once.

A long line (a passage of a pool, a paragraph of a reply) is a piece of its own; the short lines between two long ones
are one piece together. Joined by line ends the pieces of a text are the text.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")

_LONG = 60
"""Characters from which on a line is a piece of its own."""

_REMEMBERED = 8_192
"""Pieces whose ids are kept in memory: those of some hundred questions under way."""

_SHORT_ENOUGH = 4_096
"""Characters up to which a piece is remembered: those in memory are 5 MB of passages, and never above 35 million
characters."""


class Damage(Exception):
    """What is read from the file is not what was written."""


def remembering(function: Callable[[str], T]) -> Callable[[str], T]:
    """The function, with its last results kept: system texts, and prompts that several debaters get, come again.

    Those of very long texts are not kept, so that the memory for it stays below some ten megabytes.
    """
    kept = lru_cache(maxsize=256)(function)
    return lambda text: kept(text) if len(text) <= 32_768 else function(text)


@remembering
def split(text: str) -> tuple[str, ...]:
    """The pieces of a text, in order; at least one."""
    pieces: list[str] = []
    short: list[str] = []
    for line in text.split("\n"):
        if len(line) < _LONG:
            short.append(line)
            continue
        if short:
            pieces.append("\n".join(short))
            short = []
        pieces.append(line)
    if short:
        pieces.append("\n".join(short))
    return tuple(pieces)


def short_hash(content: bytes) -> bytes:
    """The first half of a SHA-256: 16 bytes, which nobody can make two texts agree in."""
    return sha256(content).digest()[:16]


class Pieces:
    """The pieces in an open store.

    Args:
        db: The store's connection. Ids are given out inside the caller's transaction.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._ids: OrderedDict[str, int] = OrderedDict()

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The pieces' ids; those that are new are written."""
        return [self._id(piece) for piece in pieces]

    def text(self, ids: Iterable[int]) -> str:
        """The text that was split into these pieces.

        Raises:
            Damage: A piece is missing or altered.
        """
        found = []
        for number in ids:
            row = self._db.execute("SELECT hash, text FROM pieces WHERE id = ?", (number,)).fetchone()
            if row is None or short_hash(row[1]) != row[0]:
                raise Damage(f"piece {number} of its texts is not what was written")
            found.append(row[1].decode("utf-8", "surrogatepass"))
        return "\n".join(found)

    def forget(self) -> None:
        """Forget all ids: those that a transaction gave out are void when it is rolled back."""
        self._ids.clear()

    def _id(self, piece: str) -> int:
        known = self._ids.get(piece)
        if known is not None:
            self._ids.move_to_end(piece)
            return known
        content = piece.encode("utf-8", "surrogatepass")
        hashed = short_hash(content)
        added = self._db.execute("INSERT OR IGNORE INTO pieces (hash, text) VALUES (?, ?)", (hashed, content))
        number = added.lastrowid if added.rowcount else None
        if number is None:
            (number,) = self._db.execute("SELECT id FROM pieces WHERE hash = ?", (hashed,)).fetchone()
        if len(piece) <= _SHORT_ENOUGH:
            self._ids[piece] = number
            if len(self._ids) > _REMEMBERED:
                self._ids.popitem(last=False)
        return int(number)
