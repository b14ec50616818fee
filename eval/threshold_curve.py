"""Curves of the threshold experiment: accuracy by the number of stances read, and where it crosses one half."""

from __future__ import annotations

import csv
import io
import statistics
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from madke.scoring.statistics import Estimate, estimate

SUSTAINED = 3
"""Counts in a row for which a curve must be at one half or beyond it."""

COLUMNS = (
    *("question", "order", "k", "accuracy", "low", "high", "lowest_draw", "highest_draw"),
    *("right", "replies", "unread", "failed", "cut"),
)
"""Of the CSV file."""

EVERYTHING = "(all questions)"
"""The name of the mean over questions, where there are several."""

PAPER = (
    "Zhang et al. (RQ3): with a base of 40, about 20 of the other kind turn the result. Read as here, the twelve "
    "curves of their Tables 6-11 that have a base cross one half after 1 to 18 of the other kind, 9 in the median; "
    "the six alternating ones pass it 4 to 56 times."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """The replies of one debate: those to the first ``k`` stances of one order of one draw."""

    question: str
    order: str
    k: int
    draw: int
    right: int
    replies: int
    """Those whose call succeeded; a reply without a readable answer is not right."""
    unread: int
    """Replies in which no answer could be read."""
    failed: int
    cut: int
    """Replies to fewer than ``k`` stances, since the model found more too long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One count of a curve, over all draws."""

    k: int
    accuracy: Estimate | None
    """Over one question: of its replies, with Wilson's interval. Replies of one draw read the same stances, so for
    other draws the interval is too narrow; ``draws`` shows how far they lie apart. Over several: of their means, with
    the bootstrap's interval over questions, widened to hold Wilson's of as many of them."""
    draws: tuple[float | None, ...]
    """The accuracy of each draw; None where all its calls failed."""
    right: int
    replies: int
    unread: int
    failed: int
    cut: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Accuracy by the number of stances read."""

    question: str
    order: str
    points: tuple[Point, ...]

    def means(self) -> list[tuple[int, float]]:
        """(count, accuracy) where there is one."""
        return [(point.k, point.accuracy.value) for point in self.points if point.accuracy is not None]

    def of_draw(self, draw: int) -> list[tuple[int, float]]:
        """(count, accuracy) of one draw."""
        return [(point.k, value) for point in self.points if (value := point.draws[draw]) is not None]


def curves(cells: Iterable[Cell]) -> list[Curve]:
    """The curve of every question and order; with several questions, also that of their means."""
    by_curve: dict[tuple[str, str], dict[int, list[Cell]]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.k, cell.draw)):
        by_curve.setdefault((cell.question, cell.order), {}).setdefault(cell.k, []).append(cell)
    found = [
        Curve(question=question, order=order, points=tuple(_point(drawn) for drawn in counts.values()))
        for (question, order), counts in by_curve.items()
    ]
    if len({curve.question for curve in found}) > 1:
        for order in dict.fromkeys(curve.order for curve in found):
            same = [curve.points for curve in found if curve.order == order]
            points = tuple(_mean(list(points)) for points in zip(*same, strict=True))
            found.append(Curve(question=EVERYTHING, order=order, points=points))
    return found


def crossing(curve: Sequence[tuple[int, float]], base: int) -> float | None:
    """Where a curve crosses one half, as a number of stances read; None where it does not.

    The curve leaves the side of one half on which it stands at ``base`` with the first of :data:`SUSTAINED` counts in
    a row that lie at one half or beyond it; the place is interpolated on the line to that count from the one before.

    Args:
        curve: (count, accuracy), by count.
        base: The number of stances of one kind that the order begins with.
    """
    after = [(k, value) for k, value in curve if k >= base]
    if not after or after[0][1] == 0.5:
        return float(base) if after else None
    above = after[0][1] > 0.5
    beyond = [(value <= 0.5) if above else (value >= 0.5) for _, value in after]
    for n in range(1, len(after) - SUSTAINED + 1):
        if all(beyond[n : n + SUSTAINED]):
            (k, value), (next_k, next_value) = after[n - 1], after[n]
            return k + (next_k - k) * (value - 0.5) / (value - next_value)
    return None


def passes(curve: Sequence[tuple[int, float]]) -> int:
    """How often a curve changes the side of one half, however briefly; one half itself is the side below."""
    return sum((left > 0.5) != (right > 0.5) for (_, left), (_, right) in pairwise(curve))


def as_csv(found: Iterable[Curve]) -> str:
    """One line for every count of every curve."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for curve in found:
        for p in curve.points:
            mean = (p.accuracy.value, p.accuracy.low, p.accuracy.high) if p.accuracy else ()
            drawn = [value for value in p.draws if value is not None]
            shares = [f"{value:.4f}" for value in (*mean, min(drawn), max(drawn))] if mean else [""] * 5
            writer.writerow([curve.question, curve.order, p.k, *shares, p.right, p.replies, p.unread, p.failed, p.cut])
    return text.getvalue()


def as_text(found: Sequence[Curve], bases: Mapping[str, int | None]) -> str:
    """The curves and their crossings, to be read in a terminal.

    Args:
        found: The curves.
        bases: Order -> how many stances of one kind it begins with; None for one that has no base.
    """
    lines: list[str] = []
    for question in dict.fromkeys(curve.question for curve in found):
        own = [curve for curve in found if curve.question == question]
        lines += [question, "  k  " + "".join(f"{_spaced(curve.order):<21}" for curve in own).rstrip()]
        for at in zip(*(curve.points for curve in own), strict=True):
            lines.append(f"{at[0].k:>3}  " + "".join(f"{_with_interval(point):<21}" for point in at).rstrip())
        lines += ["", *(line for curve in own for line in _in_words(curve, bases[curve.order])), ""]
    definition = (
        "A curve crosses one half where it leaves the side on which it stands with its whole base, with the first of "
        f"{SUSTAINED} counts in a row at one half or beyond it; the place is interpolated. Intervals are Wilson's, of "
        f"the replies, for these draws; those of {EVERYTHING} are over questions, a bootstrap's widened to Wilson's."
    )
    return "\n".join([*lines, *textwrap.wrap(definition, 100), *textwrap.wrap(PAPER, 100), ""])


def _in_words(curve: Curve, base: int | None) -> Iterator[str]:
    means = curve.means()
    if base is not None:
        by_draw = [_turned(curve.of_draw(draw), base) for draw in range(len(curve.points[0].draws))]
        place = crossing(means, base)
        where = "does not cross one half" if place is None else f"crosses one half at {place:.1f}"
        turned = _turned(means, base)
        yield f"{_spaced(curve.order)} {where}: turned by {turned} of the other kind (by draw: {', '.join(by_draw)})"
    counts = [f"{sum(getattr(p, name) for p in curve.points):,} {name}" for name in ("unread", "failed", "cut")]
    replies = sum(point.replies for point in curve.points)
    yield f"{_spaced(curve.order)} passes one half {passes(means)} times; {replies:,} replies, {', '.join(counts)}"


def _turned(curve: Sequence[tuple[int, float]], base: int) -> str:
    place = crossing(curve, base)
    return "none" if place is None else f"{place - base:.1f}"


def _spaced(order: str) -> str:
    return order.replace("_", " ")


def _with_interval(point: Point) -> str:
    if point.accuracy is None:
        return "all failed"
    return f"{point.accuracy.value:.2f} [{point.accuracy.low:.2f}, {point.accuracy.high:.2f}]"


def _point(cells: Sequence[Cell]) -> Point:
    right, replies = sum(cell.right for cell in cells), sum(cell.replies for cell in cells)
    return Point(
        k=cells[0].k,
        accuracy=estimate([1.0] * right + [0.0] * (replies - right)),
        draws=tuple(cell.right / cell.replies if cell.replies else None for cell in cells),
        right=right,
        replies=replies,
        unread=sum(cell.unread for cell in cells),
        failed=sum(cell.failed for cell in cells),
        cut=sum(cell.cut for cell in cells),
    )


def _mean(points: Sequence[Point]) -> Point:
    drawn = [
        [value for value in values if value is not None] for values in zip(*(p.draws for p in points), strict=True)
    ]
    return Point(
        k=points[0].k,
        accuracy=estimate([point.accuracy.value for point in points if point.accuracy is not None]),
        draws=tuple(statistics.fmean(values) if values else None for values in drawn),
        right=sum(point.right for point in points),
        replies=sum(point.replies for point in points),
        unread=sum(point.unread for point in points),
        failed=sum(point.failed for point in points),
        cut=sum(point.cut for point in points),
    )
