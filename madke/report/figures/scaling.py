"""What more debaters, or more rounds, are worth: curves over arms that differ in that number alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from madke.engine.protocol import Protocol
from madke.report.figures.arms import DrawnArm, notes
from madke.report.figures.axes import interval_line, line_key, percent_axis
from madke.report.figures.settings import groups, headings
from madke.report.figures.style import COLOURS, MARKERS, Drawing, new_figure
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def agents_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the number of debaters (Wang et al., Figures 7 to 9)."""
    return _curves(
        arms,
        setting="protocol.debaters",
        count=lambda protocol: len(protocol.cast),
        name="agents",
        title="Number of debaters",
        axis_label="Debaters",
    )


def rounds_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the most rounds that a debate may have (Wang et al., Figures 7 to 9)."""
    return _curves(
        arms,
        setting="protocol.rounds",
        count=lambda protocol: protocol.rounds,
        name="rounds",
        title="Number of rounds",
        axis_label="Most rounds",
    )


_Panel = tuple[str, Callable[[Scores], Estimate | None]]
"""Its heading, and what it shows of an arm."""


def _panels(shown: Sequence[Scores]) -> list[_Panel]:
    judged = all(scores.cons_judge for scores in shown)
    by = "by the judge" if judged else "by the matcher"
    return [
        ("Accuracy (%)", lambda scores: scores.correct),
        (f"Co2, {by} (%)", lambda scores: scores.co2_judge if judged else scores.co2_matcher),
        (f"Cons, {by} (%)", lambda scores: scores.cons_judge if judged else scores.cons_matcher),
        ("Mean rounds", lambda scores: scores.mean_rounds),
    ]


def _curves(
    arms: Sequence[DrawnArm], *, setting: str, count: Callable[[Protocol], int], name: str, title: str, axis_label: str
) -> Drawing | None:
    def number(arm: DrawnArm) -> int:
        assert arm.results.config is not None
        return count(arm.results.config.protocol)

    found = groups(arms, lambda path: path == setting)
    found = [(shared, sorted(members, key=number)) for shared, members in found if len({*map(number, members)}) > 1]
    if not found:
        return None
    shown = [arm for _, members in found for arm in members]
    panels = [
        (said, value)
        for said, value in _panels([arm.scores for arm in shown])
        if any(value(arm.scores) for arm in shown)
    ]
    figure = new_figure(2.1 * ceil(len(panels) / 2) + 0.2)
    shares: list[Estimate] = []
    for place, (heading, value) in enumerate(panels, start=1):
        axis = figure.add_subplot(ceil(len(panels) / 2), 2, place)
        drawn: list[Estimate] = []
        for line, (_, members) in enumerate(found):
            points = [(number(arm), one) for arm in members if (one := value(arm.scores))]
            drawn += [one for _, one in points]
            _draw(axis, points, line, shift=line - (len(found) - 1) / 2)
        axis.set_title(heading)
        axis.set_xlabel(axis_label)
        axis.set_xticks(sorted({number(arm) for arm in shown}))
        axis.grid(True, axis="y")
        if "%" in heading:
            percent_axis(axis, drawn, which="y")
            shares += drawn
        else:
            axis.set_ylim(0, 1.15 * max(one.high for one in drawn))
    if len(found) > 1:
        told = headings([shared for shared, _ in found])
        line_key(figure, [(label, *_look(line)) for line, label in enumerate(told)])
    return Drawing(
        name=name,
        title=title,
        caption="Arms that differ in this number alone, a line for each group of them." + notes(shown, shares),
        figure=figure,
    )


def _draw(axis: Axes, points: Sequence[tuple[int, Estimate]], line: int, *, shift: float) -> None:
    # Side by side, so that intervals of different lines do not hide each other.
    xs = [x + 0.05 * shift for x, _ in points]
    colour, marker = _look(line)
    axis.plot(xs, [one.value for _, one in points], marker=marker, color=colour, markersize=4, linewidth=1.3)
    for x, (_, one) in zip(xs, points, strict=True):
        interval_line(axis, x, one, colour=colour)


def _look(line: int) -> tuple[str, str]:
    return COLOURS[line % len(COLOURS)], MARKERS[line % len(MARKERS)]
