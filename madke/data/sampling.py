"""Choose questions of a file: by a list of ids, the first ones, or a sample by the hash of each id."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from madke.assets import asset
from madke.core.errors import UserError, unknown
from madke.files import text_lines

T = TypeVar("T")


def sample(items: Sequence[T], limit: int | None, seed: int | None, id_of: Callable[[T], str]) -> list[T]:
    """The first ``limit`` items (None: all), or a random sample, in the original order; UserError for a lone seed.

    A sample has the items with the lowest SHA-256 of ``seed:id``, so larger samples contain smaller ones.
    """
    if seed is None:
        return list(items[:limit])
    if limit is None:
        raise UserError("a sample seed requires a limit, the number of questions to draw")
    drawn = set(sorted(map(id_of, items), key=lambda id_: (sha256(f"{seed}:{id_}".encode()).digest(), id_))[:limit])
    return [item for item in items if id_of(item) in drawn]


def shipped_ids() -> dict[str, Path]:
    """Name -> file of every shipped list of ids (``eval/datasets/ids/``)."""
    return {path.stem: path for path in sorted(asset("eval", "datasets", "ids").glob("*.txt"))}


def read_ids(name: str) -> list[str]:
    """Read a list of ids by its path or shipped name: one id per line; lines that start with ``#`` are comments."""
    shipped = shipped_ids()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise unknown("list of ids", name, shipped)
    lines = map(str.strip, text_lines(path))
    ids = [line for line in lines if line and not line.startswith("#")]
    if not ids:
        raise UserError("the file contains no id; expected one id per line", file=path)
    if twice := [id_ for id_, count in Counter(ids).items() if count > 1]:
        raise UserError(f"id {twice[0]!r} occurs twice", file=path)
    return ids


def with_ids(items: Sequence[T], ids: Sequence[str], id_of: Callable[[T], str], file: Path) -> list[T]:
    """The items with these ids, in the order of the file; UserError if some are missing.

    A file with exactly as many items as ids is taken as the selection itself, even if some ids differ: published
    selections do not contain the positions of their sentences in the whole set.
    """
    wanted = set(ids)
    chosen = [item for item in items if id_of(item) in wanted]
    if len(chosen) < len(wanted) and len(items) == len(wanted):
        return list(items)
    if missing := sorted(wanted - {id_of(item) for item in items}):
        some = f"{len(missing)} of {len(wanted)} ids are not among the {len(items)} questions of this file"
        raise UserError(f"{some} (first: {missing[0]!r})", file=file)
    return chosen


def chosen(
    items: Sequence[T], id_of: Callable[[T], str], file: Path, *, ids: str | None, limit: int | None, seed: int | None
) -> list[T]:
    """The items of a list of ids (:func:`read_ids`; None: all), limited or sampled by :func:`sample`."""
    listed = items if ids is None else with_ids(items, read_ids(ids), id_of, file)
    return sample(listed, limit, seed, id_of)


def ids_fingerprint(ids: Iterable[str]) -> str:
    """Hexadecimal SHA-256 of a set of ids, independent of their order."""
    return sha256(json.dumps(sorted(ids)).encode()).hexdigest()
