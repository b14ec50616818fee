"""The arms of a report as every figure shows them: a short name, a colour and a marker that stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from madke.report.figures.style import COLOURS, MARKERS, one_line
from madke.report.text import ORACLE
from madke.runs.results import Results
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnArm:
    """One arm: what there is to draw of it, and how."""

    results: Results
    scores: Scores
    label: str
    """Its name on one short line, as no other arm has it; with a star where debates read the gold answers."""
    colour: str
    marker: str


def arms_of(results: Sequence[Results], scores: Mapping[str, Scores]) -> list[DrawnArm]:
    """The arms, in order.

    Args:
        results: Where settings and transcripts come from.
        scores: The scores of each, by its name.
    """
    labels = _distinct(one_line(one.name) for one in results)
    return [
        DrawnArm(
            results=one,
            scores=scores[one.name],
            label=f"{label}*" if scores[one.name].read_golds else label,
            colour=COLOURS[n % len(COLOURS)],
            marker=MARKERS[n % len(MARKERS)],
        )
        for n, (one, label) in enumerate(zip(results, labels, strict=True))
    ]


def _distinct(labels: Iterable[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for label in labels:
        seen[label] += 1
        yield f"{label} ({seen[label]})" if seen[label] > 1 else label


def notes(arms: Iterable[DrawnArm], found: Iterable[Estimate] = ()) -> str:
    """The end of a caption: over how many questions the intervals are, and what a star means."""
    counts = sorted({one.n for one in found})
    said = ""
    if counts:
        over = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        said = f" Thin lines: 95 % intervals over {over} questions."
    return f"{said} * {ORACLE}." if any(arm.scores.read_golds for arm in arms) else said
