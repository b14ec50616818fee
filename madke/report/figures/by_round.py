"""How debates go: what is right, agreed and still open after each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from madke.report.figures.arms import DrawnArm, notes
from madke.report.figures.axes import interval_line, line_key, percent_axis
from madke.report.figures.style import COLOURS, MARKERS, Drawing, new_figure, one_line
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IN_A_ROW = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measure:
    value: str
    """Its name in ``Scores.by_round``."""
    name: str
    unit: str
    meaning: str


_AGREEMENT = (
    _Measure(value="accuracy", name="Accuracy", unit="%", meaning="the answer that most debaters hold is right"),
    _Measure(value="cons", name="Cons", unit="%", meaning="all hold the same by the task's matcher"),
    _Measure(value="co2", name="Co2", unit="%", meaning="the same, and right"),
)
_DISAGREEMENT = (
    _Measure(
        value="disagreement", name="Disagreement", unit="%", meaning="pairs of debaters whose answers do not match"
    ),
    _Measure(value="entropy", name="Entropy", unit="bits", meaning="of the answers, by the task's matcher"),
)


def agreement_by_round(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy of the majority, Cons and Co2 after each round."""
    return _by_round(arms, _AGREEMENT, name="agreement-by-round", title="Accuracy, Cons and Co2 by round")


def disagreement_by_round(arms: Sequence[DrawnArm]) -> Drawing | None:
    """How far the debaters are apart after each round: pairs that differ, and the entropy of their answers."""
    return _by_round(arms, _DISAGREEMENT, name="disagreement-by-round", title="Disagreement by round")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    label: str
    colour: str
    marker: str
    points: Mapping[int, Estimate]
    """Round -> the value after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    heading: str
    unit: str
    lines: Sequence[_Line]


def _by_round(arms: Sequence[DrawnArm], measures: Sequence[_Measure], *, name: str, title: str) -> Drawing | None:
    arms = [arm for arm in arms if any(_points(arm, measure) for measure in measures)]
    measures = [measure for measure in measures if any(len(_points(arm, measure)) > 1 for arm in arms)]
    if not measures:
        return None
    if len(arms) <= len(COLOURS):
        panels = [_of_measure(measure, arms) for measure in measures]
        columns, height = len(panels), 2.5
    else:
        # Too many lines for one panel. Each arm has its own, all with one scale.
        measures = [measure for measure in measures if measure.unit == measures[0].unit]
        panels = [_of_arm(arm, measures) for arm in arms]
        columns, height = _IN_A_ROW, 0.3 + 1.25 * ceil(len(panels) / _IN_A_ROW)
    figure = new_figure(height)
    rounds = max(max(line.points, default=1) for panel in panels for line in panel.lines)
    shares = [one for panel in panels if panel.unit == "%" for line in panel.lines for one in line.points.values()]
    for place, panel in enumerate(panels, start=1):
        axis = figure.add_subplot(ceil(len(panels) / columns), columns, place)
        axis.set_title(panel.heading, fontsize=9 if columns < _IN_A_ROW else 8)
        for number, line in enumerate(panel.lines):
            _draw(axis, line, shift=0.06 * (number - (len(panel.lines) - 1) / 2))
        axis.set_xticks(range(1, rounds + 1, 1 + rounds // 10))
        axis.set_xlim(0.6, rounds + 0.4)
        axis.tick_params(axis="x", labelbottom=place + columns > len(panels))
        if panel.unit == "%":
            percent_axis(axis, shares, which="y")
            axis.tick_params(axis="y", labelleft=place % columns == 1 or columns == 1)
        else:
            axis.set_ylim(bottom=0)
            axis.grid(True, axis="y")
    figure.supxlabel("Round", fontsize=9)
    keyed = {(line.label, line.colour, line.marker): None for panel in panels for line in panel.lines}
    if len(keyed) > 1:
        line_key(figure, list(keyed))
    meanings = "; ".join(f"{measure.name}: {measure.meaning}" for measure in measures)
    found = [one for panel in panels for line in panel.lines for one in line.points.values()]
    return Drawing(
        name=name,
        title=title,
        caption=f"After each round. {meanings}. Debates that have ended keep their last values.{notes(arms, found)}",
        figure=figure,
    )


def _points(arm: DrawnArm, measure: _Measure) -> dict[int, Estimate]:
    found = arm.scores.by_round.get(measure.value, ())
    return {n: one for n, one in enumerate(found, start=1) if one is not None}


def _of_measure(measure: _Measure, arms: Sequence[DrawnArm]) -> _Panel:
    lines = [_Line(label=arm.label, colour=arm.colour, marker=arm.marker, points=_points(arm, measure)) for arm in arms]
    return _Panel(heading=f"{measure.name} ({measure.unit})", unit=measure.unit, lines=lines)


def _of_arm(arm: DrawnArm, measures: Sequence[_Measure]) -> _Panel:
    lines = [
        _Line(label=f"{one.name} ({one.unit})", colour=colour, marker=marker, points=_points(arm, one))
        for one, colour, marker in zip(measures, COLOURS, MARKERS, strict=False)
    ]
    return _Panel(heading=one_line(arm.label, 21), unit=measures[0].unit, lines=lines)


def _draw(axis: Axes, line: _Line, *, shift: float) -> None:
    # Side by side within a round, so that intervals of different lines do not hide each other.
    xs = [n + shift for n in line.points]
    values = [one.value for one in line.points.values()]
    axis.plot(xs, values, marker=line.marker, color=line.colour, markersize=4, linewidth=1.3)
    for x, one in zip(xs, line.points.values(), strict=True):
        interval_line(axis, x, one, colour=line.colour)
