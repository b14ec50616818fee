"""CommonMT (He et al., 2020): Chinese sentences with an ambiguous word, and their English translation.

Either the owner's CSV (source, right translation, wrong translation), or two files of the same name that end in ``.zh``
and ``.en``, line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from madke.core.errors import UserError
from madke.data.formats.record import Format, Item, Row
from madke.data.formats.rows import csv_rows, lines

_COLUMNS = ("chinese_source", "english_target_correct", "english_target_wrong")


def _rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".csv":
        yield from csv_rows(path, _COLUMNS, header=True)
        return
    if path.suffix != ".zh":
        raise UserError("expected CommonMT's .csv, or the .zh of two line-aligned files", file=path)
    references = path.with_suffix(".en")
    source, target = lines(path), lines(references)
    if len(source) != len(target):
        raise UserError(f"has {len(source)} lines and {references.name} has {len(target)}; expected as many", file=path)
    for number, pair in enumerate(zip(source, target, strict=True), start=1):
        yield Row(fields=dict(zip(_COLUMNS, pair, strict=False)), file=path, line=number, number=number)


def _item(row: Row) -> Item:
    return Item(question=row.text(_COLUMNS[0]).strip(), answers=(row.text(_COLUMNS[1]).strip(),))


COMMONMT = Format(name="commonmt", task="translation", rows=_rows, item=_item)
