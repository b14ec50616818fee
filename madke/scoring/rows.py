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

GRADER = "grader"
"""The name of a model's grades among what was said outside: right is 1, wrong is 0."""

Row = dict[str, float]
"""Name of a value -> the value."""

Datasets = Mapping[str, str | None]
"""Question id -> the dataset it belongs to; None, or not there, for one of no name."""

_AFTER_LAST = ("entropy", "log_likelihood", "disagreement")
"""What the last round left, so that arms can be compared by it."""

NO_SHARES = frozenset({"rounds", "selected_ids", "entropy", "log_likelihood"})
"""The values that are no shares: rounds, passages, bits, a logarithm."""

ONE_DATASET: Datasets = MappingProxyType({})

Rows = Mapping[str, Sequence[Row]]
"""Question id -> a row for each repeat that has an outcome, in the order of the transcripts."""

Said = Mapping[str, Mapping[tuple[str, int], float]]
"""Name of a scorer outside, or :data:`GRADER` -> (question id, repeat) -> what it said of that answer."""

NOTHING_SAID: Said = MappingProxyType({})

_BY_JUDGE = ("cons_judge", "co2_judge", "co2_judge_grader")
_SHARE = "share_"


def row(transcript: Transcript, rounds: Sequence[Row] | None = None) -> Row:
    """All values of one finished transcript. A name that is missing does not apply to it.

    Besides the metrics of its task: ``correct`` (the first of them); ``cons_judge``, ``co2_judge``, ``cons_matcher``
    and ``co2_matcher``; ``rounds``, where somebody counted: not of answers from elsewhere; ``entropy``,
    ``log_likelihood`` and ``disagreement`` after the last round (:func:`madke.scoring.rounds.round_rows`); and what
    :mod:`madke.scoring.outcomes`, :mod:`madke.scoring.selection` and :func:`madke.scoring.translations.diversity` name.

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
    if transcript.usage:
        values["rounds"] = float(len(transcript.rounds))
    values |= {name: rounds[-1][name] for name in _AFTER_LAST if name in rounds[-1]}
    if "correct" in values:
        values |= flips(transcript, values["correct"], rounds)
    return values | sides(transcript) | traps(transcript) | selection_values(transcript) | diversity(transcript)


def joined(values: Row, transcript: Transcript, said: Said) -> Row:
    """The row of a transcript with what was said of its answer outside.

    Beside a grade stand ``co2_judge_grader`` and ``co2_matcher_grader``, Wang et al.'s Co2 as they have it: agreed, and
    right by the GPT-4 score. Debaters who did not agree have 0 whatever the grade. Where they did and the answer has no
    grade, nobody knows it: there is no such value.
    """
    key = (transcript.id, transcript.repeat)
    found = values | {name: each[key] for name, each in said.items() if key in each}
    for by in ("judge", "matcher") if GRADER in said and "correct" in values else ():
        agreed = values.get(f"cons_{by}")
        if agreed == 0:
            found[f"co2_{by}_grader"] = 0.0
        elif agreed is not None and GRADER in found:
            found[f"co2_{by}_grader"] = agreed * found[GRADER]
    return found


def of_one_arm(rows: Sequence[Row]) -> list[Row]:
    """The rows of all finished transcripts of an arm, as its means and tests take them, in the same order.

    What the judge said stands in all of them or in none: one that is asked for some debates only
    (``agreement_then_judge``) says nothing about the others, and they are not like these. A source that a debate chose
    nothing from has a share of 0 there, if another debate of the arm did, so that shares add up to 1.
    """
    judged = all("cons_judge" in row for row in rows)
    sources = dict.fromkeys(name for row in rows for name in row if name.startswith(_SHARE))
    found = []
    for row in rows:
        none = dict.fromkeys(sources if sources.keys() & row.keys() else (), 0.0)
        found.append({name: value for name, value in (row | none | row).items() if judged or name not in _BY_JUDGE})
    return found


def over_questions(rows: Rows, name: str, datasets: Datasets = ONE_DATASET) -> Estimate | None:
    """The mean of one value over questions, repeats of each averaged first; None where no row holds it.

    Args:
        rows: Question id -> a row of named values for each repeat.
        name: Which of them.
        datasets: Where questions of several are pooled, the interval is clustered by dataset.
    """
    found = {id_: held for id_, repeats in rows.items() if (held := [row[name] for row in repeats if name in row])}
    return over_repeats(list(found.values()), [datasets.get(id_) for id_ in found], shares=name not in NO_SHARES)


def over_repeats(
    values: Sequence[Sequence[float]], clusters: Sequence[str | None] = (), *, shares: bool = True
) -> Estimate | None:
    """The mean over questions of the means of several values of each; None where there is no question.

    Args:
        values: For each question one value at least: its repeats'.
        clusters: As :func:`madke.scoring.statistics.estimate` takes them.
        shares: Whether values that are all 0 or 1 are a rate.
    """
    means = [sum(held) / len(held) for held in values]
    return estimate(means, clusters, rate=shares and all(value in (0.0, 1.0) for held in values for value in held))


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
