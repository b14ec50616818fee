"""What panels have in common: axes in percent, rows with names, intervals, a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Literal

from madke.report.figures.style import INK, WIDTH
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KEY_GAP = 36.0
_CHARACTER = 5.0
"""Points that an entry of a key takes besides its text, and about that many for each character."""


def percent_axis(axis: Axes, found: Sequence[Estimate], *, which: Literal["x", "y"], zero: bool = False) -> None:
    """Let an axis of shares, 0 .. 1, read in percent, its limits whole tens around all intervals, 20 points at least.

    Args:
        axis: The panel.
        found: What is drawn on it.
        which: Its horizontal or its vertical axis.
        zero: Whether it begins at 0, as bars must.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low = 0 if zero else floor(10 * min(one.low for one in found) + 1e-9)
    high = ceil(10 * max(one.high for one in found) - 1e-9)
    if high - low < 2:
        low = min(low, 8)
        high = low + 2
    line = axis.xaxis if which == "x" else axis.yaxis
    # A marker on a limit is not cut off.
    margin = 0.0 if zero else 0.012 * (high - low) / 10
    (axis.set_xlim if which == "x" else axis.set_ylim)(low / 10 - margin, high / 10 + margin)
    line.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    line.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}"))
    axis.grid(True, axis=which)


def thousands(value: float, _: object = None) -> str:
    """A count in few characters: 850, 1.2k, 35k, 1.5M."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.3g}"


def interval_line(axis: Axes, at: float, found: Estimate, *, across: bool = False, colour: str = INK) -> None:
    """The 95 % interval of an estimate as a thin line, upright unless it goes ``across``."""
    draw = axis.hlines if across else axis.vlines
    draw(at, found.low, found.high, colors=colour, linewidth=0.9, zorder=2.5)


def name_rows(axis: Axes, names: Mapping[float, str], rows: float) -> None:
    """Names at the heights of rows, of which the first, 0, is at the top."""
    axis.set_yticks(list(names), labels=list(names.values()))
    axis.set_ylim(rows - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def _key(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """One key for all panels, above them, in as many columns as there is room for."""
    columns = int(72 * WIDTH / (_KEY_GAP + _CHARACTER * max(map(len, labels))))
    rows = ceil(len(labels) / max(1, min(columns, len(labels))))
    drawn = figure.legend(
        handles,
        ["" for _ in labels],
        loc="outside upper left",
        # matplotlib fills columns from top to bottom; none should stand empty.
        ncols=ceil(len(labels) / rows),
        handlelength=1.6,
        columnspacing=1.6,
        borderpad=0,
    )
    # Set afterwards: as an argument, a label that begins with an underscore would be left out.
    for text, label in zip(drawn.get_texts(), labels, strict=True):
        text.set_text(label)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows)


def line_key(figure: Figure, lines: Sequence[tuple[str, str, str]]) -> None:
    """A key of lines: of each its label, its colour and its marker."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, marker=marker, markersize=4) for _, colour, marker in lines]
    _key(figure, handles, [label for label, _, _ in lines])


def patch_key(figure: Figure, areas: Mapping[str, str]) -> None:
    """A key of areas: label -> colour."""
    from matplotlib.patches import Patch

    _key(figure, [Patch(color=colour) for colour in areas.values()], list(areas))


def rows_in_blocks(axis: Axes, blocks: Sequence[tuple[str, Sequence[str]]]) -> tuple[list[list[float]], float]:
    """Lay out rows in blocks, each under its heading; an empty heading takes no room.

    Args:
        axis: The panel; its rows get their names.
        blocks: Of each its heading and the names of its rows.

    Returns:
        Of each block the heights of its rows, and how many rows high the panel is, headings and gaps included.
    """
    names: dict[float, str] = {}
    heights: list[list[float]] = []
    y = 0.0
    for place, (heading, rows) in enumerate(blocks):
        y += 0.4 if place and heading else 0
        if heading:
            axis.text(
                0, y, heading, transform=axis.get_yaxis_transform(), va="center_baseline", fontsize=8, fontweight="bold"
            )
            y += 1
        heights.append([y + row for row in range(len(rows))])
        names |= dict(zip(heights[-1], rows, strict=True))
        y += len(rows)
    name_rows(axis, names, y)
    return heights, y
