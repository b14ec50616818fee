"""Style and file formats of figures. One drawing serves light and dark pages and papers."""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from madke._util.terminal import printable
from madke.report.tables import ORACLE
from madke.runs.spec import RunSpec
from madke.scoring.arms import ArmValues, Results
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK = "#1b1f24"
"""Colour of text, axes and intervals. Pages replace it by the colour of the surrounding text."""

ON_COLOUR = "#111111"
"""Text on a coloured area."""

COLOURS = ("#1f80c3", "#e69f00", "#cc79a7", "#56b4e9", "#8c8c8c", "#7a6cb8")
"""Colours of Okabe and Ito for colour-blind readers, without green and red: on the page they mean right and wrong."""

FLIP_COLOURS = ("#009e73", "#7fcfb4", "#f0a878", "#d55e00")
"""Greens of right answers and reds of wrong ones; the light ones, in the middle, are of answers that became so."""

MARKERS = "osD^vPXp"

PAPER_WIDTH = 6.4
"""Text width of most papers, in inches."""

PAGE_WIDTH = 4.8
"""Width of figures on the page, in inches: a phone shows them whole, with readable text."""

_INK_PARTS = "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color grid.color"

_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # names of arms may contain $
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
    "font.size": 9,
    "axes.facecolor": "none",
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.markersize": 5.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    **dict.fromkeys(_INK_PARTS.split(), INK),
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn figure with its title and caption."""

    name: str
    title: str
    caption: str
    """May contain untrusted names."""
    figure: Figure


@contextmanager
def style() -> Iterator[None]:
    """Apply our style, independent of the user's matplotlib settings."""
    from matplotlib import style as styles

    with styles.context(["default", _STYLE]), warnings.catch_warnings():
        # The font for measuring may lack a script that the reader's browser has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(height: float) -> Figure:
    """An empty figure without background, :data:`PAPER_WIDTH` wide and ``height`` inches high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAPER_WIDTH, height), layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    return figure


def short_line(text: str, most: int = 32) -> str:
    """Untrusted text on one line, valid in XML, with its middle left out if it is longer than ``most``."""
    text = " ".join(printable(text).replace("\ufffe", "").replace("\uffff", "").split()) or "?"
    tail = most // 3
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[-tail:]}"


def percent_axis(axis: Axes, found: Sequence[Estimate], which: Literal["x", "y"] = "y") -> None:
    """Format an axis of shares in percent. Limits are multiples of 10, 20 points apart or more; x begins at 0."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    low = 0 if which == "x" else floor(10 * min(one.low for one in found) + 1e-9)
    high = ceil(10 * max(one.high for one in found) - 1e-9)
    if high - low < 2:
        low = min(low, 8)
        high = low + 2
    line = axis.xaxis if which == "x" else axis.yaxis
    # A marker on a limit is not cut off.
    margin = 0.0 if which == "x" else 0.012 * (high - low) / 10
    (axis.set_xlim if which == "x" else axis.set_ylim)(low / 10 - margin, high / 10 + margin)
    line.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    line.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))
    axis.grid(True, axis=which)


def cost_axis(axis: Axes, costs: Sequence[float]) -> None:
    """Format a horizontal axis of counts: linear from 0, or logarithmic if the highest is above 8 times the lowest."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    if max(costs) > 8 * min(costs):
        axis.set_xscale("log")
        axis.set_xlim(min(costs) / 1.5, max(costs) * 1.5)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_xlim(0, 1.15 * max(costs))
        axis.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(thousands)


def thousands(value: float, _: object = None) -> str:
    """A count in few characters: 850, 1.2k, 35k, 1.5M."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.3g}"


def interval_line(axis: Axes, at: float, found: Estimate, *, across: bool = False, colour: str = INK) -> None:
    """Draw the 95 % interval of an estimate as a thin line, vertical unless ``across``."""
    draw = axis.hlines if across else axis.vlines
    draw(at, found.low, found.high, colors=colour, linewidth=0.9, zorder=2.5)


def _key(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Draw one legend above all panels, in as many columns as fit."""
    # Approximate points per entry and per character.
    columns = int(72 * PAGE_WIDTH / (36 + 5 * max(map(len, labels))))
    rows = ceil(len(labels) / max(1, min(columns, len(labels))))
    drawn = figure.legend(
        handles,
        ["" for _ in labels],
        loc="outside upper left",
        # matplotlib fills columns from top to bottom; avoid empty columns.
        ncols=ceil(len(labels) / rows),
        handlelength=1.6,
        columnspacing=1.6,
        borderpad=0,
    )
    # Set afterwards, because matplotlib skips labels that start with an underscore.
    for text, label in zip(drawn.get_texts(), labels, strict=True):
        text.set_text(label)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows)


def line_key(figure: Figure, lines: Sequence[tuple[str, str, str]]) -> None:
    """Legend of lines: (label, colour, marker)."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, marker=marker, markersize=4) for _, colour, marker in lines]
    _key(figure, handles, [label for label, _, _ in lines])


def patch_key(figure: Figure, areas: Mapping[str, str]) -> None:
    """Legend of areas: label -> colour."""
    from matplotlib.patches import Patch

    _key(figure, [Patch(color=colour) for colour in areas.values()], list(areas))


def rows_in_blocks(axis: Axes, blocks: Sequence[tuple[str, Sequence[str]]]) -> tuple[list[list[float]], float]:
    """Lay out rows in blocks. Returns the heights of the rows of each block, and that of the panel, in rows."""
    names: dict[float, str] = {}
    heights: list[list[float]] = []
    y = 0.0
    for place, (heading, rows) in enumerate(blocks):
        y += 0.4 if place and heading else 0
        if heading:
            bold: dict[str, Any] = {"va": "center_baseline", "fontsize": 8, "fontweight": "bold"}
            axis.text(0, y, heading, transform=axis.get_yaxis_transform(), **bold)
            y += 1
        heights.append([y + row for row in range(len(rows))])
        names |= dict(zip(heights[-1], rows, strict=True))
        y += len(rows)
    axis.set_yticks(list(names), labels=list(names.values()))
    axis.set_ylim(y - 0.4, -0.6)  # row 0 is at the top
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return heights, y


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnArm:
    """An arm with its label and style."""

    config: RunSpec | None
    """None for predictions from elsewhere."""
    scores: Scores
    values: ArmValues
    label: str
    """Unique short label, with a star if debates used the gold answers."""
    colour: str
    marker: str


def arms_of(results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues]) -> list[DrawnArm]:
    """The arms, in order."""
    seen: Counter[str] = Counter()
    drawn = []
    for n, (one, held) in enumerate(zip(results, values, strict=True)):
        label = short_line(one.name)
        seen[label] += 1
        number = f" ({seen[label]})" if seen[label] > 1 else ""
        arm = DrawnArm(
            config=one.config,
            scores=scores[one.name],
            values=held,
            label=f"{label}{number}{'*' if scores[one.name].read_golds else ''}",
            colour=COLOURS[n % len(COLOURS)],
            marker=MARKERS[n % len(MARKERS)],
        )
        drawn.append(arm)
    return drawn


def notes(arms: Iterable[DrawnArm], found: Iterable[Estimate] = ()) -> str:
    """The end of a caption: number of questions of the intervals, and meaning of a star."""
    counts = sorted({one.n for one in found})
    text = ""
    if counts:
        over = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        text = f" Thin lines: 95 % intervals over {over} questions."
    return f"{text} * {ORACLE}." if any(arm.scores.read_golds for arm in arms) else text


def plot_line(axis: Axes, points: Mapping[int, Estimate], colour: str, marker: str, *, shift: float) -> None:
    """Draw joined points with intervals, shifted by ``shift`` so that lines do not hide each other."""
    xs = [x + shift for x in points]
    values = [one.value for one in points.values()]
    axis.plot(xs, values, marker=marker, color=colour, markersize=4, linewidth=1.3)
    for x, one in zip(xs, points.values(), strict=True):
        interval_line(axis, x, one, colour=colour)


# From a drawn figure to bytes

ImageFormat = Literal["pdf", "svg", "png"]

_PNG_DPI = 200
_NO_METADATA = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}
"""Metadata that would make files of equal figures differ."""

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#(.+)\)")


def file_bytes(drawing: Drawing, form: ImageFormat) -> bytes:
    """The figure as a file, deterministically."""
    import matplotlib

    out = io.BytesIO()
    with style(), matplotlib.rc_context({"svg.hashsalt": drawing.name}):
        drawing.figure.savefig(
            out,
            format=form,
            dpi=_PNG_DPI if form == "png" else 72,
            facecolor="white" if form == "png" else "none",
            metadata=dict.fromkeys(_NO_METADATA[form]),
        )
    return out.getvalue()


def page_svg(drawing: Drawing) -> str:
    """The figure as an ``<svg>`` element without a size, with title and caption for screen readers.

    It has no style sheet, which would affect the whole page, and no ``style``. Ids start with ``figure-NAME-``.
    """
    drawing.figure.set_figwidth(PAGE_WIDTH)
    try:
        root = ElementTree.fromstring(file_bytes(drawing, "svg"))
    finally:
        drawing.figure.set_figwidth(PAPER_WIDTH)
    prefix = f"figure-{drawing.name}-"
    for parent in list(root.iter()):
        for child in [*parent.iterfind(f"{_SVG}metadata"), *parent.iterfind(f"{_SVG}style")]:
            parent.remove(child)
    for element in root.iter():
        _make_plain(element, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {
        "xmlns": _SVG[1:-1],
        "role": "img",
        "aria-labelledby": f"{prefix}title",
        "aria-describedby": f"{prefix}caption",
        # From matplotlib's style sheet.
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    root[:0] = [ElementTree.Element("title", id=f"{prefix}title"), ElementTree.Element("desc", id=f"{prefix}caption")]
    root[0].text, root[1].text = drawing.title, drawing.caption
    return ElementTree.tostring(root, encoding="unicode")


def _make_plain(element: ElementTree.Element, prefix: str) -> None:
    """Remove namespaces and styles, prefix ids and references, and replace ink by the current text colour."""
    element.tag = element.tag.removeprefix(_SVG)
    attributes = dict(element.attrib)
    # Each part of a style becomes an SVG attribute, except the font.
    for part in filter(None, attributes.pop("style", "").split(";")):
        name, value = part.split(":", 1)
        if name.strip() != "font-family":
            attributes[name.strip()] = value.strip()
    if link := attributes.pop(_LINK, ""):
        attributes["href"] = f"#{prefix}{link[1:]}"
    if "id" in attributes:
        attributes["id"] = prefix + attributes["id"]
    for name, value in attributes.items():
        if found := _REFERENCE.fullmatch(value):
            attributes[name] = f"url(#{prefix}{found[1]})"
        elif value == INK:
            attributes[name] = "currentColor"
    element.attrib.clear()
    element.attrib.update(attributes)
