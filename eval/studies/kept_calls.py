"""The kept calls of an experiment: everything that its call store holds, in one compressed file.

From the file a stranger's machine runs the same debates again, without a model: every call is answered by the store.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write
from madke.core.errors import UserError
from madke.models.store import CallStore


def keep_calls(store: Path, file: Path, head: dict[str, Any], results: Iterable[dict[str, Any]] = ()) -> None:
    """Write a first line that describes the calls, all calls of a store, and what was made of them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as opened, lzma.open(opened, "wb", preset=9) as packed, CallStore(store) as calls:
        packed.write(_line(head))
        packed.writelines(map(_line, calls.exported()))
        packed.writelines(map(_line, results))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def restore_calls(file: Path, store: Path) -> None:
    """Add the kept calls to a store, created if missing."""
    add_calls((entry for entry in read_lines(file) if "text" in entry or "call" in entry), store)


def asked_with_schemas(file: Path) -> bool:
    """Whether the kept calls are of a model that takes schemas, or of a server that was tried with them."""
    return any("call" in line and line["call"]["completion"].get("bound") is not None for line in read_lines(file))


def copy_calls(source: Path, store: Path, *, payer: str) -> None:
    """Add the calls of one store to another, as paid by ``payer``."""
    with CallStore(source) as calls:
        add_calls(({**entry, "payer": payer} if "call" in entry else entry for entry in calls.exported()), store)


def add_calls(entries: Iterable[dict[str, Any]], store: Path) -> None:
    """Add exported calls to a store."""
    store.parent.mkdir(parents=True, exist_ok=True)
    with CallStore(store) as calls:
        calls.restore(entries)


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of kept calls, as objects; the first describes them."""
    try:
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise UserError(f"holds no kept calls: {error}", file=file) from error
