"""FAISS files with their passages as JSON Lines, as FlashRAG and Search-R1 publish them.

A folder holds, for example, ``e5_Flat.index`` and ``wiki-18.jsonl``. Row n of the index is line n of the passages,
``{"id", "contents"}``. The part of the index's name before ``_`` names the encoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from madke.core.errors import UserError
from madke.indexing.corpus import PASSAGE_FORMAT, passage_of
from madke.indexing.index_folder import MANIFEST, StoredPassage
from madke.indexing.large_files import Lines

_ENCODERS = {"e5": "intfloat/e5-base-v2"}


def faiss_file(path: Path) -> Path | None:
    """The FAISS file at ``path``: itself, or the only ``*.index`` in the folder; None if there is none."""
    if path.is_file():
        return path if path.suffix == ".index" else None
    found = [] if (path / MANIFEST).exists() else list(path.glob("*.index"))
    return found[0] if len(found) == 1 else None


def encoder_of(file: Path) -> str:
    """The encoder that the name of a FAISS file means; UserError if it is unknown."""
    name = file.name.partition("_")[0]
    if name not in _ENCODERS:
        expected = f"its name means none of {', '.join(_ENCODERS)}; in sources.yaml, give encoder: NAME"
        raise UserError(f"the query encoder of this FAISS file is unknown; {expected}", file=file)
    return _ENCODERS[name]


def texts_of(file: Path) -> Path:
    """The only JSON Lines file next to a FAISS file; UserError if there is not exactly one."""
    found = sorted(file.parent.glob("*.jsonl"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(
            f"expected one .jsonl file with the passages next to it, found {names}; unpack a .gz, or in sources.yaml, "
            "give texts: FILE",
            file=file,
        )
    return found[0]


def open_lines(path: Path) -> tuple[Callable[[Sequence[int]], list[StoredPassage]], int]:
    """A function from rows to passages, which raises LookupError for a line without one, and the number of rows."""
    lines = Lines(path)

    def passage(row: int) -> StoredPassage:
        try:
            found = passage_of(json.loads(lines[row]))
        except (ValueError, RecursionError):
            found = None
        if found is None:
            raise LookupError(f"line {row + 1} of {path}: {PASSAGE_FORMAT}")
        return found

    return lambda rows: list(map(passage, rows)), len(lines)
