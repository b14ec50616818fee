"""How debates go: what is right, agreed and open after each round; what became of answers; how repeats differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from madke.core.transcript import Transcript
from madke.report.figures.canvas import (
    COLOURS,
    MARKERS,
    ON_COLOUR,
    Drawing,
    DrawnArm,
    interval_line,
    line_key,
    name_rows,
    new_figure,
    notes,
    one_line,
    patch_key,
    percent_axis,
    plot_line,
    rows_in_blocks,
)
from madke.scoring.debate_rows import correct
from madke.scoring.metrics import is_binary
from madke.scoring.rounds import round_rows
from madke.scoring.statistics import Estimate
from madke.tasks import get_task

if TYPE_CHECKING:
    pass


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
            shift = 0.06 * (number - (len(panel.lines) - 1) / 2)
            plot_line(axis, line.points, line.colour, line.marker, shift=shift)
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


FLIPS = ("stayed right", "corrected", "collapsed", "stayed wrong")
"""What can become of an answer between two moments of a debate."""

_FLIPS = {(1.0, 1.0): FLIPS[0], (0.0, 1.0): FLIPS[1], (1.0, 0.0): FLIPS[2], (0.0, 0.0): FLIPS[3]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Counts over the transcripts of one arm that have an outcome and gold answers."""

    between: Mapping[int, Mapping[str, int]]
    """Round n -> flip -> debates, of the majority's answer from round n to n + 1; those that went on."""
    overall: Mapping[str, int]
    """Flip -> debates, from the majority of round 1 to the final answer."""
    repeats: Mapping[int, tuple[float, int]]
    """Repeat -> mean of ``correct``, and over how many questions."""


def tally(transcripts: Iterable[Transcript]) -> Tally:
    """Count in one pass. Metrics that know more than right and wrong have no flips."""
    between: dict[int, Counter[str]] = {}
    overall: Counter[str] = Counter()
    repeats: dict[int, list[float]] = {}
    for transcript in transcripts:
        final = correct(transcript)
        if final is None:
            continue
        repeats.setdefault(transcript.repeat, []).append(final)
        if not is_binary(get_task(transcript.task).metrics[0]) or not transcript.rounds:
            continue
        held = [row["accuracy"] for row in round_rows(transcript)]
        overall[_FLIPS[held[0], final]] += 1
        for n, step in enumerate(pairwise(held), start=1):
            between.setdefault(n, Counter())[_FLIPS[step]] += 1
    return Tally(
        between=dict(sorted(between.items())),
        overall=overall,
        repeats={n: (sum(values) / len(values), len(values)) for n, values in sorted(repeats.items())},
    )


_FLIP_COLOURS = dict(zip(FLIPS, (COLOURS[2], COLOURS[5], COLOURS[1], COLOURS[6]), strict=True))

_MOST_ROWS = 36
"""With more, each arm has one row: from the first round to the final answer."""

_LEGIBLE = 0.045
"""Share from which on a segment has room for its figure."""


def flips(arms: Sequence[DrawnArm], tallies: Mapping[str, Tally]) -> Drawing | None:
    """Answers that stayed right, were corrected, collapsed or stayed wrong: a bar for each step between rounds."""
    steps: list[tuple[DrawnArm, dict[str, Mapping[str, int]]]] = []
    for arm in arms:
        counted = tallies.get(arm.results.name)
        if counted and counted.between:
            between = {f"round {n} to {n + 1}": flips for n, flips in counted.between.items()}
            steps.append((arm, {**between, "round 1 to the answer": counted.overall}))
    if not steps:
        return None
    if sum(len(rows) for _, rows in steps) <= _MOST_ROWS:
        blocks = [(arm.label, list(rows)) for arm, rows in steps]
        drawn = [list(rows.values()) for _, rows in steps]
    else:
        blocks = [("", [arm.label for arm, _ in steps])]
        drawn = [[rows["round 1 to the answer"] for _, rows in steps]]
    figure = new_figure(1)
    axis = figure.add_subplot()
    heights, rows_high = rows_in_blocks(axis, blocks)
    figure.set_figheight(0.5 + 0.22 * rows_high)
    for ys, counts in zip(heights, drawn, strict=True):
        for y, flips_of in zip(ys, counts, strict=True):
            n, start = sum(flips_of.values()), 0.0
            for flip in FLIPS:
                share = flips_of.get(flip, 0) / n
                axis.barh(y, share, left=start, height=0.74, color=_FLIP_COLOURS[flip], linewidth=0)
                if share >= _LEGIBLE:
                    axis.text(
                        start + share / 2,
                        y,
                        f"{100 * share:.0f}",
                        ha="center",
                        va="center_baseline",
                        fontsize=7,
                        color=ON_COLOUR,
                    )
                start += share
            axis.text(1.01, y, f"n = {n:,}", va="center_baseline", fontsize=8)
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.spines["bottom"].set_visible(False)
    patch_key(figure, _FLIP_COLOURS)
    return Drawing(
        name="flips",
        title="Flips between rounds",
        caption="In percent of the n debates that went on, what became of the answer that most debaters held; and from "
        "round 1 to the final answer, of all debates." + notes([arm for arm, _ in steps]),
        figure=figure,
    )


def accuracy_by_repeat(arms: Sequence[DrawnArm], tallies: Mapping[str, Tally]) -> Drawing | None:
    """A row for each arm with repeats: a dot for each, and their mean with its interval."""
    rows: list[tuple[DrawnArm, list[float], Estimate]] = []
    for arm in arms:
        counted = tallies.get(arm.results.name)
        if counted and len(counted.repeats) > 1 and arm.scores.correct is not None:
            rows.append((arm, [mean for mean, _ in counted.repeats.values()], arm.scores.correct))
    if not rows:
        return None
    figure = new_figure(0.7 + 0.3 * len(rows))
    axis = figure.add_subplot()
    for y, (arm, means, found) in enumerate(rows):
        interval_line(axis, y, found, across=True, colour=arm.colour)
        axis.plot([found.value] * 2, [y - 0.3, y + 0.3], color=arm.colour, linewidth=1.5)
        # Equal repeats lie on each other: the darker, the more.
        axis.plot(means, [y] * len(means), "o", color=arm.colour, alpha=0.5, markersize=5, markeredgewidth=0)
    name_rows(axis, {y: arm.label for y, (arm, _, _) in enumerate(rows)}, len(rows))
    ends = [Estimate(value=mean, low=mean, high=mean, n=found.n) for _, means, found in rows for mean in means]
    percent_axis(axis, [*ends, *(found for _, _, found in rows)], which="x")
    axis.set_xlabel("Accuracy (%)")
    shown = [arm for arm, _, _ in rows]
    return Drawing(
        name="accuracy-by-repeat",
        title="Accuracy by repeat",
        caption="A dot for each repeat of all questions; the upright line is their mean."
        + notes(shown, [found for _, _, found in rows]),
        figure=figure,
    )
