"""Metrics of one answer against its gold answers, from 0 to 1, and the units of all values of a debate or round."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.registry import Registry
from madke.core.transcript import Transcript
from madke.tasks import BaseTask, get_task
from madke.tasks.base import has_words, squad_normalize

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
    heading: str = ""
    """Short heading in tables; empty: the name."""
    explanation: str = ""
    """What it measures, in one sentence for readers of the report; empty: a general one."""
    source: str = ""
    """The paper or program that it follows, for ``docs/evaluation.md``."""

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


BUILT_IN_METRICS: dict[str, Metric] = {}
"""Name -> built-in metric, in the order of columns."""


def _built_in(name: str, explanation: str, *, binary: bool = False, **described: Any) -> Callable[[Score], Score]:
    """As :func:`madke.metric`, for a built-in one; returns the function itself."""

    def decorate(score: Score) -> Score:
        BUILT_IN_METRICS[name] = Metric(name, score, binary=binary, explanation=explanation, **described)
        return score

    return decorate


def _normal_golds(question: Question) -> Iterator[str]:
    """The golds after SQuAD normalisation, and the usual spelling of those that only a program writes.

    Tables of programs hold True for yes and 8.0 for 8.
    """
    for gold in question.answers:
        normal = squad_normalize(gold)
        yield normal
        if normal in ("true", "false"):
            yield "yes" if normal == "true" else "no"
        if whole := re.fullmatch(r"(\s*[-+]?\d[\d,]*)\.0+\s*", gold):
            yield squad_normalize(whole[1])


@_built_in(
    "em",
    "1 if the answer equals a gold answer after normalisation: lower case, no punctuation, no articles, "
    "single spaces. A gold `true` is also yes, `8.0` also 8",
    binary=True,
    heading="EM",
    source="SQuAD: Rajpurkar et al., 2016",
)
def exact_match(answer: str, question: Question) -> float:
    """1 if the answer equals a gold after SQuAD normalisation (Rajpurkar et al., 2016).

    A gold ``true`` (``false``) is also yes (no), and a gold ``8.0`` is also 8.
    """
    return float(squad_normalize(answer) in _normal_golds(question))


@_built_in("f1", "F1 of the token multisets after the same normalisation, the best gold", heading="F1", source="SQuAD")
def token_f1(answer: str, question: Question) -> float:
    """F1 of the token multisets after the normalisation of :func:`exact_match`, over the best gold.

    For HotpotQA and 2WikiMultiHopQA (by ``metadata["dataset"]``) an answer or gold of yes, no or noanswer scores
    only when both are equal, as in HotpotQA's official script (Yang et al., 2018).
    """
    normal = squad_normalize(answer)
    whole = {"yes", "no", "noanswer"}
    whole = whole if question.metadata.get("dataset") in ("hotpotqa", "2wikimultihopqa") else set()
    best = 0.0
    for gold in _normal_golds(question):
        shared = (Counter(normal.split()) & Counter(gold.split())).total()
        if shared and (normal == gold or not {normal, gold} & whole):
            precision, recall = shared / len(normal.split()), shared / len(gold.split())
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


def accepted(answer: str, question: Question) -> float:
    """1 if the question's task accepts the answer (``eval/matcher.md`` compares it with human judgements)."""
    return float(get_task(question.task).accepts(answer, question))


_built_in(
    "match",
    "1 if the task's matcher, which compares two answers, accepts the answer, a phrase or a sentence. "
    "Words of the question are no evidence, an answer that offers rivals (`A or B`) is wrong, and so is a short answer "
    "with a number that the gold lacks. Units and currencies count: 5 kg is not 5 g, `5kg` is `5 kilograms`, and an "
    "answer without a unit may have any. Nothing is converted",
    binary=True,
    source="madke; `eval/matcher.md` compares it with people",
)(accepted)


ALL_GOLDS = "all_golds"


@_built_in(
    ALL_GOLDS,
    "1 if the answer names every gold answer and none that the dataset lists as wrong: its words in a row, "
    "or an item of a list that equals it under the task's matcher. For RAMDocs",
    binary=True,
    heading="all golds",
    source="RAMDocs: Wang et al., 2025",
)
def all_golds(answer: str, question: Question) -> float:
    """1 if the answer, a phrase or a list, names every gold and no listed wrong answer (RAMDocs' measure).

    Words of a named gold do not name a wrong answer: "football" is not named by "American football".
    """
    task = get_task(question.task)
    items = [item for item in re.split(r"[;\n]", answer) if item.strip()]
    items += re.split(r",|\band\b", answer) if len(items) == 1 else []

    def is_item(text: str) -> bool:
        return any(task.same(item, text, question) for item in items)

    if not all(has_words(answer, gold) or is_item(gold) for gold in question.answers):
        return 0.0
    rest = f" {squad_normalize(answer)} "
    for gold in sorted(map(squad_normalize, question.answers), key=len, reverse=True):
        rest = rest.replace(f" {gold} ", " ; ")
    wrong = [each for each in texts_in(question.metadata, "wrong_answers") if not task.accepts(each, question)]
    return float(not any(f" {squad_normalize(each)} " in rest or is_item(each) for each in wrong))


_built_in("label_accuracy", "the label of a claim is right", binary=True, heading="label")(accepted)
_built_in("choice_accuracy", "the letter is right", binary=True, heading="choice")(accepted)
_built_in("math_equivalence", "the expressions are equivalent", binary=True, heading="math", source="math-verify")(
    accepted
)


@_built_in(
    "named",
    "share of the gold answers that the answer contains, after the normalisation of EM. Every gold counts, "
    "so golds must be different answers, not spellings of one",
    source="STR-EM of ALCE: Gao et al., 2023",
)
def named(answer: str, question: Question) -> float:
    """The share of golds that an answer contains, after SQuAD normalisation (STR-EM of ALCE; Gao et al., 2023)."""
    golds = question.answers
    return sum(has_words(answer, gold) for gold in golds) / len(golds) if golds else 0.0


@_built_in(
    "chrf",
    "sentence chrF, character 6-grams, beta 2, the best reference",
    heading="chrF",
    source="Popović, 2015, by sacrebleu",
)
def chrf(answer: str, question: Question) -> float:
    """Sentence-level chrF (Popovic, 2015) as sacrebleu computes it: character 6-grams, beta 2, the best reference."""
    from sacrebleu import sentence_chrf

    return float(sentence_chrf(answer, list(question.answers)).score) / 100 if question.answers else 0.0


@_built_in(
    "bleu",
    "sentence BLEU over all references, exponential smoothing",
    heading="BLEU",
    source="Papineni et al., 2002, by sacrebleu",
)
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


METRICS: Registry[Metric] = Registry("metric", BUILT_IN_METRICS, adapt=_metric_of)
"""Every metric by its name in tasks and reports, including ``module:object``."""


def metrics_of(task: BaseTask) -> tuple[str, ...]:
    """The names of a task's metrics in scores; UserError if one is unknown or has the name of a built-in one."""
    return tuple(_metric_name(each) for each in task.metrics)


def common_metric(firsts: Iterable[str]) -> str:
    """The first metric that all arms or tasks have, or ``correct`` if they have different ones."""
    distinct = {*firsts}
    return distinct.pop() if len(distinct) == 1 else "correct"


def _metric_name(value: Any) -> str:
    if isinstance(value, str) and value in BUILT_IN_METRICS:
        return value
    own = value if isinstance(value, Metric) else METRICS[METRICS.name_of(value)]
    return METRICS.add(own.name, own).name


def heading_of(name: str) -> str:
    """The heading of a metric or another value in tables: its own, else its name."""
    return (METRICS[name].heading if name in METRICS else "") or name


def heading_of_correct(measure: str) -> str:
    """How every surface names ``correct``: with its measure, or without one where tasks have different ones."""
    return "correct" if measure == "correct" else f"correct ({heading_of(measure)})"


def correct_by(measure: str) -> str:
    """The same in a sentence: ``correct by match``."""
    return "correct" if measure == "correct" else f"correct by {heading_of(measure)}"


def is_binary(name: str) -> bool:
    """Whether the metric of this name is binary (0 or 1)."""
    return name in METRICS and METRICS[name].binary


def question_of(transcript: Transcript) -> Question:
    """The question of a transcript."""
    return Question(**{each.name: getattr(transcript, each.name) for each in fields(Question)})


def texts_in(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts in a list of the metadata; empty if the name is missing or its value is not a list."""
    texts = metadata.get(name)
    return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list | tuple) else ()


GRADER = "grader"
"""The name of a model's grades among the external scores: right is 1, wrong is 0."""

HUMAN = "human_"
"""How the names of people's grades begin among the external scores: ``human_right``, ``human_quality``, ..."""

BIAS = "bias"
"""Whether people find that an ambiguous word is translated wrongly (Liang et al., published version, Table 4)."""

SHARE = "share"
"""The unit of values from 0 to 1, where 0 means no and 1 means yes. They are printed in percent."""

_SHARES = (
    # Of the final answer
    *("correct", "cons_judge", "cons_matcher", "co2_judge", "co2_matcher", "co2_judge_grader", "co2_matcher_grader"),
    *(f"{HUMAN}right", f"{HUMAN}ambiguity_resolved", BIAS),
    # Of the debate
    *("corrected", "collapsed", "oracle", "trapped", "judge_tie", "diversity"),
    *("right_to_wrong", "right_to_none", "wrong_to_right", "copied", "false_same", "false_different", "new_summary"),
    # Of a round
    *("accuracy", "right", "cons", "co2", "disagreement", "self_disagreement"),
    # Of selections
    *("pool_recall", "no_found", "selection_recall", "selection_precision", "misinformation_selected"),
)

VALUE_UNITS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_SHARES, SHARE)
    | {"rounds": "rounds", "selected_ids": "passages", "entropy": "bits", "log_likelihood": "bits"}
    | {f"{HUMAN}quality": "1 to 5"}
)
"""Name -> unit, for all values but metrics and those of ``_NAMED_SHARES``."""

_NAMED_SHARES = ("sided_with_", f"{GRADER}:")
"""Beginnings of the names of shares of which there are several: by debater or model."""


def unit_of(name: str) -> str | None:
    """The unit of a value; metrics are shares. None for an external scorer, which has its own scale."""
    if name in METRICS or name == GRADER or name.startswith(_NAMED_SHARES):
        return SHARE
    return VALUE_UNITS.get(name)


def is_share(name: str) -> bool:
    """Whether a value is from 0 to 1, in percent. External scorers have their own scales."""
    return unit_of(name) == SHARE


def may_be_rate(name: str) -> bool:
    """Whether 0 and 1 mean no and yes, so that values without any other are a rate. External scorers may give one."""
    return unit_of(name) in (SHARE, None)


def is_grader(name: str) -> bool:
    """Whether external scores of this name are a model's grades: those of the first grader or of a further one."""
    return name == GRADER or name.startswith(f"{GRADER}:")
