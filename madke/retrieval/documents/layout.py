"""Columns of text whose lines were drawn across the page, one line of every column after the other.

A PDF has no reading order but that in which its text was drawn. Most programs draw column after column. Some
typesetters and programs for text recognition draw across, as one draws a table. Such a block is read by columns if its
gap is clear and its text runs on from line to line in each column; a table does not.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_WORDS, _FILLED = 2.5, 0.6
"""Least mean number of words in a line of a column, and least median of its width as a share of the column's."""
_RUNS_ON = 0.4
"""Minimum share of lines that continue in the next line of their column."""
_SPACELESS = re.compile("[\u2e80-\u9fff\uf900-\ufaff]")
_HYPHENS = ("-", "\u2010", "\u00ad", "\ufffe")


class Piece(NamedTuple):
    """A character, or a run of text on one line; positions in points, from the lower left corner of the page."""

    text: str
    left: float
    bottom: float
    right: float
    top: float

    @property
    def gap(self) -> float:
        """The least width of a gap next to it."""
        return _GAP * (self.top - self.bottom)

    def is_beside(self, other: "Piece") -> bool:
        """Whether both are on one line."""
        shared = min(self.top, other.top) - max(self.bottom, other.bottom)
        return shared >= 0.5 * min(self.top - self.bottom, other.top - other.bottom)


_Line = list[Piece]
"""The pieces of a line of the page, from left to right."""


def is_suspect(text: str, box_of: Callable[[int], tuple[float, float, float, float]]) -> bool:
    """Whether lines may have been drawn across: some spaces are wide.

    ``box_of`` gives the box (left, bottom, right, top) of a character by its number. Only those next to a space are
    looked at, since this is done on every page.
    """
    wide: list[tuple[float, int]] = []
    for space in re.finditer(r"(?<=\S) +(?=\S)", text):
        before, after = Piece("", *box_of(space.start() - 1)), Piece("", *box_of(space.end()))
        if after.is_beside(before) and after.left - before.right >= max(before.gap, after.gap):
            wide += [(before.right, 1), (after.left, -1)]
    # A gap between columns is at the same place in several lines; wide spaces of justified text rarely are.
    return any(count >= _LINES for count in accumulate(change for _, change in sorted(wide)))


def read_by_columns(characters: Iterable[Piece]) -> str | None:
    """The text of a page from top to bottom, with columns one after the other.

    None if no block has columns: then the order in which the page was drawn is better. White space separates words,
    and its box is not used.
    """
    lines: list[str] = []
    found = False
    for block in _blocks(_lines(_pieces(characters))):
        columns = block.columns()
        if _are_columns(columns):
            found = True
            lines += [_text(line) for column in columns for line in column]
        else:
            lines += map(_text, block.lines)
    return "\n".join(lines) if found else None


def _pieces(characters: Iterable[Piece]) -> list[Piece]:
    """Runs of characters without a wide gap, in the order of drawing."""
    found: list[Piece] = []
    space = False
    for each in characters:
        if each.text.isspace():
            space = True
            continue
        last = found[-1] if found else None
        if last is not None and each.right - each.left <= 0:  # a mark without a place of its own
            found[-1] = last._replace(text=last.text + each.text)
        elif last is None or not each.is_beside(last) or not -1 <= (each.left - last.right) / max(last.gap, 1) < 1:
            found.append(each)
        else:
            lows, highs = zip(last[1:3], each[1:3], strict=True), zip(last[3:], each[3:], strict=True)
            found[-1] = Piece(last.text + " " * space + each.text, *map(min, lows), *map(max, highs))
        space = False
    return found


def _lines(pieces: Iterable[Piece]) -> list[_Line]:
    """The lines from the top of the page."""
    found: list[_Line] = []
    for piece in sorted(pieces, key=lambda each: -(each.top + each.bottom)):
        if found and piece.is_beside(found[-1][0]):
            found[-1].append(piece)
        else:
            found.append([piece])
    return [sorted(line, key=lambda each: each.left) for line in found]


@dataclass
class _Block:
    """Lines with common vertical gaps (left and right end), or a line without one."""

    lines: list[_Line]
    gaps: list[tuple[float, float]]

    def extended(self, line: _Line) -> bool:
        """Add a line if it is near and leaves a gap open."""
        below = max(piece.top for piece in line)
        above = min(piece.bottom for piece in self.lines[-1])
        height = median(piece.top - piece.bottom for piece in (*self.lines[-1], *line))
        gaps = [gap for old in self.gaps if (gap := _open(old, line)) is not None]
        if above - below > _DISTANCE * height or not gaps:
            return False
        self.lines.append(line)
        self.gaps = gaps
        return True

    def columns(self) -> list[list[_Line]]:
        """Column -> its lines; one column if too few lines have text on both sides of a gap."""
        gaps = [gap for gap in self.gaps if sum(_both_sides(line, gap) for line in self.lines) >= _LINES]
        found: list[list[_Line]] = [[] for _ in range(len(gaps) + 1)]
        for line in self.lines:
            parts: dict[int, _Line] = {}
            for piece in line:
                parts.setdefault(sum(piece.left >= right - 0.01 for _, right in gaps), []).append(piece)
            for column, part in parts.items():
                found[column].append(part)
        return found


def _open(gap: tuple[float, float], line: _Line) -> tuple[float, float] | None:
    """What a line leaves open of a gap; None if that is too narrow."""
    left, right = gap
    for piece in line:
        if piece.right > left and piece.left < right:
            left, right = max(((left, piece.left), (piece.right, right)), key=lambda each: each[1] - each[0])
    return (left, right) if right - left >= max(piece.gap for piece in line) else None


def _both_sides(line: _Line, gap: tuple[float, float]) -> bool:
    return line[0].right <= gap[0] + 0.01 and line[-1].left >= gap[1] - 0.01


def _blocks(lines: Iterable[_Line]) -> Iterator[_Block]:
    block: _Block | None = None
    for line in lines:
        if block and block.gaps and block.extended(line):
            continue
        if block:
            yield block
        gaps = [(one.right, two.left) for one, two in pairwise(line) if two.left - one.right >= one.gap]
        block = _Block([line], gaps)
    if block:
        yield block


def _are_columns(columns: Sequence[Sequence[_Line]]) -> bool:
    """Whether text runs on in each column; a table and plain lines are read by rows."""
    every = [_text(line) for column in columns for line in column]
    words = sum(len(text.split()) + len(_SPACELESS.findall(text)) / 2 for text in every) / len(every)
    if len(columns) < 2 or words < _WORDS or min(map(_filled, columns)) < _FILLED:
        return False
    return min(map(_runs_on, columns)) >= _RUNS_ON


def _text(line: _Line) -> str:
    return " ".join(piece.text for piece in line)


def _runs_on(column: Sequence[_Line]) -> float:
    """The share of a column's lines that go on in the next one."""
    pairs = [*pairwise(map(_text, column))]
    return sum(after[:1].islower() or before.endswith(_HYPHENS) for before, after in pairs) / max(1, len(pairs))


def _filled(column: Sequence[_Line]) -> float:
    """The median width of a column's lines, as a share of the widest."""
    widths = [line[-1].right - line[0].left for line in column]
    return median(widths) / max(*widths, 1)
