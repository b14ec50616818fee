"""Which questions of a file are asked: those of a list of ids, the first ones, or a sample by the hash of each id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from madke.assets import asset
from madke.core.errors import UserError, unknown

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
    drawn = set(sorted(map(id_of, items), key=lambda id_: (sha256(f"{seed}:{id_}".encode()).digest(), id_))[:limit])
    return [item for item in items if id_of(item) in drawn]


def shipped_ids() -> dict[str, Path]:
    """Name -> file of every shipped list of ids (``eval/datasets/ids/``)."""
    return {path.stem: path for path in sorted(asset("eval", "datasets", "ids").glob("*.txt"))}


def read_ids(name: str) -> list[str]:
    """The ids of a list, by its path or shipped name: one a line, ``#`` begins a comment line."""
    shipped = shipped_ids()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise unknown("list of ids", name, shipped)
    try:
        lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=path) from None
    ids = [line for line in lines if line and not line.startswith("#")]
    if not ids:
        raise UserError("holds no id; expected one a line", file=path)
    if twice := [id_ for id_, count in Counter(ids).items() if count > 1]:
        raise UserError(f"names the id {twice[0]!r} twice", file=path)
    return ids


def with_ids(items: Sequence[T], ids: Sequence[str], id_of: Callable[[T], str], file: Path) -> list[T]:
    """The items of these ids, in the order of the file.

    A file of exactly as many items that lacks some of the ids is the selection itself: published selections ship
    without their sentences' places in the whole set. UserError where the file lacks some otherwise.
    """
    wanted = set(ids)
    chosen = [item for item in items if id_of(item) in wanted]
    if len(chosen) < len(wanted) and len(items) == len(wanted):
        return list(items)
    if missing := sorted(wanted - {id_of(item) for item in items}):
        some = f"{len(missing)} of the {len(wanted)} ids asked for, {missing[0]!r} first"
        raise UserError(f"lacks {some}; it holds {len(items)} questions", file=file)
    return chosen


def chosen(
    items: Sequence[T], id_of: Callable[[T], str], file: Path, *, ids: str | None, limit: int | None, seed: int | None
) -> list[T]:
    """The items of a list of ids (:func:`read_ids`; all for None), of these the first ones or a :func:`sample`."""
    listed = items if ids is None else with_ids(items, read_ids(ids), id_of, file)
    return sample(listed, limit, seed, id_of)


def ids_fingerprint(ids: Iterable[str]) -> str:
    """SHA-256, in hexadecimal, of a set of ids, whatever their order."""
    return sha256(json.dumps(sorted(ids)).encode()).hexdigest()
