"""Figures of the effect of one setting (sources, selection, debaters, rounds), over arms that differ only in it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Knowledge
from madke.report.figures import canvas
from madke.report.figures.canvas import COLOURS, Drawing, DrawnArm
from madke.runs.spec import RunSpec
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

Facts = Mapping[str, str]
"""Dotted path of a setting -> its value as text."""

_IGNORED = {"prompts_sha256", "sources", "source_specs", "pools", "searched", "repeats"}
"""Fields that follow from other settings or do not change the experiment."""

_NOT_SHOWN = ("questions", "first_round_sha256", "protocol.source")
"""Settings that distinguish arms but mean nothing to readers."""


def facts(config: RunSpec) -> dict[str, str]:
    """Every setting of an arm that is compared between arms."""
    found = dict(_flat("", config.model_dump(mode="json", exclude=_IGNORED | {"models"})))
    # The number of debaters must not count as a difference in models.
    names = {debater.name for debater in config.protocol.cast}
    if several := sorted({model for role, model in config.models.items() if role in names}):
        found["models.debaters"] = " + ".join(several)
    return found | {f"models.{role}": model for role, model in config.models.items() if role not in names}


def _flat(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, each in value.items() for pair in _flat(f"{path}.{key}" if path else key, each)]
    return [(path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def groups(arms: Sequence[DrawnArm], apart: Callable[[str], bool]) -> list[tuple[Facts, list[DrawnArm]]]:
    """Groups of arms that differ only in settings for which ``apart`` is true, each with the shared settings."""
    found: dict[tuple[tuple[str, str], ...], list[DrawnArm]] = {}
    for arm in arms:
        if arm.config is not None:
            shared = {path: value for path, value in facts(arm.config).items() if not apart(path)}
            found.setdefault(tuple(sorted(shared.items())), []).append(arm)
    return [(dict(shared), members) for shared, members in found.items()]


def headings(settings: Sequence[Facts]) -> list[str]:
    """One line for each list of settings: those in which the lists differ; empty if they do not differ."""
    paths = dict.fromkeys(path for one in settings for path in one if not path.startswith(_NOT_SHOWN))
    varied = [path for path in paths if len({one[path] for one in settings if path in one}) > 1]
    if any(_KNOWLEDGE in one for one in settings) and any(_SOURCES in one for one in settings):
        varied = [*(path for path in varied if path != _SOURCES), _SOURCES, _KNOWLEDGE]
    # One model of all roles is named once.
    texts = [", ".join(dict.fromkeys(_shown(path, one[path]) for path in varied if path in one)) for one in settings]
    return [canvas.short_line(text, 72) if text else "" for text in texts]


_KNOWLEDGE, _SOURCES = "protocol.knowledge", "protocol.knowledge.sources"
"""Path that is present without knowledge, and path that is present with knowledge."""


def _shown(path: str, value: str) -> str:
    if path in ("data", "variant", "task") or path.startswith("models."):
        return value.removesuffix(".jsonl")
    if path == _KNOWLEDGE:
        return "no knowledge"
    if path == _SOURCES:
        return " + ".join(json.loads(value))
    if path == "first_round_draw.order":
        return _ORDERS.get(value, value)
    if path == "protocol.debaters":
        return f"{value if value.isdecimal() else len(json.loads(value))} debaters"
    name = path.removeprefix("protocol.").removeprefix("knowledge.").replace(".", " ").replace("_", " ")
    return f"{value} {name}" if name == "rounds" else f"{name} {value}"


_ORDERS = {"correct_first": "right stances first", "incorrect_first": "wrong stances first"}

_BY_SOURCE = tuple(f"{_KNOWLEDGE}.{name}" for name in ("sources", "per_source.", "weights", "per_debater_sources"))
_BY_SELECTION = (f"{_KNOWLEDGE}.select", f"{_KNOWLEDGE}.max_selected")

_SELECTIONS = {"all": "whole pool", "one_each": "a passage each", "none": "pool not shown"}


_Bar = tuple[DrawnArm, str, Estimate]
"""An arm, its label and its accuracy."""
_Block = tuple[Facts, list[_Bar]]


def source_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by the sources of knowledge, for arms that differ only in them (Wang et al., Figure 4)."""
    informed = [arm for arm in arms if _knowledge(arm)]
    blocks: list[_Block] = []
    for shared, members in groups(informed, lambda path: path.startswith(_BY_SOURCE)):
        rest = _without_knowledge(members[0])
        # An arm without knowledge is the baseline of every selection.
        base = [arm for arm in arms if arm.config and not _knowledge(arm) and _without_knowledge(arm) == rest]
        named = [(arm, knowledge.sources) for arm in members if (knowledge := _knowledge(arm))]
        named = [*((arm, ("no knowledge",)) for arm in base), *sorted(named, key=lambda each: len(each[1]))]
        blocks.append((shared, _bars([(arm, " + ".join(sources)) for arm, sources in named])))
    caption = "Accuracy of the final answers with knowledge of different sources, all else equal."
    return _bar_figure(blocks, "source-ablation", "Sources of knowledge", caption)


def selection_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by how passages are selected, for arms that differ only in this (Wang et al., Figure 5)."""
    informed = [arm for arm in arms if _knowledge(arm)]
    found = groups(informed, lambda path: path.startswith(_BY_SELECTION))
    blocks = [(shared, _bars([(arm, _selection(arm)) for arm in members])) for shared, members in found]
    caption = "Accuracy of the final answers with different ways to select from one pool, all else equal."
    return _bar_figure(blocks, "selection-ablation", "Selection of knowledge", caption)


def _knowledge(arm: DrawnArm) -> Knowledge | None:
    return arm.config.protocol.knowledge if arm.config else None


def _selection(arm: DrawnArm) -> str:
    knowledge = _knowledge(arm)
    assert knowledge is not None
    return _SELECTIONS.get(knowledge.select, f"{knowledge.select}, at most {knowledge.max_selected}")


def _without_knowledge(arm: DrawnArm) -> Facts:
    assert arm.config is not None
    return {path: value for path, value in facts(arm.config).items() if not path.startswith(_KNOWLEDGE)}


def _bars(named: Sequence[tuple[DrawnArm, str]]) -> list[_Bar]:
    return [(arm, canvas.short_line(label), arm.scores.correct) for arm, label in named if arm.scores.correct]


def _bar_figure(blocks: Sequence[_Block], name: str, title: str, caption: str) -> Drawing | None:
    blocks = [(shared, bars) for shared, bars in blocks if len({label for _, label, _ in bars}) > 1]
    if not blocks:
        return None
    labels = list(dict.fromkeys(label for _, bars in blocks for _, label, _ in bars))
    texts = headings([shared for shared, _ in blocks])
    figure = canvas.new_figure(1)
    axis = figure.add_subplot()
    rows = [(heading, [label for _, label, _ in bars]) for heading, (_, bars) in zip(texts, blocks, strict=True)]
    heights, rows_high = canvas.rows_in_blocks(axis, rows)
    figure.set_figheight(0.6 + 0.25 * rows_high)
    for ys, (_, bars) in zip(heights, blocks, strict=True):
        for y, (_, label, found) in zip(ys, bars, strict=True):
            colour = COLOURS[labels.index(label) % len(COLOURS)]
            axis.barh(y, found.value, height=0.66, color=colour, linewidth=0)
            canvas.interval_line(axis, y, found, across=True)
            text, end = f"{100 * found.value:.1f}", (max(found.value, found.high), y)
            axis.annotate(text, end, (4, 0), textcoords="offset points", va="center_baseline", fontsize=8)
    shown = [(arm, found) for _, bars in blocks for arm, _, found in bars]
    canvas.percent_axis(axis, [found for _, found in shown], "x")
    axis.set_xlabel("Accuracy (%)")
    ends = canvas.notes([arm for arm, _ in shown], [found for _, found in shown])
    return Drawing(name, title, caption + ends, figure)


_MODELS = "models."
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s?([BM])(?![A-Za-z0-9])", re.IGNORECASE)


def model_size(config: RunSpec) -> float | None:
    """Parameters in billions, as the name of the arm's only model states them (``Qwen1.5-32B-Chat``); else None."""
    names = {*config.models.values()}
    found = {(float(number), unit.upper()) for name in names for number, unit in _SIZE.findall(name)}
    if len(names) != 1 or len(found) != 1:
        return None
    ((number, unit),) = found
    return number if unit == "B" else number / 1000


def size_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy over the size of the model, a line for each choice of sources (Wang et al., Figure 6)."""
    sized = [(arm, size) for arm in arms if arm.config and (size := model_size(arm.config)) and arm.scores.correct]
    sizes = sorted({size for _, size in sized})
    found = groups([arm for arm, _ in sized], lambda path: path.startswith(_MODELS))
    size_of = {id(arm): size for arm, size in sized}
    # Two models of the same size are not points of the same line.
    found = [each for each in found if len({size_of[id(arm)] for arm in each[1]}) == len(each[1]) > 1]
    if not found:
        return None
    figure = canvas.new_figure(3.2)
    axis = figure.add_subplot()
    shown = [arm for _, members in found for arm in members]
    values = _draw_lines(axis, found, lambda arm: sizes.index(size_of[id(arm)]), lambda scores: scores.correct)
    axis.set_xticks(range(len(sizes)), labels=[f"{size:g}B" if size >= 1 else f"{1000 * size:g}M" for size in sizes])
    axis.set_xlabel("Parameters of the model, as its name states them")
    axis.set_ylabel("Accuracy (%)")
    canvas.percent_axis(axis, values)
    _line_key(figure, found, unnamed="all arms")
    caption = "Accuracy of the final answers by the size of the model, all else equal; sizes are evenly spaced."
    return Drawing("accuracy-by-size", "Size of the model", caption + canvas.notes(shown, values), figure)


def agents_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the number of debaters (Wang et al., Figures 7 to 9)."""
    return _curves(arms, "protocol.debaters", lambda each: len(each.cast), "agents", "Number of debaters", "Debaters")


def rounds_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Rounds, Co2, Cons and accuracy over the maximum number of rounds (Wang et al., Figures 7 to 9)."""
    return _curves(arms, "protocol.rounds", lambda each: each.rounds, "rounds", "Number of rounds", "Maximum rounds")


def _panels(shown: Sequence[Scores]) -> list[tuple[str, Callable[[Scores], Estimate | None]]]:
    """Heading of each panel, and the score that it shows."""
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
        assert arm.config is not None
        return count(arm.config.protocol)

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
        drawn = _draw_lines(axis, found, number, value)
        axis.set_title(heading)
        axis.set_xlabel(axis_label)
        axis.set_xticks(sorted({number(arm) for arm in shown}))
        axis.grid(True, axis="y")
        if "%" in heading:
            canvas.percent_axis(axis, drawn)
            shares += drawn
        else:
            axis.set_ylim(0, 1.15 * max(one.high for one in drawn))
    if len(found) > 1:
        _line_key(figure, found)
    caption = "Arms that differ only in this number, one line per group."
    return Drawing(name, title, caption + canvas.notes(shown, shares), figure)


_READ = "first_round_draw.read"
_BY_STANCES = ("questions", "first_round.", _READ)
"""Settings in which arms of one order differ that read more or fewer of the same stances."""


def stances_curves(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Share of right replies over the number of stances read, a line for each order (Zhang et al., Figure 9)."""

    def read(arm: DrawnArm) -> int:
        assert arm.config is not None
        assert arm.config.first_round_draw is not None
        return arm.config.first_round_draw.read

    given = [arm for arm in arms if arm.config and arm.config.first_round_draw and _right_replies(arm.scores)]
    found = groups(given, lambda path: path.startswith(_BY_STANCES))
    found = [(shared, sorted(members, key=read)) for shared, members in found if len({*map(read, members)}) > 1]
    if not found:
        return None
    figure = canvas.new_figure(3.2)
    axis = figure.add_subplot()
    shown = [arm for _, members in found for arm in members]
    values = _draw_lines(axis, found, read, _right_replies, apart=0.2)
    axis.axhline(0.5, color=canvas.INK, linewidth=0.7, linestyle=":")
    for each in sorted(
        {arm.config.first_round_draw.each for arm in shown if arm.config and arm.config.first_round_draw}
    ):
        axis.axvline(each + 0.5, color=canvas.INK, linewidth=0.7, linestyle=":")
    axis.set_xlabel("Stances read")
    axis.set_ylabel("Right replies (%)")
    axis.grid(True, axis="y")
    canvas.percent_axis(axis, values)
    _line_key(figure, found, unnamed="all arms")
    caption = (
        "The share of debaters whose reply is right, by the number of stances that they read. Dotted lines: one half, "
        "and the number of stances of one kind, after which those of the other kind follow."
    )
    return Drawing("replies-by-stances", "Stances of the other kind", caption + canvas.notes(shown, values), figure)


def _right_replies(scores: Scores) -> Estimate | None:
    """The share of right answers after the second round, the first one with replies to others."""
    by_round = scores.by_round.get("right", ())
    return by_round[1] if len(by_round) > 1 else None


def _draw_lines(
    axis: Any,
    found: Sequence[tuple[Facts, Sequence[DrawnArm]]],
    place: Callable[[DrawnArm], int],
    value: Callable[[Scores], Estimate | None],
    *,
    apart: float = 0.05,
) -> list[Estimate]:
    """Draw a line for each group of arms, a little ``apart`` from each other; returns the values of all lines."""
    drawn: list[Estimate] = []
    for line, (_, members) in enumerate(found):
        points = {place(arm): one for arm in members if (one := value(arm.scores))}
        drawn += points.values()
        shift = apart * (line - (len(found) - 1) / 2)
        canvas.plot_line(axis, dict(sorted(points.items())), *_colour_and_marker(line), shift=shift)
    return drawn


def _line_key(figure: Any, found: Sequence[tuple[Facts, Sequence[DrawnArm]]], unnamed: str = "") -> None:
    """Say below the figure in which settings the groups differ. ``unnamed``: for one that differs in none."""
    texts = headings([shared for shared, _ in found])
    canvas.line_key(figure, [(label or unnamed, *_colour_and_marker(line)) for line, label in enumerate(texts)])


def _colour_and_marker(line: int) -> tuple[str, str]:
    return COLOURS[line % len(COLOURS)], canvas.MARKERS[line % len(canvas.MARKERS)]
