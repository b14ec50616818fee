"""Effective votes: how many independent opinions a set of answers to one question was worth."""

from collections.abc import Sequence
from typing import Any

from madke.core.transcript import Transcript
from madke.scoring.metrics import METRICS, metrics_of, question_of
from madke.scoring.statistics import BOOTSTRAP_SEED, RESAMPLES, RESAMPLES_AT_ONCE, Estimate
from madke.tasks import get_task

DIFFICULTY = (
    "Effective votes include the difficulty of the questions: answers agree also where a question is easy or hard for "
    "every model."
)
"""The sentence that stands wherever effective votes are shown."""


def effective_votes(votes: Sequence[Sequence[float]]) -> Estimate | None:
    """``n / (1 + (n - 1) ICC)``: the number of independent votes that would vary as much as these.

    ICC is the intraclass correlation of correctness, by one-way analysis of variance over questions (Shrout and Fleiss,
    1979, ICC(1)). With unequal numbers of votes, n is their mean, and the analysis uses Searle's average group size.

    Args:
        votes: For each question, the correctness of each vote, from 0 to 1. A missing answer is 0.

    Returns:
        The value, from 1 (all votes of a question always agree) to n (independent votes), with the 95 % percentile
        bootstrap interval over questions; None for fewer than two questions, without two votes on any, and where all
        votes are equal, because nothing varies.
    """
    import numpy

    held = [question for question in votes if question]
    if len(held) < 2 or max(map(len, held)) < 2:
        return None
    sizes = numpy.array([len(question) for question in held], dtype=float)
    sums = numpy.array([sum(question) for question in held])
    squares = numpy.array([sum(vote * vote for vote in question) for question in held])
    # Per question: all that a resample adds up.
    columns = numpy.stack([numpy.ones_like(sizes), sizes, sizes**2, sums, squares, sums**2 / sizes], axis=1)

    value = _of_sums(columns.sum(axis=0, keepdims=True))[0]
    if numpy.isnan(value):
        return None
    random = numpy.random.default_rng(BOOTSTRAP_SEED)
    even = numpy.full(len(held), 1 / len(held))
    resampled = [
        _of_sums(random.multinomial(len(held), even, RESAMPLES_AT_ONCE) @ columns)
        for _ in range(RESAMPLES // RESAMPLES_AT_ONCE)
    ]
    low, high = numpy.nanpercentile(numpy.concatenate(resampled), [2.5, 97.5])
    return Estimate(value=float(value), low=float(low), high=float(high), n=len(held))


def _of_sums(sums: Any) -> Any:
    """The effective votes of each row of summed columns; NaN where nothing varies."""
    import numpy

    questions, votes, squared_sizes, total, squares, between = sums.T
    with numpy.errstate(divide="ignore", invalid="ignore"):
        n = votes / questions
        mean_square_between = (between - total**2 / votes) / (questions - 1)
        mean_square_within = (squares - between) / (votes - questions)
        size = (votes - squared_sizes / votes) / (questions - 1)
        icc = (mean_square_between - mean_square_within) / (mean_square_between + (size - 1) * mean_square_within)
        # A negative correlation gives more than n, and one of less than -1 / (n - 1) a negative number.
        inflation = 1 + (n - 1) * icc
        found = numpy.where(inflation <= 0, n, n / inflation)
    return numpy.clip(found, 1, n)


def correct_votes(transcript: Transcript) -> list[float]:
    """1 or 0 for each vote for the final answer, by the task's first metric; a missing answer is 0.

    Empty if the answer was not found by a vote, without gold answers, and for a metric that is not binary. Samples of
    one vote can be drawn in several rounds. In a debate only the last round votes.
    """
    metric = METRICS[metrics_of(get_task(transcript.task))[0]]
    if transcript.final.rule not in ("votes", "tie") or not transcript.answers or not metric.binary:
        return []
    samples = all(turn.stance.stage == "speak" for entry in transcript.rounds for turn in entry.turns)
    turns = [turn for entry in (transcript.rounds if samples else transcript.rounds[-1:]) for turn in entry.turns]
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    question = question_of(transcript)
    return [0.0 if answer is None else metric(answer, question) for answer in answers]
