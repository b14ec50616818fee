"""Figures for pages and papers, drawn by matplotlib, which is imported on demand.

There are three kinds: accuracy by arm, against its calls or tokens; by setting, over arms that differ only in it;
and by step: what retrieval, further calls and talk add.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise, product
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from madke._util.files import write_file
from madke._util.terminal import printable
from madke.engine.protocol import Protocol
from madke.engine.settings import Knowledge
from madke.report.chart import cost_per_question
from madke.report.tables import ORACLE
from madke.runs.directory import RunRecord
from madke.scoring.arms import ArmValues, Results
from madke.scoring.metrics import GRADER
from madke.scoring.paired import PairedTest, paired_test
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK = "#1b1f24"
"""Colour of text, axes and intervals."""

COLOURS = ("#1f80c3", "#e69f00", "#cc79a7", "#56b4e9", "#8c8c8c", "#7a6cb8")
"""Colours of Okabe and Ito for colour-blind readers, without green and red: on the page they mean right and wrong."""

MARKERS = "osD^vPXp"

PAPER_WIDTH = 6.4
"""Text width of most papers, in inches."""

_INK_PARTS = "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color grid.color"

_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # names of arms may contain $
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
    "font.size": 9,
    "axes.facecolor": "none",
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

ImageFormat = Literal["pdf", "svg", "png"]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn figure with its title and caption."""

    name: str
    title: str
    caption: str
    """May contain untrusted names."""
    figure: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnArm:
    """An arm with its label and style."""

    config: RunRecord | None
    """None for predictions from elsewhere."""
    scores: Scores
    values: ArmValues
    label: str
    """Short label, with a star if debates used the gold answers."""
    colour: str
    marker: str


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues]) -> list[Drawing]:
    """All figures that the arms have data for, in order; needs matplotlib.

    If a grader graded all arms, it decides what is right by arm and by setting, as in the figures of Wang et al.
    """
    if len(results) < 2:
        return []
    arms = compared = arms_of(results, scores, values)
    note = ""
    if all(GRADER in arm.scores.metrics for arm in arms):
        compared = [replace(arm, scores=replace(arm.scores, correct=arm.scores.metrics[GRADER])) for arm in arms]
        note = " The grader says which answers are right."
    with style():
        drawings = [accuracy_by_cost(compared, "calls"), accuracy_by_cost(compared, "tokens")]
        drawings += [by_setting(compared, setting) for setting in SETTINGS]
        noted = [replace(each, caption=each.caption + note) for each in drawings if each is not None]
        step = gain_by_step(arms)
    return noted if step is None else [*noted, step]


def arms_of(results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues]) -> list[DrawnArm]:
    """The arms, in order."""
    drawn = []
    for n, (one, arm_values) in enumerate(zip(results, values, strict=True)):
        own = scores[one.name]
        label = f"{short_line(one.name)}{'*' if own.read_golds else ''}"
        look = {"colour": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}
        drawn.append(DrawnArm(config=one.config, scores=own, values=arm_values, label=label, **look))
    return drawn


# By arm


def accuracy_by_cost(arms: Sequence[DrawnArm], cost: Literal["calls", "tokens"]) -> Drawing | None:
    """Accuracy against mean calls or tokens per question, a point for each arm that has both."""
    costs = [(arm, cost_per_question(arm.scores, cost)) for arm in arms]
    points = [(arm, spent, arm.scores.correct) for arm, spent in costs if arm.scores.correct and spent > 0]
    if len(points) < 2:
        return None
    shown, estimates = [arm for arm, _, _ in points], [value for _, _, value in points]
    figure = new_figure(3.6)
    axis = figure.add_subplot()
    for arm, spent, value in points:
        interval_line(axis, spent, value, colour=arm.colour)
        axis.plot(spent, value.value, arm.marker, color=arm.colour, zorder=3)
    percent_axis(axis, estimates)
    cost_axis(axis, [spent for _, spent, _ in points])
    axis.set_ylabel("Accuracy (%)")
    axis.set_xlabel(f"{cost.capitalize()} per question")
    line_key(figure, [(arm.label, arm.colour, arm.marker) for arm in shown])
    estimated = " (partly estimated)" if cost == "tokens" and any(arm.scores.total.estimated for arm in shown) else ""
    caption = f"Accuracy of the final answers against the mean {cost} of a debate{estimated}."
    return Drawing(f"accuracy-by-{cost}", f"Accuracy against {cost}", caption + _notes(shown, estimates), figure)


# By setting

_POOL = tuple(f"protocol.{name}" for name in Knowledge.model_fields)
_BY_SOURCE = tuple(f"protocol.{name}" for name in ("sources", "per_source", "weights", "per_debater_sources"))
_BASELINE = "no knowledge"


class Setting(NamedTuple):
    """A setting by which arms are compared."""

    name: str
    title: str
    paths: tuple[str, ...]
    """Beginnings of the dotted paths in which the compared arms may differ."""
    label: Callable[[RunRecord], str | None]
    """Its value in an arm; None for an arm that is not compared."""


def _selection(config: RunRecord) -> str | None:
    knowledge = config.protocol.knowledge
    if knowledge is None:
        return None
    named = {"all": "whole pool", "one_each": "a passage each", "none": "pool not shown"}
    return named.get(knowledge.select, f"{knowledge.select}, at most {knowledge.max_selected}")


def _stances(config: RunRecord) -> str | None:
    return None if config.first_round_draw is None else str(config.first_round_draw.read)


SETTINGS = (
    Setting("source-ablation", "Sources", _BY_SOURCE, lambda run: " + ".join(run.protocol.sources) or _BASELINE),
    Setting("selection-ablation", "Selection", ("protocol.select", "protocol.max_selected"), _selection),
    Setting("models", "Models", ("models.",), lambda run: " + ".join(sorted(set(run.models.values())))),
    Setting("agents", "Number of debaters", ("protocol.debaters",), lambda run: str(len(run.protocol.cast))),
    Setting("rounds", "Most rounds", ("protocol.rounds",), lambda run: str(run.protocol.trace.differ.rounds)),
    Setting("stances", "Stances read", ("questions", "first_round.", "first_round_draw.read"), _stances),
)

_IGNORED = {"prompts_sha256", "sources", "source_specs", "pools", "searched", "repeats"}
"""Fields that follow from other settings or do not change the experiment."""


def by_setting(arms: Sequence[DrawnArm], setting: Setting) -> Drawing | None:
    """Accuracy by one setting, a block for each group of arms that differ only in it (Wang et al., Figures 4 to 6)."""
    groups = [[each for each in group if each[1].scores.correct] for group in _groups(arms, setting)]
    groups = [group for group in groups if len({label for label, _ in group}) > 1]
    if not groups:
        return None
    labels = list(dict.fromkeys(label for group in groups for label, _ in group))
    blocks = []
    for group in groups:
        # A single block needs no names of arms, because its rows differ in nothing else.
        names = [label if len(groups) == 1 else f"{label} ({arm.label})" for label, arm in group]
        colours = [COLOURS[labels.index(label) % len(COLOURS)] for label, _ in group]
        blocks.append(("", [*zip(names, (arm.scores.correct for _, arm in group), colours, strict=True)]))
    figure, axis, estimates = _bars(blocks)
    percent_axis(axis, estimates, "x")
    axis.set_xlabel("Accuracy (%)")
    notes = _notes([arm for group in groups for _, arm in group], estimates)
    caption = f"Accuracy of the final answers, all else equal.{notes}"
    return Drawing(setting.name, setting.title, caption, figure)


def _groups(arms: Sequence[DrawnArm], setting: Setting) -> Iterator[list[tuple[str, DrawnArm]]]:
    """Groups of arms that are equal in all other settings: values of the setting and arms, the baseline first.

    An arm without knowledge is the baseline of every selection of sources.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[str, DrawnArm]]] = {}
    baselines: list[tuple[dict[str, str], tuple[str, DrawnArm]]] = []

    def without_knowledge(shared: Mapping[str, str]) -> dict[str, str]:
        return {path: value for path, value in shared.items() if not path.startswith(_POOL)}

    for arm in arms:
        if arm.config is None or (label := setting.label(arm.config)) is None:
            continue
        shared = {path: value for path, value in _facts(arm.config).items() if not path.startswith(setting.paths)}
        if label == _BASELINE:
            baselines.append((without_knowledge(shared), (label, arm)))
        else:
            groups.setdefault(tuple(sorted(shared.items())), []).append((short_line(label), arm))
    for settings, members in groups.items():
        yield [*(each for shared, each in baselines if shared == without_knowledge(dict(settings))), *members]


def _facts(config: RunRecord) -> dict[str, str]:
    """Every setting of an arm that is compared between arms: dotted path -> value as JSON."""
    facts: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json", exclude=_IGNORED | {"models"}).items():
        facts |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    # The number of debaters must not count as a difference in models.
    names = {debater.name for debater in config.protocol.cast}
    facts["models.debaters"] = sorted({model for role, model in config.models.items() if role in names})
    facts |= {f"models.{role}": model for role, model in config.models.items() if role not in names}
    return {path: json.dumps(value, sort_keys=True) for path, value in facts.items()}


# By step

Step = Literal["one agent", "retrieval", "further calls", "talk"]
STEPS: tuple[Step, ...] = ("one agent", "retrieval", "further calls", "talk")
"""The kinds of arms, each of which adds something: one agent without knowledge; the same with a pool; several answers
over the same pool and a vote; debaters who read each other."""

_MAX_ROWS = 24


class Gain(NamedTuple):
    """What one step adds: a paired comparison of two arms."""

    step: Step
    left: DrawnArm
    right: DrawnArm
    test: PairedTest


def step_of(protocol: Protocol) -> Step | None:
    """Which step an arm stands for; None for other baselines (a debate or a vote without knowledge)."""
    alone, trace = len(protocol.cast) == 1, protocol.trace
    if alone and trace.differ.rounds > 1:
        return None
    if not protocol.sources:
        return "one agent" if alone else None
    if alone:
        return "retrieval"
    return "talk" if trace.talks else "further calls" if trace.differ.by == "majority" else None


def gains(arms: Sequence[DrawnArm]) -> list[Gain]:
    """Each arm against each arm of the step before, for equal data, models and sources; in the order of the steps.

    Empty unless retrieval, further calls and talk are all there.
    """
    kinds = [(arm, arm.config, step_of(arm.config.protocol)) for arm in arms if arm.config]
    every_gain: list[Gain] = []

    def shared(config: RunRecord, before: Step) -> tuple[object, ...]:
        sources = () if before == "one agent" else config.protocol.sources
        return config.data, config.task, {*config.models.values()}, sources

    for before, after in pairwise(STEPS):
        for (right, one, kind), (left, other, earlier) in product(kinds, repeat=2):
            compared = (kind, earlier) == (after, before) and shared(one, before) == shared(other, before)
            if compared and (test := paired_test(left.values, right.values, "correct")):
                every_gain.append(Gain(after, left, right, test))
    return every_gain if {"further calls", "talk"} <= {gain.step for gain in every_gain} else []


def gain_by_step(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Paired differences: retrieval, then further calls over the same pool, then talk."""
    gained = gains(arms)
    if not gained or len(gained) > _MAX_ROWS:
        return None
    blocks = []
    for step, colour in zip(STEPS[1:], COLOURS, strict=False):
        rows = [(f"{g.left.label} → {g.right.label}", g.test.difference, colour) for g in gained if g.step == step]
        blocks.append((step.capitalize(), rows))
    figure, axis, estimates = _bars([block for block in blocks if block[1]], sign="+")
    axis.axvline(0, color=INK, linewidth=0.7)
    axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
    axis.margins(x=0.12)
    axis.grid(True, axis="x")
    axis.set_xlabel("Change of accuracy (points)")
    caption = (
        "What each step adds, paired by question: retrieval for one agent, further answers over the same pool with a "
        "vote, and debaters who read each other."
    )
    notes = _notes([arm for gain in gained for arm in (gain.left, gain.right)], estimates)
    return Drawing("gain-by-step", "What the gain consists of", caption + notes, figure)


# Parts of figures


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


def percent_axis(axis: Axes, estimates: Sequence[Estimate], which: Literal["x", "y"] = "y") -> None:
    """Format an axis of shares in percent. Limits are multiples of 10, 20 points apart or more; x begins at 0."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    low = 0 if which == "x" else floor(10 * min(one.low for one in estimates) + 1e-9)
    high = ceil(10 * max(one.high for one in estimates) - 1e-9)
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
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    if max(costs) > 8 * min(costs):
        axis.set_xscale("log")
        axis.set_xlim(min(costs) / 1.5, max(costs) * 1.5)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_xlim(0, 1.15 * max(costs))
        axis.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def interval_line(axis: Axes, at: float, estimate: Estimate, *, across: bool = False, colour: str = INK) -> None:
    """Draw the 95 % interval of an estimate as a thin line, vertical unless ``across``."""
    lines = axis.hlines if across else axis.vlines
    lines(at, estimate.low, estimate.high, colors=colour, linewidth=0.9, zorder=2.5)


def line_key(figure: Figure, lines: Sequence[tuple[str, str, str]]) -> None:
    """Draw one legend above all panels, in as many columns as fit: (label, colour, marker)."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, marker=marker, markersize=4) for _, colour, marker in lines]
    # Approximate points per entry and per character.
    columns = int(72 * PAPER_WIDTH / (36 + 5 * max(len(label) for label, _, _ in lines)))
    rows = ceil(len(lines) / max(1, min(columns, len(lines))))
    # matplotlib fills columns from top to bottom; avoid empty columns.
    columns = ceil(len(lines) / rows)
    legend = figure.legend(handles, ["" for _ in lines], loc="outside upper left", ncols=columns, borderpad=0)
    # Set afterwards, because matplotlib skips labels that start with an underscore.
    for text, (label, _, _) in zip(legend.get_texts(), lines, strict=True):
        text.set_text(label)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows)


def _bars(
    blocks: Sequence[tuple[str, Sequence[tuple[str, Any, str]]]], sign: str = ""
) -> tuple[Figure, Axes, list[Estimate]]:
    """Horizontal bars with their intervals, in blocks with headings: (label, estimate, colour) of each."""
    figure = new_figure(1)
    axis = figure.add_subplot()
    names: dict[float, str] = {}
    estimates: list[Estimate] = []
    y = 0.0
    for place, (heading, rows) in enumerate(blocks):
        y += 0.4 if place else 0
        if heading:
            bold: dict[str, Any] = {"va": "center_baseline", "fontsize": 8, "fontweight": "bold"}
            axis.text(0, y, heading, transform=axis.get_yaxis_transform(), **bold)
            y += 1
        for label, value, colour in rows:
            axis.barh(y, value.value, height=0.66, color=colour, linewidth=0)
            interval_line(axis, y, value, across=True)
            text, end = f"{100 * value.value:{sign}.1f}", (max(value.value, value.high), y)
            axis.annotate(text, end, (4, 0), textcoords="offset points", va="center_baseline", fontsize=8)
            names[y] = label
            estimates.append(value)
            y += 1
    axis.set_yticks(list(names), labels=list(names.values()))
    axis.set_ylim(y - 0.4, -0.6)  # row 0 is at the top
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    figure.set_figheight(0.6 + 0.25 * y)
    return figure, axis, estimates


def _notes(arms: Iterable[DrawnArm], estimates: Iterable[Estimate]) -> str:
    """The end of a caption: number of questions of the intervals, and meaning of a star."""
    counts = sorted({one.n for one in estimates})
    over = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    star = f" * {ORACLE}." if any(arm.scores.read_golds for arm in arms) else ""
    return f" Thin lines: 95 % intervals over {over} questions.{star}"


# Files

_NO_METADATA = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}
"""Metadata that would make files of equal figures differ."""


def write_figures(drawings: Sequence[Drawing], folder: Path, format: ImageFormat = "pdf") -> list[Path]:
    """Write each figure as a file ``NAME.FORMAT`` for papers, deterministically, after all are converted.

    ``pdf`` embeds fonts, ``svg`` has text as text, ``png`` has a white background. Returns the files in the order of
    the figures. UserError if the folder cannot be written.
    """
    files = {folder / f"{one.name}.{format}": file_bytes(one, format) for one in drawings}
    for path, data in files.items():
        write_file(path, data)
    return list(files)


def file_bytes(drawing: Drawing, form: ImageFormat) -> bytes:
    """The figure as a file, deterministically."""
    import matplotlib

    out = io.BytesIO()
    with style(), matplotlib.rc_context({"svg.hashsalt": drawing.name}):
        drawing.figure.savefig(
            out,
            format=form,
            dpi=200 if form == "png" else 72,
            facecolor="white" if form == "png" else "none",
            metadata=dict.fromkeys(_NO_METADATA[form]),
        )
    return out.getvalue()
