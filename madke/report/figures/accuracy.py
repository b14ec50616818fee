"""What answers cost: accuracy against tokens and calls, and which stages the tokens go to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from madke.engine.protocol import STAGES
from madke.report.figures.canvas import (
    COLOURS,
    INK,
    Drawing,
    DrawnArm,
    interval_line,
    name_rows,
    new_figure,
    notes,
    one_line,
    patch_key,
    percent_axis,
    thousands,
)
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox


_ONE_SCALE = 8
"""Costs that lie further apart than by this factor stand on a logarithmic axis."""


def accuracy_by_tokens(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy against mean tokens per question, a point for each arm."""
    return _accuracy_by(arms, "tokens", [sum(_tokens(arm.scores).values()) for arm in arms])


def accuracy_by_calls(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy against mean calls per question, a point for each arm."""
    return _accuracy_by(arms, "calls", [arm.scores.total.calls / max(1, arm.scores.transcripts) for arm in arms])


def _tokens(scores: Scores) -> dict[str, float]:
    """Stage -> prompt and completion tokens per question; stages that took some."""
    return {
        stage: (used.prompt_tokens + used.completion_tokens) / scores.transcripts
        for stage, used in scores.usage.items()
        if used.prompt_tokens + used.completion_tokens
    }


def _accuracy_by(arms: Sequence[DrawnArm], unit: str, costs: Sequence[float]) -> Drawing | None:
    points: list[tuple[DrawnArm, float, Estimate]] = []
    for arm, cost in zip(arms, costs, strict=True):
        # Answers from elsewhere come without their cost.
        if arm.scores.correct is not None and cost > 0:
            points.append((arm, cost, arm.scores.correct))
    if len(points) < 2:
        return None
    shown, found = [arm for arm, _, _ in points], [value for _, _, value in points]
    figure = new_figure(3.6 + 0.1 * max(0, len(points) - 8))
    axis = figure.add_subplot()
    for arm, cost, value in points:
        interval_line(axis, cost, value, colour=arm.colour)
        axis.plot(cost, value.value, arm.marker, color=arm.colour, zorder=3)
    percent_axis(axis, found, which="y")
    _cost_axis(axis, [cost for _, cost, _ in points])
    axis.set_ylabel("Accuracy (%)")
    axis.set_xlabel(f"{unit.capitalize()} per question")
    label_points(axis, [(cost, value, arm.label) for arm, cost, value in points])
    which = {
        "tokens": f"prompt and completion tokens{_estimated(shown)}",
        "calls": "replies that another arm paid for included",
    }
    return Drawing(
        name=f"accuracy-by-{unit}",
        title=f"Accuracy against {unit}",
        caption=f"Accuracy of the final answers against the mean {unit} of a debate ({which[unit]})."
        + notes(shown, found),
        figure=figure,
    )


def _cost_axis(axis: Axes, costs: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    if max(costs) > _ONE_SCALE * min(costs):
        axis.set_xscale("log")
        axis.set_xlim(min(costs) / 1.5, max(costs) * 1.5)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_xlim(0, 1.15 * max(costs))
        axis.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(FuncFormatter(thousands))


def _estimated(arms: Sequence[DrawnArm]) -> str:
    return ", some of them estimated" if any(arm.scores.total.estimated for arm in arms) else ""


def tokens_by_stage(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Mean tokens per question: a bar for each arm, a segment for each stage."""
    from matplotlib.ticker import FuncFormatter

    spent = [(arm, tokens) for arm in arms if (tokens := _tokens(arm.scores))]
    if not spent:
        return None
    stages = _stages([tokens for _, tokens in spent])
    figure = new_figure(0.6 + 0.27 * len(spent))
    axis = figure.add_subplot()
    longest = max(sum(tokens.values()) for _, tokens in spent)
    for row, (_, tokens) in enumerate(spent):
        start = 0.0
        for colour, members in zip(COLOURS, stages.values(), strict=False):
            width = sum(tokens.get(stage, 0.0) for stage in members)
            axis.barh(row, width, left=start, height=0.66, color=colour, linewidth=0)
            start += width
        axis.text(start + 0.01 * longest, row, thousands(start), va="center_baseline", fontsize=8)
    name_rows(axis, {row: arm.label for row, (arm, _) in enumerate(spent)}, len(spent))
    axis.set_xlim(0, 1.1 * longest)
    axis.xaxis.set_major_formatter(FuncFormatter(thousands))
    axis.grid(True, axis="x")
    axis.set_xlabel("Prompt and completion tokens per question")
    patch_key(figure, dict(zip(stages, COLOURS, strict=False)))
    shown = [arm for arm, _ in spent]
    return Drawing(
        name="tokens-by-stage",
        title="Tokens by stage",
        caption=f"Mean prompt and completion tokens of a debate{_estimated(shown)}, by what they were spent on."
        + notes(shown),
        figure=figure,
    )


def _stages(spent: Sequence[dict[str, float]]) -> dict[str, tuple[str, ...]]:
    """Label -> the stages it stands for, in their order; where colours are too few, the cheapest share the last."""
    total: Counter[str] = Counter()
    for tokens in spent:
        total.update(tokens)
    most = len(COLOURS) if len(total) <= len(COLOURS) else len(COLOURS) - 1
    dear = {stage for stage, _ in total.most_common(most)}
    # Stages that a variant names itself are what debaters prepare before the first round.
    in_order = [*(stage for stage in total if stage not in STAGES), *(stage for stage in STAGES if stage in total)]
    stages: dict[str, tuple[str, ...]] = {one_line(stage): (stage,) for stage in in_order if stage in dear}
    others = tuple(stage for stage in in_order if stage not in dear)
    return {**stages, "other stages": others} if others else stages


_SIZE = 8
_DIRECTIONS = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1))
_DISTANCES = (6, 10, 18, 28, 40, 54, 70)
"""Points between a point and its label, across and upwards."""
_FAR = 12
"""From this distance on a line leads to the label."""


def label_points(axis: Axes, points: Sequence[tuple[float, Estimate, str]]) -> None:
    """Label each point of a panel.

    The panel must be finished; the layout of its figure stays as it is.
    """
    from matplotlib.transforms import Bbox

    figure = axis.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    taken = []
    for x, found, _ in points:
        (across, low), (_, middle), (_, high) = axis.transData.transform(
            [(x, found.low), (x, found.value), (x, found.high)]
        )
        taken.append(Bbox.from_extents(across - 3, low, across + 3, high))
        taken.append(Bbox.from_extents(across - 5, middle - 5, across + 5, middle + 5))
    panel = axis.get_window_extent()
    room = Bbox.from_extents(panel.x0 + 2, panel.y0 + 2, figure.bbox.x1 - 2, panel.y1 + 6)
    for x, found, label in points:
        text = axis.annotate(label, (x, found.value), (0, 0), textcoords="offset points", fontsize=_SIZE)
        text.set_in_layout(False)
        size = text.get_window_extent()
        across, middle = axis.transData.transform((x, found.value))
        places = []
        for distance, (right, up) in product(_DISTANCES, _DIRECTIONS):
            box = _beside(across, middle, size, right * distance, up * distance)
            hidden = sum(_shared(box, other) for other in taken)
            outside = box.width * box.height - _shared(box, room)
            places.append((2 * hidden + 4 * outside + 1.5 * distance, distance, right, up, box))
        _, distance, right, up, box = min(places, key=lambda place: place[0])
        text.remove()
        axis.annotate(
            label,
            (x, found.value),
            (right * distance, up * distance),
            textcoords="offset points",
            fontsize=_SIZE,
            ha=("center", "left", "right")[right],
            va=("center", "bottom", "top")[up],
            arrowprops={"arrowstyle": "-", "color": INK, "alpha": 0.4, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
            if distance >= _FAR
            else None,
        ).set_in_layout(False)
        taken.append(box)


def _beside(x: float, y: float, size: Bbox, right: float, up: float) -> Bbox:
    """Where a text of a size stands whose nearest edge or corner is so far from a point; centred for 0."""
    from matplotlib.transforms import Bbox

    left = x + right - (0 if right > 0 else size.width if right < 0 else size.width / 2)
    bottom = y + up - (0 if up > 0 else size.height if up < 0 else size.height / 2)
    return Bbox.from_bounds(left, bottom, size.width, size.height)


def _shared(one: Bbox, other: Bbox) -> float:
    """The area that two boxes share."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(0.0, width) * max(0.0, height))
