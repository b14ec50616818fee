"""How much an arm's accuracy differs from repeat to repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from madke.report.figures.arms import DrawnArm, notes
from madke.report.figures.axes import interval_line, name_rows, percent_axis
from madke.report.figures.style import Drawing, new_figure
from madke.report.figures.tally import Tally
from madke.scoring.statistics import Estimate


def accuracy_by_repeat(arms: Sequence[DrawnArm], tallies: Mapping[str, Tally]) -> Drawing | None:
    """A row for each arm with repeats: a dot for each, and their mean with its interval.

    Args:
        arms: Those of which some have repeats.
        tallies: The counts of each, by its name.
    """
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
