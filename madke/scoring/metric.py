"""What a metric is: a function of an answer and its question, and all that tables and docs say of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from madke.core.errors import UserError
from madke.core.question import Question

_ROUNDING = 1e-9

Score = Callable[[str, Question], float]
"""(answer, question) -> a number from 0 to 1. It is called only for questions with gold answers."""


@dataclass(frozen=True, slots=True)
class MetricExample:
    """What a metric gives for one answer; its test."""

    answer: str
    golds: tuple[str, ...]
    value: float
    task: str = "short_answer"
    choices: tuple[str, ...] = ()


Corpus = Callable[[Sequence[str], Sequence[Sequence[str]]], float]
"""(answers of a run, references of each) -> the value of the whole run, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named measure of an answer. Create one from a function with :func:`metric`."""

    name: str
    score: Score
    binary: bool = False
    """Whether every value is 0 or 1 (wrong or right)."""
    heading: str = ""
    """Short heading in tables; empty: the name."""
    explanation: str = ""
    """What it measures, in one sentence for readers of the report; empty: a general one."""
    definition: str = ""
    """Its line in ``docs/evaluation.md``; built-in metrics have one."""
    source: str = ""
    """The paper or program that it follows, for the same line."""
    corpus: Corpus | None = None
    """Its value of a whole run, if that is more than the mean over questions."""
    examples: tuple[MetricExample, ...] = ()

    def __call__(self, answer: str, question: Question) -> float:
        """The value of an answer in canonical form; UserError if the function fails or returns no such value."""
        try:
            value = float(self.score(answer, question))
        except Exception as error:  # of a user's function
            failed = f"metric {self.name!r} failed for question {question.id!r} and answer {answer!r}"
            raise UserError(f"{failed}: {type(error).__name__}: {error}") from error
        if not 0 <= value <= 1 + _ROUNDING or (self.binary and value not in (0, 1)):
            expected = "0 or 1" if self.binary else "a number from 0 to 1"
            raise UserError(f"metric {self.name!r} returned {value} for question {question.id!r}; expected {expected}")
        return min(value, 1.0)


def metric(name: str, *, binary: bool = False, heading: str = "", explanation: str = "") -> Callable[[Score], Metric]:
    """A decorator that turns a function ``(answer, question) -> float`` into a metric.

    ``binary``: every value is 0 or 1; intervals and tests are then those of rates. ``heading``: a short name for
    tables. ``explanation``: what it measures, in one sentence, for the report page.
    """
    return lambda score: Metric(name, score, binary=binary, heading=heading, explanation=explanation)
