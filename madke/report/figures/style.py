"""How figures look: colours, sizes, and text of others made fit for them.

A figure is drawn once, for pages and for papers. On a page its text takes the colour around it, so it fits light and
dark; the colours of series are legible on both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from madke.terminal import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1f24"
"""Text, axes and intervals; on a page it becomes the colour of the text around."""

ON_COLOUR = "#111111"
"""Text on a coloured area, light or dark the page."""

COLOURS = ("#1f80c3", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
"""Okabe and Ito's colours, which colour-blind people tell apart too, fit for light and dark pages: the blue a little
lighter, grey in place of black, and no yellow."""

MARKERS = "osD^vPXp"

WIDTH = 6.4
"""Inches; the width of the text in most papers."""

_INK_PARTS = "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color grid.color"

_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # names of arms are no formulas
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
    "figure.dpi": 72,  # a pixel is a point, where labels are placed
    "font.size": 9,
    "axes.facecolor": "none",
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    **dict.fromkeys(_INK_PARTS.split(), INK),
}

_NO_STYLE = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
"""Settings of the program around, which stay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A figure, drawn, and what is said about it."""

    name: str
    """Of its file and its ids: lower-case letters and hyphens."""
    title: str
    caption: str
    """Names in it are text of others."""
    figure: Figure


@contextmanager
def style() -> Iterator[None]:
    """Figures made and saved inside look like ours, whatever the user's own settings of matplotlib."""
    import matplotlib

    usual = {name: value for name, value in matplotlib.rcParamsDefault.items() if name not in _NO_STYLE}
    with matplotlib.rc_context({**usual, **_STYLE}), warnings.catch_warnings():
        # A name may be in a script that the font for measuring lacks; the reader's browser has one.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(height: float) -> Figure:
    """An empty figure without a background, :data:`WIDTH` wide and so many inches high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    return figure


def one_line(text: str, most: int = 32) -> str:
    """Text of others on one short line, fit for XML, its middle left out where it is too long."""
    text = " ".join(printable(text).replace("\ufffe", "").replace("\uffff", "").split()) or "?"
    tail = most // 3
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[-tail:]}"
