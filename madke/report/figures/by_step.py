"""What the gain of a debate consists of: retrieval, further calls over the same pool, and talk."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Literal, NamedTuple

from madke.engine.protocol import Protocol
from madke.report.figures import canvas
from madke.report.figures.canvas import COLOURS, Drawing, DrawnArm
from madke.scoring.paired import PairedTest, paired_test

Step = Literal["one agent", "retrieval", "further calls", "talk"]
STEPS: tuple[Step, ...] = ("one agent", "retrieval", "further calls", "talk")
"""What each kind of arm adds to the one before: one agent without knowledge; the same with a pool; several answers over
the same pool, of which a vote takes one; debaters who read each other."""

_MOST_ROWS = 24


class Gain(NamedTuple):
    """What one step adds: a paired comparison of two arms."""

    step: Step
    left: DrawnArm
    right: DrawnArm
    test: PairedTest
    by_repeat: tuple[float, ...]
    """The difference in each repeat that both arms have, over questions with all of them; empty for one repeat."""


def step_of(protocol: Protocol) -> Step | None:
    """Which step an arm stands for; None for other baselines (a debate or a vote without knowledge)."""
    alone = len(protocol.cast) == 1
    if alone and protocol.rounds > 1:
        return None
    if not protocol.sources:
        return "one agent" if alone else None
    if alone:
        return "retrieval"
    return "talk" if protocol.rounds > 1 else "further calls" if protocol.finish == "majority" else None


def gains(arms: Sequence[DrawnArm]) -> list[Gain]:
    """Each arm against each arm of the step before, for equal data, models and sources; in the order of the steps.

    Empty unless retrieval, further calls and talk are all there.
    """
    found: list[Gain] = []
    for step, members in ((pair, _chains(arms, *pair)) for pair in pairwise(STEPS)):
        for left, right in members:
            if test := paired_test(left.values, right.values, "correct"):
                found.append(Gain(step[1], left, right, test, _by_repeat(left, right)))
    return found if {"further calls", "talk"} <= {gain.step for gain in found} else []


def _chains(arms: Sequence[DrawnArm], before: Step, after: Step) -> list[tuple[DrawnArm, DrawnArm]]:
    kinds = [(arm, step_of(arm.config.protocol)) for arm in arms if arm.config]
    return [
        (left, right)
        for right, kind in kinds
        for left, other in kinds
        if kind == after and other == before and _alike(left, right, same_pool=before != "one agent")
    ]


def _alike(left: DrawnArm, right: DrawnArm, *, same_pool: bool) -> bool:
    one, other = left.config, right.config
    assert one is not None
    assert other is not None
    if (one.data, one.task, {*one.models.values()}) != (other.data, other.task, {*other.models.values()}):
        return False
    return not same_pool or one.protocol.sources == other.protocol.sources


def _by_repeat(left: DrawnArm, right: DrawnArm) -> tuple[float, ...]:
    one, other = (arm.values.values.get("correct", {}) for arm in (left, right))
    shared = [key for key in one if key in other]
    repeats = sorted({n for key in shared for n in one[key]} & {n for key in shared for n in other[key]})
    whole = [key for key in shared if all(n in one[key] and n in other[key] for n in repeats)]
    if len(repeats) < 2 or not whole:
        return ()
    return tuple(fmean(other[key][n] - one[key][n] for key in whole) for n in repeats)


def gain_by_step(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Paired differences: retrieval, then further calls over the same pool, then talk."""
    found = gains(arms)
    if not found or len(found) > _MOST_ROWS:
        return None
    by_step: Mapping[Step, list[Gain]] = {step: [each for each in found if each.step == step] for step in STEPS}
    blocks = [(step, held) for step, held in by_step.items() if held]
    figure = canvas.new_figure(1)
    axis = figure.add_subplot()
    rows = [(step.capitalize(), [f"{g.left.label} → {g.right.label}" for g in held]) for step, held in blocks]
    heights, rows_high = canvas.rows_in_blocks(axis, rows)
    figure.set_figheight(0.7 + 0.27 * rows_high)
    for ys, (step, held) in zip(heights, blocks, strict=True):
        colour = COLOURS[STEPS.index(step)]
        for y, gain in zip(ys, held, strict=True):
            difference = gain.test.difference
            axis.barh(y, difference.value, height=0.6, color=colour, linewidth=0)
            canvas.interval_line(axis, y, difference, across=True)
            axis.plot(gain.by_repeat, [y] * len(gain.by_repeat), "|", color=canvas.INK, markersize=7)
            text = f"{100 * difference.value:+.1f}"
            axis.text(1.01, y, text, transform=axis.get_yaxis_transform(), va="center_baseline", fontsize=8)
    axis.axvline(0, color=canvas.INK, linewidth=0.7)
    axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
    axis.grid(True, axis="x")
    axis.set_xlabel("Change of accuracy (points)")
    caption = (
        "What each step adds, paired by question: retrieval for one agent, further answers over the same pool with a "
        "vote, and debaters who read each other."
    )
    if any(gain.by_repeat for gain in found):
        caption += " Ticks: the difference in each repeat (seed)."
    differences = [gain.test.difference for gain in found]
    shown = [arm for gain in found for arm in (gain.left, gain.right)]
    return Drawing("gain-by-step", "What the gain consists of", caption + canvas.notes(shown, differences), figure)
