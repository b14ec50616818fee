"""What is measured of translations alone: how far a debate moved from its first one, and a whole run as one corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from madke.core.transcript import Transcript
from madke.scoring.metrics import sentence_bleu


def diversity(transcript: Transcript) -> dict[str, float]:
    """``diversity``: 1 minus the Self-BLEU of the base and the current translation (Liang et al., EMNLP 2024, Table 4).

    On the scale 0 .. 1; the paper prints it times 100. The base is the first translation of the debate, the current one
    the last (the negative side's in their debate, the last refinement in self-reflection). Self-BLEU, which
    the paper takes from Yin et al. (2020), is of two texts the mean of the BLEU of each against the other (Zhu et al.,
    2018, Texygen). Nothing for other tasks, for a single turn that nobody reviewed, and where one of the two
    translations is missing.
    """
    first, last = transcript.rounds[0].turns[0], transcript.rounds[-1].turns[-1]
    base, current = first.stance.answer, last.stance.answer
    alone = first is last and first.reflection is None
    if transcript.task != "translation" or alone or base is None or current is None:
        return {}
    if base == current:
        return {"diversity": 0.0}
    return {"diversity": 1 - (sentence_bleu(base, [current]) + sentence_bleu(current, [base])) / 2}


def corpus_scores(translations: Sequence[tuple[str, Sequence[str]]]) -> Mapping[str, float]:
    """BLEU and chrF of a whole run, as sacrebleu computes them with its defaults, on the scale 0 .. 1.

    They are no means of the sentences' scores, which stand among the metrics: n-grams are counted over the whole run
    first. A debate without an answer counts as an empty translation.

    Args:
        translations: Each answer (empty where there is none) with its references, at least one.
    """
    if not translations:
        return {}
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    answers = [answer for answer, _ in translations]
    # sacrebleu takes the first references of all, the second of all, ...; None where an answer has fewer.
    references = list(zip_longest(*(references for _, references in translations)))
    metrics = {"bleu": BLEU(force=True), "chrf": CHRF()}
    return {name: float(metric.corpus_score(answers, references).score) / 100 for name, metric in metrics.items()}
