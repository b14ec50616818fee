"""Columns of text whose lines were drawn across the page, one line of every column after the other.

A PDF has no reading order but that in which its text was drawn. Most programs draw column after column. Some
typesetters and programs for text recognition draw across, as one draws a table. Such a block is read by columns if its
gap is clear and its text runs on from line to line in each column; a table does not.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

_LINES = 3
"""Fewest lines with text on both sides of a gap."""
_GAP = 1.0
"""Least width of a gap between columns, in heights of the text; words are a third of that apart."""
_DISTANCE = 1.2
"""Largest distance of two lines of a block, in heights of the text."""
_ACROSS = 0.6
"""Least share of the lines after whose left part the right part was drawn."""
_WORDS, _FILLED = 2.5, 0.6
"""Least mean number of words in a line of a column, and least median of its width as a share of the column's."""
_RUNS_ON, _MAY_RUN_ON = 0.4, 0.15
"""Minimum share of lines that continue in the next line of their column: in columns, and in unclear layouts."""
_SPACELESS = re.compile("[\u2e80-\u9fff\uf900-\ufaff]")
_HYPHENS = ("-", "\u2010", "\u00ad", "\ufffe")


class Piece(NamedTuple):
    """A run of text on one line without a wide gap; positions in points, from the lower left corner of the page."""

    text: str
    left: float
    bottom: float
    right: float
    top: float

    def is_beside(self, other: "Piece") -> bool:
        """Whether both are on one line."""
        shared = min(self.top, other.top) - max(self.bottom, other.bottom)
        return shared >= 0.5 * min(self.top - self.bottom, other.top - other.bottom)


class Character(NamedTuple):
    """A character with its box; white space separates words, and its box is not used."""

    text: str
    left: float
    bottom: float
    right: float
    top: float


class PageReading(NamedTuple):
    """The text of a page in reading order, and whether a block of it may have columns."""

    text: str | None
    """None: as it was drawn."""
    unclear: bool


def is_suspect(text: str, box_of: Callable[[int], tuple[float, float, float, float]]) -> bool:
    """Whether lines may have been drawn across: some spaces are wide.

    ``box_of`` gives the box (left, bottom, right, top) of a character by its number. Only those next to a space are
    looked at, since this is done on every page.
    """
    wide: list[tuple[float, int]] = []
    for space in re.finditer(r"(?<=\S) +(?=\S)", text):
        before, after = Piece("", *box_of(space.start() - 1)), Piece("", *box_of(space.end()))
        if after.is_beside(before) and after.left - before.right >= _GAP * max(_height(before), _height(after)):
            wide += [(before.right, 1), (after.left, -1)]
    # A gap between columns is at the same place in several lines; wide spaces of justified text rarely are.
    return any(count >= _LINES for count in accumulate(change for _, change in sorted(wide)))


def read_by_columns(characters: Iterable[Character]) -> PageReading:
    """Read the columns of a page one after the other, where their lines were drawn across."""
    pieces = _pieces(characters)
    order, unclear, changed = list(range(len(pieces))), False, False
    keys: dict[int, tuple[int, int]] = {}
    for number, block in enumerate(_blocks(_lines(pieces))):
        columns = block.columns(pieces)
        verdict = _verdict(block, columns, pieces)
        unclear |= verdict == "unclear"
        if verdict != "columns":
            continue
        changed = True
        places = sorted(place for column in columns for line in column for place in line)
        wanted = [place for column in columns for line in column for place in line]
        for place, index in zip(places, wanted, strict=True):
            order[place] = index
        keys |= {
            place: (number, 1000 * c + n)
            for c, column in enumerate(columns)
            for n, line in enumerate(column)
            for place in line
        }
    if not changed:
        return PageReading(None, unclear)
    text = ""
    before: int | None = None
    for index in order:
        one = before is not None and (
            keys[index] == keys.get(before)
            if index in keys
            else before not in keys and pieces[index].is_beside(pieces[before])
        )
        text += f"{' ' if one else chr(10)}{pieces[index].text}" if before is not None else pieces[index].text
        before = index
    return PageReading(text, unclear)


def _height(piece: Piece) -> float:
    return piece.top - piece.bottom


def _gap(piece: Piece) -> float:
    return _GAP * _height(piece)


def _pieces(characters: Iterable[Character]) -> list[Piece]:
    """The pieces in the order of drawing."""
    found: list[Piece] = []
    space = False
    for each in characters:
        if each.text.isspace():
            space = True
            continue
        last = found[-1] if found else None
        box = Piece(*each)
        if last is not None and each.right - each.left <= 0:  # a mark without a place of its own
            found[-1] = last._replace(text=last.text + each.text)
        elif last is None or not box.is_beside(last) or not -1 <= (each.left - last.right) / max(_gap(last), 1) < 1:
            found.append(box)
        else:
            found[-1] = Piece(
                last.text + " " * space + each.text,
                min(last.left, each.left),
                min(last.bottom, each.bottom),
                max(last.right, each.right),
                max(last.top, each.top),
            )
        space = False
    return found


_Line = list[tuple[int, Piece]]
"""The pieces of a line of the page with their numbers, from left to right."""


def _lines(pieces: Sequence[Piece]) -> list[_Line]:
    """The lines from the top of the page."""
    found: list[_Line] = []
    for numbered in sorted(enumerate(pieces), key=lambda each: -(each[1].top + each[1].bottom)):
        if found and numbered[1].is_beside(found[-1][0][1]):
            found[-1].append(numbered)
        else:
            found.append([numbered])
    return [sorted(line, key=lambda each: each[1].left) for line in found]


@dataclass
class _Block:
    """Lines with a common vertical gap."""

    lines: list[_Line]
    gaps: list[tuple[float, float]]

    def extended(self, line: _Line) -> bool:
        """Add a line if it is near and leaves a gap open."""
        below = max(piece.top for _, piece in line)
        above = min(piece.bottom for _, piece in self.lines[-1])
        height = median(piece.top - piece.bottom for _, piece in (*self.lines[-1], *line))
        gaps = [gap for old in self.gaps if (gap := _open(old, line)) is not None]
        if above - below > _DISTANCE * height or not gaps:
            return False
        self.lines.append(line)
        self.gaps = gaps
        return True

    def columns(self, pieces: Sequence[Piece]) -> list[list[list[int]]]:
        """Column -> line -> numbers of the pieces; one column if too few lines have text on both sides."""
        gaps = [gap for gap in self.gaps if sum(_both_sides(line, gap) for line in self.lines) >= _LINES]
        found: list[list[list[int]]] = [[] for _ in range(len(gaps) + 1)]
        for line in self.lines:
            parts: dict[int, list[int]] = {}
            for number, piece in line:
                parts.setdefault(sum(piece.left >= right - 0.01 for _, right in gaps), []).append(number)
            for column, numbers in parts.items():
                found[column].append(numbers)
        return found


def _open(gap: tuple[float, float], line: _Line) -> tuple[float, float] | None:
    """What a line leaves open of a gap; None if that is too narrow."""
    left, right = gap
    for _, piece in line:
        if piece.right <= left or piece.left >= right:
            continue
        left, right = max(((left, piece.left), (piece.right, right)), key=lambda each: each[1] - each[0])
    return (left, right) if right - left >= max(_gap(piece) for _, piece in line) else None


def _both_sides(line: _Line, gap: tuple[float, float]) -> bool:
    return line[0][1].right <= gap[0] + 0.01 and line[-1][1].left >= gap[1] - 0.01


def _blocks(lines: Iterable[_Line]) -> list[_Block]:
    found: list[_Block] = []
    for line in lines:
        if found and found[-1].gaps and found[-1].extended(line):
            continue
        pairs = pairwise(line)
        gaps = [(one.right, two.left) for (_, one), (_, two) in pairs if two.left - one.right >= _gap(one)]
        found.append(_Block([line], gaps))
    return [block for block in found if len(block.lines) >= _LINES and block.gaps]


def _verdict(block: _Block, columns: Sequence[Sequence[Sequence[int]]], pieces: Sequence[Piece]) -> str:
    """``columns``, ``unclear``, or ``rows``: a table, or text that was drawn column after column."""
    if len(columns) < 2:
        return "rows"
    column_of = {place: n for n, column in enumerate(columns) for line in column for place in line}
    two_sided = [line for line in block.lines if len({column_of[number] for number, _ in line}) > 1]
    across = sum(all(two - one == 1 for (one, _), (two, _) in pairwise(line)) for line in two_sided)
    if across < _ACROSS * len(two_sided):
        return "rows"
    texts = [[" ".join(pieces[place].text for place in line) for line in column] for column in columns]
    every = [text for column in texts for text in column]
    words = sum(len(text.split()) + len(_SPACELESS.findall(text)) / 2 for text in every) / len(every)
    filled = min(_filled(column, pieces) for column in columns)
    if words < _WORDS or filled < _FILLED:
        return "rows"
    if not any(text.lower() != text.upper() for text in every):
        return "unclear"
    runs_on = min(map(_runs_on, texts))
    return "columns" if runs_on >= _RUNS_ON else "unclear" if runs_on >= _MAY_RUN_ON else "rows"


def _runs_on(lines: Sequence[str]) -> float:
    """The share of a column's lines that go on in the next one."""
    pairs = [*pairwise(lines)]
    return sum(after[:1].islower() or before.endswith(_HYPHENS) for before, after in pairs) / max(1, len(pairs))


def _filled(column: Sequence[Sequence[int]], pieces: Sequence[Piece]) -> float:
    """The median width of a column's lines, as a share of the widest."""
    widths = [pieces[line[-1]].right - pieces[line[0]].left for line in column]
    return median(widths) / max(*widths, 1)
