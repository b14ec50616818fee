"""What debating did to answers that were right, and to those that were wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from madke.report.figures.arms import DrawnArm, notes
from madke.report.figures.axes import patch_key, rows_in_blocks
from madke.report.figures.style import COLOURS, ON_COLOUR, Drawing, new_figure
from madke.report.figures.tally import FLIPS, Tally

_COLOURS = dict(zip(FLIPS, (COLOURS[2], COLOURS[5], COLOURS[1], COLOURS[6]), strict=True))

_MOST_ROWS = 36
"""With more, each arm has one row: from the first round to the final answer."""

_LEGIBLE = 0.045
"""Share from which on a segment has room for its figure."""


def flips(arms: Sequence[DrawnArm], tallies: Mapping[str, Tally]) -> Drawing | None:
    """Answers that stayed right, were corrected, collapsed or stayed wrong: a bar for each step between rounds.

    Args:
        arms: Those with debates of more than one round are drawn.
        tallies: The counts of each, by its name.
    """
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
                axis.barh(y, share, left=start, height=0.74, color=_COLOURS[flip], linewidth=0)
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
    patch_key(figure, _COLOURS)
    return Drawing(
        name="flips",
        title="Flips between rounds",
        caption="In percent of the n debates that went on, what became of the answer that most debaters held; and from "
        "round 1 to the final answer, of all debates." + notes([arm for arm, _ in steps]),
        figure=figure,
    )
