"""What scores leave out and figures need: flips from round to round, and each repeat by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from madke.core.transcript import Transcript
from madke.scoring.metrics import RIGHT_OR_WRONG
from madke.scoring.rounds import round_rows
from madke.scoring.rows import correct
from madke.tasks import get_task

FLIPS = ("stayed right", "corrected", "collapsed", "stayed wrong")
"""What can become of an answer between two moments of a debate."""

_FLIPS = {(1.0, 1.0): FLIPS[0], (0.0, 1.0): FLIPS[1], (1.0, 0.0): FLIPS[2], (0.0, 0.0): FLIPS[3]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Counts over the transcripts of one arm that have an outcome and gold answers."""

    between: Mapping[int, Mapping[str, int]]
    """Round n -> flip -> debates, of the majority's answer from round n to n + 1; those that went on."""
    overall: Mapping[str, int]
    """Flip -> debates, from the majority of round 1 to the final answer."""
    repeats: Mapping[int, tuple[float, int]]
    """Repeat -> mean of ``correct``, and over how many questions."""


def tally(transcripts: Iterable[Transcript]) -> Tally:
    """Count in one pass. Metrics that know more than right and wrong have no flips."""
    between: dict[int, Counter[str]] = {}
    overall: Counter[str] = Counter()
    repeats: dict[int, list[float]] = {}
    for transcript in transcripts:
        final = correct(transcript)
        if final is None:
            continue
        repeats.setdefault(transcript.repeat, []).append(final)
        if get_task(transcript.task).metrics[0] not in RIGHT_OR_WRONG or not transcript.rounds:
            continue
        held = [row["accuracy"] for row in round_rows(transcript)]
        overall[_FLIPS[held[0], final]] += 1
        for n, step in enumerate(pairwise(held), start=1):
            between.setdefault(n, Counter())[_FLIPS[step]] += 1
    return Tally(
        between=dict(sorted(between.items())),
        overall=overall,
        repeats={n: (sum(values) / len(values), len(values)) for n, values in sorted(repeats.items())},
    )
