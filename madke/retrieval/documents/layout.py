"""Two columns of text whose lines were drawn across the page, one line of each column after the other.

A PDF has no reading order but that in which its text was drawn. Most programs draw column after column. Some
typesetters and programs for text recognition draw across, as one draws a table. Such a block is read by columns if its
gap is clear and its text runs on from line to line in each column; a table does not.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import mean, median
from typing import NamedTuple

_LINES = 3
"""Fewest lines with text on both sides of a gap."""
_GAP = 1.0
"""Least width of a gap between columns, in heights of the text; words are a third of that apart."""
_DISTANCE = 1.2
"""Largest distance of two lines of a block, in heights of the text."""
_WORDS = 2.5
"""Least mean number of words in a line of a column."""
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
    for block, gap in _blocks(_lines(_pieces(characters))):
        columns = _columns(block, gap) if gap else []
        found = found or bool(columns)
        lines += columns or map(_text, block)
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


def _blocks(lines: Iterable[_Line]) -> Iterator[tuple[list[_Line], tuple[float, float] | None]]:
    """Near lines with a common gap (left and right end), or a line without one."""
    block: list[_Line] = []
    gap: tuple[float, float] | None = None
    for line in lines:
        narrowed = _open(gap, line) if gap and _is_near(block[-1], line) else None
        if narrowed:
            block.append(line)
            gap = narrowed
            continue
        if block:
            yield block, gap
        gaps = [(one.right, two.left) for one, two in pairwise(line) if two.left - one.right >= one.gap]
        block, gap = [line], max(gaps, key=lambda each: each[1] - each[0], default=None)
    if block:
        yield block, gap


def _is_near(above: _Line, below: _Line) -> bool:
    height = median(piece.top - piece.bottom for piece in (*above, *below))
    return min(piece.bottom for piece in above) - max(piece.top for piece in below) <= _DISTANCE * height


def _open(gap: tuple[float, float], line: _Line) -> tuple[float, float] | None:
    """What a line leaves open of a gap; None if that is too narrow."""
    left, right = gap
    for piece in line:
        if piece.right > left and piece.left < right:
            left, right = max(((left, piece.left), (piece.right, right)), key=lambda each: each[1] - each[0])
    return (left, right) if right - left >= max(piece.gap for piece in line) else None


def _columns(block: Sequence[_Line], gap: tuple[float, float]) -> list[str]:
    """The lines of both columns; empty for a table, whose lines do not run on."""
    sides = [
        [_text(piece for piece in line if (piece.left >= gap[1] - 0.01) == right) for line in block] for right in (0, 1)
    ]
    columns = [[text for text in side if text] for side in sides]
    words = [len(text.split()) + len(_SPACELESS.findall(text)) / 2 for column in columns for text in column]
    both = sum(all(pair) for pair in zip(*sides, strict=True))
    is_text = both >= _LINES and mean(words) >= _WORDS and min(map(_runs_on, columns)) >= _RUNS_ON
    return [text for column in columns for text in column] if is_text else []


def _runs_on(column: Sequence[str]) -> float:
    """The share of a column's lines that go on in the next one."""
    pairs = [*pairwise(column)]
    return sum(after[:1].islower() or before.endswith(_HYPHENS) for before, after in pairs) / max(1, len(pairs))


def _text(line: Iterable[Piece]) -> str:
    return " ".join(piece.text for piece in line)
