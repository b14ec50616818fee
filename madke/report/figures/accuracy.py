"""What answers cost: accuracy against tokens and calls, and which stages the tokens go to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from madke.engine.protocol import STAGES
from madke.report.figures.canvas import (
    COLOURS,
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
    thousands,
)
from madke.scoring.scores import Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    # Answers from elsewhere come without their cost.
    points = [(a, cost, a.scores.correct) for a, cost in zip(arms, costs, strict=True) if a.scores.correct and cost > 0]
    if len(points) < 2:
        return None
    shown, found = [arm for arm, _, _ in points], [value for _, _, value in points]
    figure = new_figure(3.6)
    axis = figure.add_subplot()
    for arm, cost, value in points:
        interval_line(axis, cost, value, colour=arm.colour)
        axis.plot(cost, value.value, arm.marker, color=arm.colour, zorder=3)
    percent_axis(axis, found, which="y")
    _cost_axis(axis, [cost for _, cost, _ in points])
    axis.set_ylabel("Accuracy (%)")
    axis.set_xlabel(f"{unit.capitalize()} per question")
    line_key(figure, [(arm.label, arm.colour, arm.marker) for arm in shown])
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

    if max(costs) > 8 * min(costs):  # too far apart for one linear scale
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
