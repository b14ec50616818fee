"""Metrics of one answer against its golds. Each has one definition, in 0 .. 1; the best gold counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from madke.core.question import Question
from madke.tasks.normalize import squad_normalize

_YES_NO = ("yes", "no", "noanswer")
_YES_NO_DATASETS = ("hotpotqa", "2wikimultihopqa")


def exact_match(answer: str, question: Question) -> float:
    """1 if the answer equals a gold after SQuAD normalisation (Rajpurkar et al., 2016)."""
    return float(any(squad_normalize(answer) == squad_normalize(gold) for gold in question.answers))


def token_f1(answer: str, question: Question) -> float:
    """F1 of the token multisets after SQuAD normalisation (Rajpurkar et al., 2016), over the best gold.

    For HotpotQA and 2WikiMultiHopQA (by ``metadata["dataset"]``) an answer or gold of yes, no or noanswer scores
    only when both are equal, as in HotpotQA's official script (Yang et al., 2018).
    """
    strict = question.metadata.get("dataset") in _YES_NO_DATASETS
    return max((_f1(squad_normalize(answer), squad_normalize(gold), strict) for gold in question.answers), default=0.0)


def _f1(answer: str, gold: str, strict: bool) -> float:
    if strict and answer != gold and (answer in _YES_NO or gold in _YES_NO):
        return 0.0
    answer_tokens, gold_tokens = answer.split(), gold.split()
    shared = sum((Counter(answer_tokens) & Counter(gold_tokens)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(answer_tokens), shared / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def same_label(answer: str, question: Question) -> float:
    """1 if the canonical answer is a gold one: label accuracy of claims, letter accuracy of choices."""
    return float(answer in question.answers)


METRICS: Mapping[str, Callable[[str, Question], float]] = {
    "em": exact_match,
    "f1": token_f1,
    "label_accuracy": same_label,
    "choice_accuracy": same_label,
}
"""Every metric by the name that tasks and reports use."""
