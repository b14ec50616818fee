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

_FIND = "SELECT hash, text FROM pieces AS p WHERE id = ? AND id = (SELECT id FROM pieces WHERE hash = p.hash)"
"""Nothing but the index of hashes tells a piece whose own id is damaged from the one that had this id."""

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


def is_piece(hashed: object, text: object) -> bool:
    """Whether a piece is what was written."""
    return isinstance(text, bytes) and short_hash(text) == hashed


class Pieces:
    """The pieces in an open store.

    Args:
        db: The store's connection. Ids are given out inside the caller's transaction.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._ids: OrderedDict[str, int] = OrderedDict()

    def ids(self, pieces: Iterable[str]) -> dict[str, int]:
        """Piece -> id; those that are new are written."""
        ids: dict[str, int] = {}
        unknown: list[str] = []
        for piece in dict.fromkeys(pieces):
            known = self._ids.get(piece)
            if known is None:
                unknown.append(piece)
            else:
                self._ids.move_to_end(piece)
                ids[piece] = known
        return ids | self._written(unknown) if unknown else ids

    def text(self, ids: Iterable[int]) -> str:
        """The text that was split into these pieces.

        Raises:
            Damage: A piece is missing or altered.
        """
        found = []
        for number in ids:
            row = self._db.execute(_FIND, (number,)).fetchone()
            if row is None or not is_piece(*row):
                raise Damage(f"piece {number} of its texts is not what was written")
            found.append(row[1].decode("utf-8", "surrogatepass"))
        return "\n".join(found)

    def forget(self) -> None:
        """Forget all ids: those that a transaction gave out are void when it is rolled back."""
        self._ids.clear()

    def _written(self, pieces: list[str]) -> dict[str, int]:
        """The ids of pieces that are not remembered; one statement for all takes a third of the time."""
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM pieces").fetchone()
        contents = [piece.encode("utf-8", "surrogatepass") for piece in pieces]
        rows = [(number, short_hash(content), content) for number, content in enumerate(contents, start=last + 1)]
        added = self._db.executemany("INSERT OR IGNORE INTO pieces (id, hash, text) VALUES (?, ?, ?)", rows)
        if added.rowcount == len(rows):
            numbers = [number for number, _, _ in rows]
        else:  # some were there: another process wrote them, or they were forgotten here
            numbers = [self._id_of(hashed) for _, hashed, _ in rows]
        ids = dict(zip(pieces, numbers, strict=True))
        self._ids.update((piece, number) for piece, number in ids.items() if len(piece) <= _SHORT_ENOUGH)
        while len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
        return ids

    def _id_of(self, hashed: bytes) -> int:
        row = self._db.execute("SELECT id, text FROM pieces WHERE hash = ?", (hashed,)).fetchone()
        if row is None or not is_piece(hashed, row[1]):
            raise Damage("a piece of its texts cannot be written")
        return int(row[0])
