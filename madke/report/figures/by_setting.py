"""What one setting does: sources and selection of knowledge, debaters, rounds; over arms that differ in it alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from madke.engine.protocol import Knowledge, Protocol
from madke.report.figures import canvas
from madke.report.figures.canvas import COLOURS, Drawing, DrawnArm
from madke.runs.spec import RunSpec
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

Facts = Mapping[str, str]
"""Path of a setting, dots between its parts -> its value as text."""

_NO_SETTING = {"prompts_sha256", "sources", "source_specs", "pools", "searched", "repeats"}
"""What follows from other settings, or makes no other experiment."""

_UNREADABLE = ("questions", "first_round_sha256", "protocol.source")
"""Tells arms apart, and says nothing to people."""


def facts(config: RunSpec) -> dict[str, str]:
    """Every setting of an arm that two arms of one comparison share."""
    found = dict(_flat("", config.model_dump(mode="json", exclude=_NO_SETTING | {"models"})))
    # More debaters have more models, though all the same.
    names = {debater.name for debater in config.protocol.cast}
    for role, model in config.models.items():
        found.setdefault("models.debaters" if role in names else f"models.{role}", model)
    several = sorted({model for role, model in config.models.items() if role in names})
    if several:
        found["models.debaters"] = " + ".join(several)
    return found


def _flat(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, each in value.items() for pair in _flat(f"{path}.{key}" if path else key, each)]
    return [(path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def groups(arms: Sequence[DrawnArm], apart: Callable[[str], bool]) -> list[tuple[Facts, list[DrawnArm]]]:
    """Arms that share every setting but those that may differ: of each group what it shares, and its arms."""
    found: dict[tuple[tuple[str, str], ...], list[DrawnArm]] = {}
    for arm in arms:
        if arm.results.config is not None:
            shared = {path: value for path, value in facts(arm.results.config).items() if not apart(path)}
            found.setdefault(tuple(sorted(shared.items())), []).append(arm)
    return [(dict(shared), members) for shared, members in found.items()]


def headings(settings: Sequence[Facts]) -> list[str]:
    """What tells several lists of settings apart, on one line each; empty where nothing does."""
    paths = dict.fromkeys(path for one in settings for path in one if not path.startswith(_UNREADABLE))
    varied = [path for path in paths if len({one[path] for one in settings if path in one}) > 1]
    if any(_KNOWLEDGE in one for one in settings) and any(_SOURCES in one for one in settings):
        varied = [*(path for path in varied if path != _SOURCES), _SOURCES, _KNOWLEDGE]
    # Where all roles have one model, it is named once.
    told = [", ".join(dict.fromkeys(_told(path, one[path]) for path in varied if path in one)) for one in settings]
    return [canvas.one_line(text, 72) if text else "" for text in told]


_KNOWLEDGE, _SOURCES = "protocol.knowledge", "protocol.knowledge.sources"
"""The first is there where a debate has no knowledge, the second where it has some."""


def _told(path: str, value: str) -> str:
    if path in ("data", "variant", "task") or path.startswith("models."):
        return value.removesuffix(".jsonl")
    if path == _KNOWLEDGE:
        return "no knowledge"
    if path == _SOURCES:
        return " + ".join(json.loads(value))
    if path == "protocol.debaters":
        return f"{value if value.isdecimal() else len(json.loads(value))} debaters"
    name = path.removeprefix("protocol.").removeprefix("knowledge.").replace(".", " ").replace("_", " ")
    return f"{value} {name}" if name == "rounds" else f"{name} {value}"


_BY_SOURCE = tuple(f"{_KNOWLEDGE}.{name}" for name in ("sources", "per_source.", "weights", "per_debater_sources"))
_BY_SELECTION = (f"{_KNOWLEDGE}.select", f"{_KNOWLEDGE}.max_selected")

_SELECTIONS = {"all": "whole pool", "one_each": "a passage each", "none": "pool not shown"}


_Bar = tuple[DrawnArm, str, Estimate]
"""An arm, its label, and how much of it is correct."""
_Block = tuple[Facts, list[_Bar]]


def source_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by the sources of knowledge, where arms differ in nothing else (Wang et al., Figure 4)."""
    informed = [arm for arm in arms if _knowledge(arm)]
    blocks: list[_Block] = []
    for shared, members in groups(informed, lambda path: path.startswith(_BY_SOURCE)):
        outside = _outside(members[0])
        # Without knowledge there is nothing to select, so one such arm is the baseline of every selection.
        alone = [arm for arm in arms if arm.results.config and not _knowledge(arm) and _outside(arm) == outside]
        named = [(arm, knowledge.sources) for arm in members if (knowledge := _knowledge(arm))]
        named = [*((arm, ("no knowledge",)) for arm in alone), *sorted(named, key=lambda each: len(each[1]))]
        blocks.append((shared, _bars([(arm, " + ".join(sources)) for arm, sources in named])))
    caption = "Accuracy of the final answers with knowledge of different sources, all else equal."
    return _bars_drawn(blocks, "source-ablation", "Sources of knowledge", caption)


def selection_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by how passages are selected, where arms differ in nothing else (Wang et al., Figure 5)."""
    informed = [arm for arm in arms if _knowledge(arm)]
    found = groups(informed, lambda path: path.startswith(_BY_SELECTION))
    blocks = [(shared, _bars([(arm, _selection(arm)) for arm in members])) for shared, members in found]
    caption = "Accuracy of the final answers with different ways to select from one pool, all else equal."
    return _bars_drawn(blocks, "selection-ablation", "Selection of knowledge", caption)


def _knowledge(arm: DrawnArm) -> Knowledge | None:
    return arm.results.config.protocol.knowledge if arm.results.config else None


def _selection(arm: DrawnArm) -> str:
    knowledge = _knowledge(arm)
    assert knowledge is not None
    return _SELECTIONS.get(knowledge.select, f"{knowledge.select}, {knowledge.max_selected} at most")


def _outside(arm: DrawnArm) -> Facts:
    """The settings that have nothing to do with knowledge."""
    assert arm.results.config is not None
    return {path: value for path, value in facts(arm.results.config).items() if not path.startswith(_KNOWLEDGE)}


def _bars(named: Sequence[tuple[DrawnArm, str]]) -> list[_Bar]:
    return [(arm, canvas.one_line(label), arm.scores.correct) for arm, label in named if arm.scores.correct]


def _bars_drawn(blocks: Sequence[_Block], name: str, title: str, caption: str) -> Drawing | None:
    blocks = [(shared, bars) for shared, bars in blocks if len({label for _, label, _ in bars}) > 1]
    if not blocks:
        return None
    labels = list(dict.fromkeys(label for _, bars in blocks for _, label, _ in bars))
    told = headings([shared for shared, _ in blocks])
    figure = canvas.new_figure(1)
    axis = figure.add_subplot()
    rows = [(heading, [label for _, label, _ in bars]) for heading, (_, bars) in zip(told, blocks, strict=True)]
    heights, rows_high = canvas.rows_in_blocks(axis, rows)
    figure.set_figheight(0.6 + 0.25 * rows_high)
    for ys, (_, bars) in zip(heights, blocks, strict=True):
        for y, (_, label, found) in zip(ys, bars, strict=True):
            colour = COLOURS[labels.index(label) % len(COLOURS)]
            axis.barh(y, found.value, height=0.66, color=colour, linewidth=0)
            canvas.interval_line(axis, y, found, across=True)
            said, end = f"{100 * found.value:.1f}", (max(found.value, found.high), y)
            axis.annotate(said, end, (4, 0), textcoords="offset points", va="center_baseline", fontsize=8)
    shown = [(arm, found) for _, bars in blocks for arm, _, found in bars]
    canvas.percent_axis(axis, [found for _, found in shown], which="x", zero=True)
    axis.set_xlabel("Accuracy (%)")
    ends = canvas.notes([arm for arm, _ in shown], [found for _, found in shown])
    return Drawing(name, title, caption + ends, figure)


def agents_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the number of debaters (Wang et al., Figures 7 to 9)."""
    return _curves(arms, "protocol.debaters", lambda each: len(each.cast), "agents", "Number of debaters", "Debaters")


def rounds_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the most rounds that a debate may have (Wang et al., Figures 7 to 9)."""
    return _curves(arms, "protocol.rounds", lambda each: each.rounds, "rounds", "Number of rounds", "Most rounds")


def _panels(shown: Sequence[Scores]) -> list[tuple[str, Callable[[Scores], Estimate | None]]]:
    """Headings, and what they show of an arm."""
    judged = all(scores.cons_judge for scores in shown)
    by = "by the judge" if judged else "by the matcher"
    return [
        ("Accuracy (%)", lambda scores: scores.correct),
        (f"Co2, {by} (%)", lambda scores: scores.co2_judge if judged else scores.co2_matcher),
        (f"Cons, {by} (%)", lambda scores: scores.cons_judge if judged else scores.cons_matcher),
        ("Mean rounds", lambda scores: scores.mean_rounds),
    ]


def _curves(
    arms: Sequence[DrawnArm], setting: str, count: Callable[[Protocol], int], name: str, title: str, axis_label: str
) -> Drawing | None:
    def number(arm: DrawnArm) -> int:
        assert arm.results.config is not None
        return count(arm.results.config.protocol)

    found = groups(arms, lambda path: path == setting)
    found = [(shared, sorted(members, key=number)) for shared, members in found if len({*map(number, members)}) > 1]
    if not found:
        return None
    shown = [arm for _, members in found for arm in members]
    panels = [each for each in _panels([arm.scores for arm in shown]) if any(each[1](arm.scores) for arm in shown)]
    figure = canvas.new_figure(2.1 * ceil(len(panels) / 2) + 0.2)
    shares: list[Estimate] = []
    for place, (heading, value) in enumerate(panels, start=1):
        axis = figure.add_subplot(ceil(len(panels) / 2), 2, place)
        drawn: list[Estimate] = []
        for line, (_, members) in enumerate(found):
            points = {number(arm): one for arm in members if (one := value(arm.scores))}
            drawn += points.values()
            canvas.plot_line(axis, points, *_look(line), shift=0.05 * (line - (len(found) - 1) / 2))
        axis.set_title(heading)
        axis.set_xlabel(axis_label)
        axis.set_xticks(sorted({number(arm) for arm in shown}))
        axis.grid(True, axis="y")
        if "%" in heading:
            canvas.percent_axis(axis, drawn, which="y")
            shares += drawn
        else:
            axis.set_ylim(0, 1.15 * max(one.high for one in drawn))
    if len(found) > 1:
        told = headings([shared for shared, _ in found])
        canvas.line_key(figure, [(label, *_look(line)) for line, label in enumerate(told)])
    caption = "Arms that differ in this number alone, a line for each group of them."
    return Drawing(name, title, caption + canvas.notes(shown, shares), figure)


def _look(line: int) -> tuple[str, str]:
    return COLOURS[line % len(COLOURS)], canvas.MARKERS[line % len(canvas.MARKERS)]
