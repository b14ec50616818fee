"""A sample that is the same everywhere: by the hash of each question's id, whatever the order of the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TypeVar

from madke.core.errors import UserError

T = TypeVar("T")


def sample(items: Sequence[T], limit: int | None, seed: int | None, id_of: Callable[[T], str]) -> list[T]:
    """Some of the items, in their order.

    Args:
        items: Their ids differ.
        limit: How many; None, or more than there are: all.
        seed: Those whose SHA-256 of ``seed:id`` is lowest, so that more of them hold the fewer; None: the first ones.
        id_of: The id of an item.

    Raises:
        UserError: There is a seed and no limit.
    """
    if seed is None or limit is None:
        if seed is not None:
            raise UserError("a sample seed needs a limit: how many questions to draw")
        return list(items[:limit])
    drawn = set(sorted((id_of(item) for item in items), key=lambda id_: _place(id_, seed))[:limit])
    return [item for item in items if id_of(item) in drawn]


def _place(id_: str, seed: int) -> tuple[bytes, str]:
    return sha256(f"{seed}:{id_}".encode()).digest(), id_


def ids_fingerprint(ids: Iterable[str]) -> str:
    """SHA-256, in hexadecimal, of a set of ids, whatever their order."""
    return sha256(json.dumps(sorted(ids)).encode()).hexdigest()
