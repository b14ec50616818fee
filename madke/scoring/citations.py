"""How well cited passages support an answer, and how much of what should be said it says: by their owners' definitions.

ALCE: citation recall and precision (Gao, Yen, Yu, Chen, EMNLP 2023, "Enabling Large Language Models to Generate Text
with Citations"). TREC RAG: support of each sentence by the passage that it cites first (Thakur et al., 2025), and
nugget scores (Pradeep et al., 2025). All take an entailment judge; equality with the owners' functions is tested.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeVar

from madke.core.agreement import CitedSentence

T = TypeVar("T")
Pair = tuple[str, str]
"""A premise and a hypothesis."""
Support = Callable[[str, str], float]
"""How far a premise supports a hypothesis: 1 fully, 0.5 partly, 0 not."""

FULL, PARTIAL, NO_SUPPORT = 1.0, 0.5, 0.0
MOST_CITATIONS = 3
"""Citations of a sentence that ALCE counts; those after them are ignored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CitationScores:
    """Of one answer, each from 0 to 1."""

    recall: float
    """Share of sentences that their citations support together."""
    precision: float
    """Share of citations that support their sentence, alone or because it is not supported without them."""


def alce(
    sentences: Sequence[CitedSentence], passages: Sequence[str], support: Support, most: int | None = MOST_CITATIONS
) -> CitationScores:
    """ALCE's citation recall and precision of one answer; ``sentences`` is not empty.

    A sentence without citations, or with one out of range, is not supported. The latter's citations count for nothing.
    """

    def entails(cited: Sequence[int], text: str) -> bool:
        return support("\n".join(passages[n] for n in cited), text) == FULL

    supported, precise, total = 0, 0, 0
    for sentence in sentences:
        cited = list(sentence.citations)
        if not cited or any(not 0 <= n < len(passages) for n in cited):
            continue
        cited = cited[:most]
        total += len(cited)
        if not entails(cited, sentence.text):
            continue
        supported += 1
        if len(cited) == 1:
            precise += 1
            continue
        for n in cited:
            # A repeated citation is removed once, as by the owners.
            others = cited[: cited.index(n)] + cited[cited.index(n) + 1 :]
            precise += entails([n], sentence.text) or not entails(others, sentence.text)
    return CitationScores(recall=supported / len(sentences), precision=precise / total if total else 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportScores:
    """TREC RAG's support of one answer, each from 0 to 1."""

    weighted_precision: float
    """Mean support of the sentences with a citation; partial support counts half."""
    weighted_recall: float
    """Mean support of all sentences; one without a citation has none."""
    hard_precision: float
    """As above, but only full support counts."""
    hard_recall: float


def trec_support(sentences: Sequence[CitedSentence], passages: Sequence[str], support: Support) -> SupportScores:
    """TREC RAG's support of one answer by the passage that each sentence cites first; ``sentences`` is not empty.

    The levels full, partial and none, and weighted precision and recall are those of Thakur et al., 2025 (arXiv
    2504.15205; the track of 2024). The weights 1, 0.5 and 0 and the two denominators (sentences with a citation; all
    sentences) were compared with summaries of that paper, not with the track's own program, which we did not find.
    """
    levels = [
        support(passages[sentence.citations[0]], sentence.text)
        if 0 <= sentence.citations[0] < len(passages)
        else NO_SUPPORT
        for sentence in sentences
        if sentence.citations
    ]
    full = [float(level == FULL) for level in levels]
    return SupportScores(
        weighted_precision=fmean(levels) if levels else 0.0,
        weighted_recall=sum(levels) / len(sentences),
        hard_precision=fmean(full) if full else 0.0,
        hard_recall=sum(full) / len(sentences),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Nugget:
    """A fact that an answer should state."""

    text: str
    importance: Literal["vital", "okay"]
    assignment: Literal["support", "partial_support", "not_support"] | None = None
    """Whether the answer states it; None: the entailment judge is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NuggetScores:
    """Shares of nuggets that one answer states; in ``vital`` and ``all`` a partly stated one counts half."""

    strict_vital: float
    strict_all: float
    vital: float
    all: float


_ASSIGNED = {"support": FULL, "partial_support": PARTIAL, "not_support": NO_SUPPORT}


def nugget_scores(nuggets: Sequence[Nugget], answer: str, support: Support) -> NuggetScores:
    """The nugget scores of one answer. A group without nuggets scores 0, as by the owners."""
    levels = [
        (nugget.importance, _ASSIGNED[nugget.assignment] if nugget.assignment else support(answer, nugget.text))
        for nugget in nuggets
    ]
    every, vital = [level for _, level in levels], [level for kind, level in levels if kind == "vital"]
    return NuggetScores(
        strict_vital=_share([float(level == FULL) for level in vital]),
        strict_all=_share([float(level == FULL) for level in every]),
        vital=_share(vital),
        all=_share(every),
    )


def _share(levels: Sequence[float]) -> float:
    return fmean(levels) if levels else 0.0


_Known = dict[Pair, float]


def settled(measure: Callable[[Support], T], ask: Callable[[set[Pair]], Mapping[Pair, float]]) -> T:
    """A measure whose pairs are asked for in as few batches as possible; each pair is asked once.

    A pair that is not known yet counts as unsupported, and the measure is taken again when it is known.
    """
    known: _Known = {}
    while True:
        missing: set[Pair] = set()

        def support(premise: str, hypothesis: str, missing: set[Pair] = missing, known: _Known = known) -> float:
            if (premise, hypothesis) not in known:
                missing.add((premise, hypothesis))
            return known.get((premise, hypothesis), NO_SUPPORT)

        found = measure(support)
        if not missing:
            return found
        known.update(ask(missing))
