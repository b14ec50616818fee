"""What one debate is worth: a row of named values for each transcript, from which means and tests are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from madke.core.transcript import Transcript
from madke.scoring.metrics import METRICS, question_of
from madke.scoring.outcomes import flips, sides, traps
from madke.scoring.rounds import carried, round_rows
from madke.scoring.selection import selection_values
from madke.scoring.statistics import Estimate, estimate
from madke.scoring.translations import diversity
from madke.tasks import get_task

Row = dict[str, float]
"""Name of a value -> the value."""

Datasets = Mapping[str, str | None]
"""Question id -> the dataset it belongs to; None, or not there, for one of no name."""

_AFTER_LAST = ("entropy", "log_likelihood", "disagreement")
"""What the last round left, so that arms can be compared by it."""

ONE_DATASET: Datasets = MappingProxyType({})

Rows = Mapping[str, Sequence[Row]]
"""Question id -> a row for each repeat that has an outcome, in the order of the transcripts."""


def row(transcript: Transcript, rounds: Sequence[Row] | None = None) -> Row:
    """All values of one finished transcript. A name that is missing does not apply to it.

    Besides the metrics of its task: ``correct`` (the first of them); ``cons_judge``, ``co2_judge``, ``cons_matcher``
    and ``co2_matcher``; ``entropy``, ``log_likelihood`` and ``disagreement`` after the last round
    (:func:`madke.scoring.rounds.round_rows`); and what :mod:`madke.scoring.outcomes`, :mod:`madke.scoring.selection`
    and :func:`madke.scoring.translations.diversity` name.

    Args:
        transcript: One that has an outcome.
        rounds: Its :func:`~madke.scoring.rounds.round_rows`, where the caller has them already.
    """
    rounds = round_rows(transcript) if rounds is None else rounds
    task = get_task(transcript.task)
    values: Row = {}
    if transcript.answers:
        values = dict(zip(task.metrics, _metrics(transcript, task.metrics), strict=True))
        values["correct"] = values[task.metrics[0]]
    last = transcript.rounds[-1]
    consistent = {}
    # A judge who takes the answer itself (judge_extract) settles the debate; it was not asked for consensus.
    if last.verdict is not None and transcript.final.by != "judge":
        consistent["judge"] = float(bool(last.verdict.consensus))
    if "cons" in rounds[-1]:
        consistent["matcher"] = rounds[-1]["cons"]
    for by, value in consistent.items():
        values[f"cons_{by}"] = value
        if "correct" in values:
            values[f"co2_{by}"] = value * values["correct"]
    values |= {name: rounds[-1][name] for name in _AFTER_LAST if name in rounds[-1]}
    if "correct" in values:
        values |= flips(transcript, values["correct"], rounds)
    return values | sides(transcript) | traps(transcript) | selection_values(transcript) | diversity(transcript)


def over_questions(rows: Rows, name: str, datasets: Datasets = ONE_DATASET) -> Estimate | None:
    """The mean of one value over questions, repeats of each averaged first; None where no row holds it.

    Args:
        rows: Question id -> a row of named values for each repeat.
        name: Which of them.
        datasets: Where questions of several are pooled, the interval is clustered by dataset.
    """
    values, clusters = [], []
    for id_, repeats in rows.items():
        found = [row[name] for row in repeats if name in row]
        if found:
            values.append(sum(found) / len(found))
            clusters.append(datasets.get(id_))
    return estimate(values, clusters)


def over_rounds(
    debates: Mapping[str, Sequence[Sequence[Row]]], datasets: Datasets = ONE_DATASET
) -> dict[str, tuple[Estimate | None, ...]]:
    """The mean of each value after round 1, 2, ... of the longest debate; None where no debate has it in that round.

    A debate that has ended keeps its last values, so that a figure is over the same questions in all rounds. Changes
    between two rounds are not kept: they are over the debates that played both.

    Args:
        debates: Question id -> for each repeat, its rows by round (:func:`madke.scoring.rounds.round_rows`).
        datasets: As in :func:`over_questions`.
    """
    longest = max((len(rounds) for repeats in debates.values() for rounds in repeats), default=0)
    names = dict.fromkeys(name for repeats in debates.values() for rounds in repeats for row in rounds for name in row)
    found: dict[str, list[Estimate | None]] = {name: [] for name in names}
    for n in range(longest):
        rows = {id_: [_after(rounds, n) for rounds in repeats] for id_, repeats in debates.items()}
        for name, estimates in found.items():
            estimates.append(over_questions(rows, name, datasets))
    return {name: tuple(estimates) for name, estimates in found.items()}


def _after(rounds: Sequence[Row], n: int) -> Row:
    return rounds[n] if n < len(rounds) else carried(rounds[-1])


def correct(transcript: Transcript) -> float | None:
    """The first metric of the task on the final answer, 0 .. 1; None for a failed question or one without golds."""
    if transcript.status == "failed" or not transcript.answers:
        return None
    return _metrics(transcript, get_task(transcript.task).metrics[:1])[0]


def _metrics(transcript: Transcript, names: Sequence[str]) -> list[float]:
    """Metrics of the final answer; all 0 where there is none."""
    if transcript.answer is None:
        return [0.0] * len(names)
    question = question_of(transcript)
    return [METRICS[name](transcript.answer, question) for name in names]
