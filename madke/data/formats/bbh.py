"""Two tasks of BIG-Bench Hard (Suzgun et al., 2022): logical deduction and geometric shapes.

A document holds ``examples`` of ``input``, a question with its lettered options at the end, and ``target``, the letter
of the right one in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from string import ascii_uppercase

from madke.data.formats.record import Format, Item, Row, short
from madke.data.formats.rows import json_rows

_OPTIONS = "\nOptions:\n"
_OPTION = re.compile(r"\(([A-Z])\) (.*\S)\s*")
_TARGET = re.compile(r"\(([A-Z])\)")


def _rows(path: Path) -> Iterator[Row]:
    return json_rows(path, under="examples")


def _item(wording: str, row: Row) -> Item:
    question, mark, listed = row.text("input").partition(_OPTIONS)
    if not mark:
        raise row.error("'input' has no line 'Options:'")
    if wording not in question:
        raise row.error(f"'input' is {short(question)}; expected a question with the words {wording!r}")
    options = [_OPTION.fullmatch(line) for line in listed.strip().split("\n")]
    letters = [option[1] if option else None for option in options]
    if letters != list(ascii_uppercase[: len(options)]):
        raise row.error(f"the options of 'input' are {short(listed)}; expected lines (A) ..., (B) ... in order")
    target = _TARGET.fullmatch(row.text("target").strip())
    if target is None:
        raise row.error(f"'target' is {short(row.fields['target'])}; expected a letter in brackets")
    return Item(question=question, answers=(target[1],), choices=tuple(option[2] for option in options if option))


def _subset(name: str, wording: str) -> Format:
    """A task of BBH, whose files differ from those of the others only in the wording that all its questions share."""
    signs = (frozenset({"input", "target"}),)
    return Format(name=name, task="choice", rows=_rows, item=partial(_item, wording), signs=signs)


LOGICAL_DEDUCTION = _subset("bbh_logical_deduction", "arranged in a fixed order")
GEOMETRIC_SHAPES = _subset("bbh_geometric_shapes", "SVG path element")
