"""Figures of cost and of the course of debates: by tokens, calls, stage, round and repeat."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise

from madke.engine.protocol_parts import STAGES
from madke.report.figures import canvas
from madke.report.figures.canvas import COLOURS, Drawing, DrawnArm
from madke.scoring.arms import ArmValues
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate


def accuracy_by_tokens(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy against mean tokens per question, a point for each arm."""
    return _accuracy_by(arms, "tokens", [sum(_tokens(arm.scores).values()) for arm in arms])


def accuracy_by_output_tokens(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy against mean completion tokens per question, a point for each arm (Wang et al., Figure 10)."""
    costs = [arm.scores.total.completion_tokens / max(1, arm.scores.transcripts) for arm in arms]
    return _accuracy_by(arms, "output tokens", costs)


def accuracy_by_calls(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy against mean calls per question, a point for each arm."""
    return _accuracy_by(arms, "calls", [arm.scores.total.calls / max(1, arm.scores.transcripts) for arm in arms])


def _tokens(scores: Scores) -> dict[str, float]:
    """Stage -> prompt and completion tokens per question, for stages with usage."""
    return {stage: used.tokens / scores.transcripts for stage, used in scores.usage.items() if used.tokens}


def _accuracy_by(arms: Sequence[DrawnArm], unit: str, costs: Sequence[float]) -> Drawing | None:
    # Predictions from files have no cost.
    points = [(a, cost, a.scores.correct) for a, cost in zip(arms, costs, strict=True) if a.scores.correct and cost > 0]
    if len(points) < 2:
        return None
    shown, found = [arm for arm, _, _ in points], [value for _, _, value in points]
    figure = canvas.new_figure(3.6)
    axis = figure.add_subplot()
    for arm, cost, value in points:
        canvas.interval_line(axis, cost, value, colour=arm.colour)
        axis.plot(cost, value.value, arm.marker, color=arm.colour, zorder=3)
    canvas.percent_axis(axis, found)
    canvas.cost_axis(axis, [cost for _, cost, _ in points])
    axis.set_ylabel("Accuracy (%)")
    axis.set_xlabel(f"{unit.capitalize()} per question")
    canvas.line_key(figure, [(arm.label, arm.colour, arm.marker) for arm in shown])
    tokens = f"prompt and completion tokens{_estimated(shown)}"
    output = f"completion tokens of all stages{_estimated(shown)}"
    calls = "including replies that another arm paid for"
    which = {"tokens": tokens, "output tokens": output, "calls": calls}[unit]
    caption = f"Accuracy of the final answers against the mean {unit} of a debate ({which})."
    caption += canvas.notes(shown, found)
    return Drawing(f"accuracy-by-{unit.replace(' ', '-')}", f"Accuracy against {unit}", caption, figure)


def _estimated(arms: Sequence[DrawnArm]) -> str:
    return ", partly estimated" if any(arm.scores.total.estimated for arm in arms) else ""


def tokens_by_stage(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Mean tokens per question: a bar for each arm, a segment for each stage."""
    spent = [(arm, tokens) for arm in arms if (tokens := _tokens(arm.scores))]
    if not spent:
        return None
    took = dict.fromkeys(stage for _, tokens in spent for stage in tokens)
    # Stages outside STAGES are preparations before the first round.
    stages = [*(stage for stage in took if stage not in STAGES), *(stage for stage in STAGES if stage in took)]
    colours = dict(zip(stages, cycle(COLOURS), strict=False))
    figure = canvas.new_figure(0.6 + 0.27 * len(spent))
    axis = figure.add_subplot()
    longest = max(sum(tokens.values()) for _, tokens in spent)
    for row, (_, tokens) in enumerate(spent):
        start = 0.0
        for stage, colour in colours.items():
            axis.barh(row, tokens.get(stage, 0.0), left=start, height=0.66, color=colour, linewidth=0)
            start += tokens.get(stage, 0.0)
        axis.text(start + 0.01 * longest, row, canvas.thousands(start), va="center_baseline", fontsize=8)
    canvas.rows_in_blocks(axis, [("", [arm.label for arm, _ in spent])])
    axis.set_xlim(0, 1.1 * longest)
    axis.xaxis.set_major_formatter(canvas.thousands)
    axis.grid(True, axis="x")
    axis.set_xlabel("Prompt and completion tokens per question")
    canvas.patch_key(figure, {canvas.short_line(stage): colour for stage, colour in colours.items()})
    shown = [arm for arm, _ in spent]
    caption = f"Mean prompt and completion tokens of a debate{_estimated(shown)}, by stage."
    return Drawing("tokens-by-stage", "Tokens by stage", caption + canvas.notes(shown), figure)


# Name, unit, meaning, by the name in Scores.by_round.
_Measures = Mapping[str, tuple[str, str, str]]
_AGREEMENT: _Measures = {
    "accuracy": ("Accuracy", "%", "the most common answer is right"),
    "cons": ("Cons", "%", "all answers match"),
    "co2": ("Co2", "%", "all answers match and are right"),
}
_DISAGREEMENT: _Measures = {
    "disagreement": ("Disagreement", "%", "pairs of debaters whose answers do not match"),
    "entropy": ("Entropy", "bits", "of the answers, by the task's matcher"),
}


def agreement_by_round(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy of the majority, Cons and Co2 after each round."""
    return _by_round(arms, _AGREEMENT, "agreement-by-round", "Accuracy, Cons and Co2 by round")


def disagreement_by_round(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Disagreement after each round: pairs that differ, and the entropy of the answers."""
    return _by_round(arms, _DISAGREEMENT, "disagreement-by-round", "Disagreement by round")


def _by_round(arms: Sequence[DrawnArm], measures: _Measures, name: str, title: str) -> Drawing | None:
    arms = [arm for arm in arms if any(_points(arm, value) for value in measures)]
    drawn = [value for value in measures if any(len(_points(arm, value)) > 1 for arm in arms)]
    if not drawn:
        return None
    found = {value: [one for arm in arms for one in _points(arm, value).values()] for value in drawn}
    shares = [one for value in drawn if measures[value][1] == "%" for one in found[value]]
    rounds = max(max(_points(arm, value), default=1) for arm in arms for value in drawn)
    figure = canvas.new_figure(2.5)
    for place, value in enumerate(drawn, start=1):
        heading, unit, _ = measures[value]
        axis = figure.add_subplot(1, len(drawn), place)
        axis.set_title(f"{heading} ({unit})")
        for number, arm in enumerate(arms):
            shift = min(0.06, 0.5 / len(arms)) * (number - (len(arms) - 1) / 2)
            canvas.plot_line(axis, _points(arm, value), arm.colour, arm.marker, shift=shift)
        axis.set_xticks(range(1, rounds + 1, 1 + rounds // 10))
        axis.set_xlim(0.6, rounds + 0.4)
        if unit == "%":
            canvas.percent_axis(axis, shares)
            axis.tick_params(axis="y", labelleft=place == 1)
        else:
            axis.set_ylim(bottom=0)
            axis.grid(True, axis="y")
    figure.supxlabel("Round", fontsize=9)
    if len(arms) > 1:
        canvas.line_key(figure, [(arm.label, arm.colour, arm.marker) for arm in arms])
    meanings = "; ".join(f"{measures[value][0]}: {measures[value][2]}" for value in drawn)
    ends = canvas.notes(arms, [one for held in found.values() for one in held])
    caption = f"After each round. {meanings}. Debates that have ended keep their last values.{ends}"
    return Drawing(name, title, caption, figure)


def _points(arm: DrawnArm, value: str) -> dict[int, Estimate]:
    found = arm.scores.by_round.get(value, ())
    return {n: one for n, one in enumerate(found, start=1) if one is not None}


_CHANGES = {
    "right_to_wrong": "Right to wrong (%)",
    "right_to_none": "Right to unreadable (%)",
    "wrong_to_right": "Wrong to right (%)",
}


def minds_changed(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Which share of debaters give up a right or a wrong stance that they were given, a row for each arm."""
    found = {value: {id(arm): one for arm in arms if (one := arm.values.mean(value))} for value in _CHANGES}
    drawn = [arm for arm in arms if any(id(arm) in held for held in found.values())]
    if not drawn:
        return None
    figure = canvas.new_figure(0.9 + 0.25 * len(drawn))
    shares = [one for held in found.values() for one in held.values()]
    for place, (value, heading) in enumerate(_CHANGES.items(), start=1):
        axis = figure.add_subplot(1, len(_CHANGES), place)
        axis.set_title(heading)
        (heights,), _ = canvas.rows_in_blocks(axis, [("", [arm.label for arm in drawn])])
        axis.tick_params(axis="y", labelleft=place == 1)
        for y, arm in zip(heights, drawn, strict=True):
            if (one := found[value].get(id(arm))) is not None:
                axis.barh(y, one.value, height=0.66, color=arm.colour, linewidth=0)
                canvas.interval_line(axis, y, one, across=True)
        canvas.percent_axis(axis, shares, "x")
    caption = (
        "Who follows whom: of the debaters that were given a right stance, the share whose reply is wrong or cannot be "
        "read, and of those that were given a wrong one, the share whose reply is right; over questions with both."
    )
    return Drawing("changes-of-mind", "Given stances that are given up", caption + canvas.notes(drawn, shares), figure)


_OVERALL = "round 1 to the answer"

_FLIPS = {(1.0, 1.0): "stayed right", (0.0, 1.0): "corrected", (1.0, 0.0): "collapsed", (0.0, 0.0): "stayed wrong"}


def flip_counts(arm: ArmValues) -> dict[str, Counter[str]]:
    """Step -> flip -> number of finished debates with gold answers; empty without a second round.

    A step is from the majority's answer of one round to that of the next, or from round 1 to the final answer. Only
    binary metrics have flips.
    """
    between: defaultdict[int, Counter[str]] = defaultdict(Counter)
    overall: Counter[str] = Counter()
    for key, finals in arm.values.get("correct", {}).items():
        for final, rounds in zip(finals.values(), arm.rounds[key], strict=True):
            if not any("right" in row for row in rounds):
                continue
            held = [row["accuracy"] for row in rounds]
            overall[_FLIPS[held[0], final]] += 1
            for n, step in enumerate(pairwise(held), start=1):
                between[n][_FLIPS[step]] += 1
    steps = {f"round {n} to {n + 1}": between[n] for n in sorted(between)}
    return {**steps, _OVERALL: overall} if steps else {}


_FLIP_COLOURS = dict(zip(_FLIPS.values(), canvas.FLIP_COLOURS, strict=True))

_MOST_ROWS = 36
"""With more rows, each arm has only one: from the first round to the final answer."""


def flips(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Answers that stayed right, were corrected, collapsed or stayed wrong: a bar for each step between rounds."""
    steps = [(arm, found) for arm in arms if (found := flip_counts(arm.values))]
    if not steps:
        return None
    if sum(len(rows) for _, rows in steps) <= _MOST_ROWS:
        blocks = [(arm.label, list(rows)) for arm, rows in steps]
        drawn = [list(rows.values()) for _, rows in steps]
    else:
        blocks = [("", [arm.label for arm, _ in steps])]
        drawn = [[rows[_OVERALL] for _, rows in steps]]
    figure = canvas.new_figure(1)
    axis = figure.add_subplot()
    heights, rows_high = canvas.rows_in_blocks(axis, blocks)
    figure.set_figheight(0.5 + 0.22 * rows_high)
    for ys, counts in zip(heights, drawn, strict=True):
        for y, flips_of in zip(ys, counts, strict=True):
            n, start = sum(flips_of.values()), 0.0
            for flip, colour in _FLIP_COLOURS.items():
                share = flips_of.get(flip, 0) / n
                axis.barh(y, share, left=start, height=0.74, color=colour, linewidth=0)
                if share >= 0.045:  # else there is no room for the figure
                    said = axis.text(start + share / 2, y, f"{100 * share:.0f}", fontsize=7, color=canvas.ON_COLOUR)
                    said.set(ha="center", va="center_baseline")
                start += share
            axis.text(1.01, y, f"n = {n:,}", va="center_baseline", fontsize=8)
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.spines["bottom"].set_visible(False)
    canvas.patch_key(figure, _FLIP_COLOURS)
    caption = (
        "How the majority's answer changes between rounds, in percent of the n debates that continue, and from round 1 "
        "to the final answer, in percent of all debates."
    )
    return Drawing("flips", "Changed answers", caption + canvas.notes([arm for arm, _ in steps]), figure)
