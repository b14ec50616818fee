"""Metrics of one answer against its gold answers, from 0 to 1. With several golds the best one counts."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.registry import Registry
from madke.core.transcript import Transcript
from madke.tasks import BaseTask, get_task
from madke.tasks.answer_text import squad_normalize

_ROUNDING = 1e-9

Score = Callable[[str, Question], float]
"""(answer, question) -> a number from 0 to 1. It is called only for questions with gold answers."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named measure of an answer. Create one from a function with :func:`metric`."""

    name: str
    score: Score
    binary: bool = False
    """Whether every value is 0 or 1 (wrong or right)."""

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


def metric(name: str, *, binary: bool = False) -> Callable[[Score], Metric]:
    """A decorator that turns a function ``(answer, question) -> float`` into a metric.

    ``binary``: every value is 0 or 1; intervals and tests are then those of rates.
    """
    return lambda score: Metric(name, score, binary=binary)


_YES_NO = ("yes", "no", "noanswer")
_YES_NO_DATASETS = ("hotpotqa", "2wikimultihopqa")


_TRUTH = {"true": "yes", "false": "no"}
_WHOLE = re.compile(r"(\s*[-+]?\d[\d,]*)\.0+\s*")


def _normal_golds(question: Question) -> Iterator[str]:
    """The golds after SQuAD normalisation, and the usual spelling of those that only a program writes.

    Tables of programs hold True for yes and 8.0 for 8.
    """
    for gold in question.answers:
        normal = squad_normalize(gold)
        yield normal
        if normal in _TRUTH:
            yield _TRUTH[normal]
        if whole := _WHOLE.fullmatch(gold):
            yield squad_normalize(whole[1])


def exact_match(answer: str, question: Question) -> float:
    """1 if the answer equals a gold after SQuAD normalisation (Rajpurkar et al., 2016).

    A gold ``true`` (``false``) is also yes (no), and a gold ``8.0`` is also 8.
    """
    return float(squad_normalize(answer) in _normal_golds(question))


def token_f1(answer: str, question: Question) -> float:
    """F1 of the token multisets after the normalisation of :func:`exact_match`, over the best gold.

    For HotpotQA and 2WikiMultiHopQA (by ``metadata["dataset"]``) an answer or gold of yes, no or noanswer scores
    only when both are equal, as in HotpotQA's official script (Yang et al., 2018).
    """
    strict = question.metadata.get("dataset") in _YES_NO_DATASETS
    return max((_f1(squad_normalize(answer), gold, strict) for gold in _normal_golds(question)), default=0.0)


def _f1(answer: str, gold: str, strict: bool) -> float:
    if strict and answer != gold and (answer in _YES_NO or gold in _YES_NO):
        return 0.0
    answer_tokens, gold_tokens = answer.split(), gold.split()
    shared = sum((Counter(answer_tokens) & Counter(gold_tokens)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(answer_tokens), shared / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def accepted(answer: str, question: Question) -> float:
    """1 if the question's task accepts the answer.

    This is label accuracy for claims, letter accuracy for choices, equivalence for mathematics, and the matcher for
    short answers (``eval/matcher.md`` compares it with human judgements).
    """
    return float(get_task(question.task).accepts(answer, question))


def chrf(answer: str, question: Question) -> float:
    """Sentence-level chrF (Popovic, 2015) as sacrebleu computes it: character 6-grams, beta 2, the best reference."""
    from sacrebleu import sentence_chrf

    return float(sentence_chrf(answer, list(question.answers)).score) / 100 if question.answers else 0.0


def bleu(answer: str, question: Question) -> float:
    """:func:`sentence_bleu` against all gold answers together."""
    return sentence_bleu(answer, question.answers)


def sentence_bleu(answer: str, references: Sequence[str]) -> float:
    """Sentence-level BLEU (Papineni et al., 2002) as sacrebleu computes it, over all references together.

    Default tokens (13a), exponential smoothing, effective order (no n-grams longer than the answer).
    """
    import sacrebleu

    if not references:
        return 0.0
    # Floating point gives 100.00000000000004 for a perfect one.
    return min(float(sacrebleu.sentence_bleu(answer, list(references), use_effective_order=True).score) / 100, 1.0)


def _metric_of(name: str, value: Any) -> Metric:
    if not callable(value):
        raise UserError(f"metric {name!r} is {type(value).__name__}; expected a function of answer and question")
    return value if isinstance(value, Metric) else Metric(name, value, binary=getattr(value, "binary", False))


_BUILT_IN: dict[str, Score] = {
    "em": exact_match,
    "f1": token_f1,
    "match": accepted,
    "label_accuracy": accepted,
    "choice_accuracy": accepted,
    "math_equivalence": accepted,
    "chrf": chrf,
    "bleu": bleu,
}
_NOT_BINARY = ("f1", "chrf", "bleu")

METRICS: Registry[Metric] = Registry(
    "metric",
    {name: Metric(name, score, binary=name not in _NOT_BINARY) for name, score in _BUILT_IN.items()},
    "madke.metrics",
    adapt=_metric_of,
)
"""Every metric by its name in tasks and reports, including plug-ins and ``module:object``."""


def metrics_of(task: BaseTask) -> tuple[str, ...]:
    """The names of a task's metrics in scores; UserError if one is unknown or has the name of a built-in one."""
    return tuple(_named(each) for each in task.metrics)


def _named(value: Any) -> str:
    if isinstance(value, str) and value in _BUILT_IN:
        return value
    found = value if isinstance(value, Metric) else METRICS[METRICS.name_of(value)]
    return METRICS.add(found.name, found).name


def is_binary(name: str) -> bool:
    """Whether the metric of this name is binary (0 or 1)."""
    return name in METRICS and METRICS[name].binary


def question_of(transcript: Transcript) -> Question:
    """The question of a transcript."""
    return Question(**{each.name: getattr(transcript, each.name) for each in fields(Question)})


def listed(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts in a list of the metadata; empty if the name is missing or its value is no list."""
    found = metadata.get(name)
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list | tuple) else ()
