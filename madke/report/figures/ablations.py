"""What knowledge is worth: bars for arms that differ in their sources alone, or in how passages are selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from madke.engine.knowledge_rules import Knowledge
from madke.report.figures.arms import DrawnArm, notes
from madke.report.figures.axes import interval_line, percent_axis, rows_in_blocks
from madke.report.figures.settings import Facts, facts, groups, headings
from madke.report.figures.style import COLOURS, Drawing, new_figure, one_line
from madke.scoring.statistics import Estimate

_KNOWLEDGE = "protocol.knowledge"
_BY_SOURCE = tuple(f"{_KNOWLEDGE}.{name}" for name in ("sources", "per_source.", "weights", "per_debater_sources"))
_BY_SELECTION = (f"{_KNOWLEDGE}.select", f"{_KNOWLEDGE}.max_selected")

_SELECTIONS = {"all": "whole pool", "one_each": "a passage each", "none": "pool not shown"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bar:
    arm: DrawnArm
    label: str
    found: Estimate


_Block = tuple[Facts, list[_Bar]]


def source_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by the sources of knowledge, where arms differ in nothing else (Wang et al., Figure 4)."""
    informed = [arm for arm in arms if _knowledge(arm)]
    blocks: list[_Block] = []
    for shared, members in groups(informed, lambda path: path.startswith(_BY_SOURCE)):
        outside = _outside(members[0])
        # Without knowledge there is nothing to select, so one such arm is the baseline of every selection.
        alone = [arm for arm in arms if arm.results.config and not _knowledge(arm) and _outside(arm) == outside]
        members = sorted(members, key=lambda arm: len(_sources(arm)))
        blocks.append(
            (shared, _bars([(arm, " + ".join(_sources(arm)) or "no knowledge") for arm in [*alone, *members]]))
        )
    return _drawing(
        blocks,
        name="source-ablation",
        title="Sources of knowledge",
        caption="Accuracy of the final answers with knowledge of different sources, all else equal.",
    )


def selection_ablation(arms: Sequence[DrawnArm]) -> Drawing | None:
    """Accuracy by how passages are selected, where arms differ in nothing else (Wang et al., Figure 5)."""
    blocks: list[_Block] = []
    for shared, members in groups(
        [arm for arm in arms if _knowledge(arm)], lambda path: path.startswith(_BY_SELECTION)
    ):
        blocks.append((shared, _bars([(arm, _selection(arm)) for arm in members])))
    return _drawing(
        blocks,
        name="selection-ablation",
        title="Selection of knowledge",
        caption="Accuracy of the final answers with different ways to select from one pool, all else equal.",
    )


def _knowledge(arm: DrawnArm) -> Knowledge | None:
    return arm.results.config.protocol.knowledge if arm.results.config else None


def _sources(arm: DrawnArm) -> tuple[str, ...]:
    return arm.results.config.protocol.sources if arm.results.config else ()


def _selection(arm: DrawnArm) -> str:
    knowledge = _knowledge(arm)
    assert knowledge is not None
    return _SELECTIONS.get(knowledge.select, f"{knowledge.select}, {knowledge.max_selected} at most")


def _outside(arm: DrawnArm) -> Facts:
    """The settings that have nothing to do with knowledge."""
    assert arm.results.config is not None
    return {path: value for path, value in facts(arm.results.config).items() if not path.startswith(_KNOWLEDGE)}


def _bars(named: Sequence[tuple[DrawnArm, str]]) -> list[_Bar]:
    return [
        _Bar(arm=arm, label=one_line(label), found=arm.scores.correct) for arm, label in named if arm.scores.correct
    ]


def _drawing(blocks: Sequence[_Block], *, name: str, title: str, caption: str) -> Drawing | None:
    blocks = [(shared, bars) for shared, bars in blocks if len({bar.label for bar in bars}) > 1]
    if not blocks:
        return None
    labels = list(dict.fromkeys(bar.label for _, bars in blocks for bar in bars))
    told = headings([shared for shared, _ in blocks])
    figure = new_figure(1)
    axis = figure.add_subplot()
    rows = [(heading, [bar.label for bar in bars]) for heading, (_, bars) in zip(told, blocks, strict=True)]
    heights, rows_high = rows_in_blocks(axis, rows)
    figure.set_figheight(0.6 + 0.25 * rows_high)
    for ys, (_, bars) in zip(heights, blocks, strict=True):
        for y, bar in zip(ys, bars, strict=True):
            colour = COLOURS[labels.index(bar.label) % len(COLOURS)]
            axis.barh(y, bar.found.value, height=0.66, color=colour, linewidth=0)
            interval_line(axis, y, bar.found, across=True)
            said, end = f"{100 * bar.found.value:.1f}", (max(bar.found.value, bar.found.high), y)
            axis.annotate(said, end, (4, 0), textcoords="offset points", va="center_baseline", fontsize=8)
    shown = [bar for _, bars in blocks for bar in bars]
    percent_axis(axis, [bar.found for bar in shown], which="x", zero=True)
    axis.set_xlabel("Accuracy (%)")
    ends = notes([bar.arm for bar in shown], [bar.found for bar in shown])
    return Drawing(name=name, title=title, caption=caption + ends, figure=figure)
