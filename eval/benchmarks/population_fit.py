"""The parameters of the simulated population, estimated from recorded answers and debates of real models.

Each reader below takes one recorded set and gives counts; ``fit`` makes estimates of them. What the sets do not say is
assumed, and stands so beside its parameter in :class:`eval.benchmarks.population.Population`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log
from pathlib import Path
from statistics import median, pstdev
from typing import Any

from eval.benchmarks.population_persuasion import followed, said
from eval.mirage import published_letter
from madke.files import read_jsonl
from madke.scoring.statistics import wilson
from madke.tasks.answer_text import squad_normalize

_DEBATES = "mad_commonmt_debates_100.jsonl.gz"
_RESAMPLES = 2000
_USE_MISLEADING = 0.5
"""The population's own assumption; what changed tells only its product with ``misleading``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """An estimate with its 95 % interval."""

    name: str
    """Of the population's parameter; a length has two, ``argument.median`` and ``argument.spread``."""
    value: float
    low: float | None
    high: float | None
    """None for lengths: of texts counted in full."""
    n: int
    source: str

    def __str__(self) -> str:
        interval = "" if self.low is None else f" ({self.low:.2f} to {self.high:.2f})"
        shown = f"{self.value:.0f}" if self.name.endswith(".median") else f"{self.value:.2f}"
        return f"{self.name}: {shown}{interval}, n = {self.n}; {self.source}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The same questions without and with retrieval: how many were right before and after."""

    both: int
    lost: int
    """Right without, wrong with."""
    won: int
    neither: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """In the order of the fields."""
        return self.both, self.lost, self.won, self.neither


def fit(folder: Path) -> list[Fitted]:
    """Every parameter that the recorded sets say something about.

    Args:
        folder: ``recorded/`` of the data that ``population.md`` names.
    """
    right, n = _without_retrieval(folder)
    found = [_rate("known", right, n, "EVOUNA, ChatGPT on Natural Questions and TriviaQA, judged by people")]
    answers = _three_answers(folder)
    found.append(_likeness(answers))
    same, pairs = _same_mistakes(answers)
    found.append(_rate("same_mistake", same, pairs, "pairs of wrong answers in Exchange-of-Thought, not StrategyQA"))
    found += _persuasion(folder)
    found += _retrieval(folder, alike=found[1].value)
    return found + _lengths(folder)


def _rate(name: str, hits: int, n: int, source: str) -> Fitted:
    low, high = wilson(hits, n)
    return Fitted(name=name, value=hits / n, low=low, high=high, n=n, source=source)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [line for _, line in read_jsonl(path)]


# What debaters know


def evouna(folder: Path) -> list[dict[str, Any]]:
    """The questions of EVOUNA that are proper ones, with what people judged right."""
    asked: list[dict[str, Any]] = []
    for path in sorted((folder / "evouna").glob("*.json.gz")):
        asked += json.loads(gzip.decompress(path.read_bytes()))
    return [question for question in asked if not question["improper"]]


def _without_retrieval(folder: Path) -> tuple[int, int]:
    asked = evouna(folder)
    return sum(question["judge_chatgpt"] for question in asked), len(asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A question with several answers of one model."""

    dataset: str
    gold: str
    answers: tuple[str | None, ...]
    """None where none was found."""

    @property
    def right(self) -> int:
        """How many are right."""
        return sum(answer == self.gold for answer in self.answers)


_LAST = {
    "AQuA": re.compile(r"\b([A-E])\)"),
    "CSQA": re.compile(r"\b([A-E])\)"),
    "GSM8K": re.compile(r"-?\d[\d,]*(?:\.\d+)?"),
    "StrategyQA": re.compile(r"\b(yes|no)\b", re.IGNORECASE),
}
"""Of each set, what answers look like; the last one in a text is taken for its answer."""


def _three_answers(folder: Path) -> list[Answered]:
    return [
        Answered(
            dataset=name,
            gold=line["answer"].replace(",", ""),
            answers=tuple(_last(pattern, text) for text in line["response_list"]),
        )
        for name, pattern in _LAST.items()
        for line in _lines(folder / "eot_gpt35" / f"{name}.jsonl")
    ]


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    if not found:
        return None
    answer = str(found[-1]).replace(",", "").removesuffix(".00")
    return answer.casefold() if answer.isalpha() and len(answer) > 1 else answer


def _likeness(answered: Sequence[Answered]) -> Fitted:
    """The correlation of a beta-binomial: each set has its own share of right answers, all have one correlation.

    Maximum likelihood, the interval by the likelihood ratio.
    """
    from scipy.optimize import brentq, minimize_scalar
    from scipy.stats import betabinom, chi2

    sets = {name: [entry for entry in answered if entry.dataset == name] for name in _LAST}

    def loss(alike: float) -> float:
        total = 0.0
        for entries in sets.values():
            share = sum(entry.right for entry in entries) / sum(len(entry.answers) for entry in entries)
            spread = 1 / alike - 1
            for right, count in Counter(entry.right for entry in entries).items():
                total -= count * betabinom.logpmf(right, 3, share * spread, (1 - share) * spread)
        return float(total)

    best = minimize_scalar(loss, bounds=(0.01, 0.99), method="bounded")
    margin = float(chi2.ppf(0.95, 1)) / 2
    low, high = (
        float(brentq(lambda at: loss(at) - best.fun - margin, *ends)) for ends in ((0.01, best.x), (best.x, 0.99))
    )
    first, *others = (sum(entry.answers[n] == entry.gold for entry in answered) for n in range(3))
    source = f"beta-binomial, three answers of GPT-3.5 each (Exchange-of-Thought); first right {first}, others {others}"
    return Fitted(name="alike", value=float(best.x), low=low, high=high, n=len(answered), source=source)


def _same_mistakes(answered: Sequence[Answered]) -> tuple[int, int]:
    """How many pairs of wrong answers to a question are the same, of how many."""
    pairs = [
        left == right
        for entry in answered
        if entry.dataset != "StrategyQA"
        for left, right in combinations([a for a in entry.answers if a not in (None, entry.gold)], 2)
    ]
    return sum(pairs), len(pairs)


def unanimous(folder: Path) -> tuple[int, int]:
    """On how many questions of Exchange-of-Thought all three answers are the same, and right there."""
    agreed = [e for e in _three_answers(folder) if len(set(e.answers)) == 1 and e.answers[0] is not None]
    return sum(entry.right > 0 for entry in agreed), len(agreed)


# Whom they follow


def _persuasion(folder: Path) -> list[Fitted]:
    found = followed(_lines(folder / _DEBATES))
    by_right = [reply.changed for reply in found.replies if reply.peer_right and not reply.own_right]
    by_wrong = [reply.changed for reply in found.replies if not reply.peer_right]
    source = "replies in Liang et al.'s CommonMT debates, right by the nearer reference (chrF)"
    return [
        _rate("persuaded_by_right", sum(by_right), len(by_right), source),
        _rate("persuaded_by_wrong", sum(by_wrong), len(by_wrong), source),
        _rate("settles_right", sum(found.settled), len(found.settled), "outcomes of those with one side right"),
    ]


# What passages do


def _retrieval(folder: Path, *, alike: float) -> list[Fitted]:
    """``helpful``, ``use_helpful`` and ``misleading``.

    Of two answers of one model to one question some differ by chance; what ``alike`` does not explain of the changes
    under retrieval is the passages' doing: :func:`taken_from_passages`.
    """
    with_gold, without = _by_documents(folder)
    use = (with_gold[0] / with_gold[1] - without[0] / without[1]) / (1 - without[0] / without[1])
    changed = mirage_changes(folder, "gpt-35-turbo-16k")
    n = sum(changed.counts)

    def shares(counts: Sequence[int]) -> tuple[float, float]:
        helped, misled = taken_from_passages(Changes(**dict(zip(_FIELDS, counts, strict=True))), alike)
        return helped / use, misled / _USE_MISLEADING

    import numpy

    drawn = numpy.random.default_rng(0).multinomial(n, numpy.array(changed.counts) / n, size=_RESAMPLES)
    bounds = numpy.percentile([shares(counts) for counts in drawn.tolist()], (2.5, 97.5), axis=0)
    low, high = wilson(*with_gold)
    chance = without[0] / without[1]
    found = [
        Fitted(
            name="use_helpful",
            value=use,
            low=(low - chance) / (1 - chance),
            high=(high - chance) / (1 - chance),
            n=with_gold[1],
            source=f"R1-Searcher on HotpotQA: right {with_gold[0]} of {with_gold[1]} where the gold stands in what it "
            f"found, {without[0]} of {without[1]} elsewhere, which counts as known",
        )
    ]
    source = "MIRAGE, GPT-3.5, chain of thought against retrieval; the interval takes alike and use for given"
    for name, value, bound in zip(("helpful", "misleading"), shares(changed.counts), bounds.T.tolist(), strict=True):
        found.append(Fitted(name=name, value=value, low=bound[0], high=bound[1], n=n, source=source))
    return found


_FIELDS = ("both", "lost", "won", "neither")


def taken_from_passages(changed: Changes, alike: float) -> tuple[float, float]:
    """The shares of questions on which a helpful, and a misleading, passage is shown and believed.

    With h and m these shares, k the share right without, v = k (1 - k) (1 - alike) what one model's two answers differ
    by chance each way: won = h (1 - k) + (1 - h - m) v, lost = m k + (1 - h - m) v. None is below 0.
    """
    n = sum(changed.counts)
    known = (changed.both + changed.lost) / n
    chance = known * (1 - known) * (1 - alike)
    won, lost = changed.won / n - chance, changed.lost / n - chance
    # (1 - known - chance) h - chance m = won; -chance h + (known - chance) m = lost
    determinant = (1 - known - chance) * (known - chance) - chance**2
    helped = ((known - chance) * won + chance * lost) / determinant
    misled = ((1 - known - chance) * lost + chance * won) / determinant
    return max(helped, 0.0), max(misled, 0.0)


def mirage_changes(folder: Path, model: str) -> Changes:
    """What retrieval changed in MIRAGE's medical questions, read by the benchmark's own rule."""
    runs = [_lines(folder / "mirage_mmlu_med" / f"{model}_{arm}.jsonl.gz") for arm in ("cot", "rag_32")]
    right = [[published_letter(line["outputs"][0])[0] == line["gold"] for line in run] for run in runs]
    return changes(*right)


def changes(without: Sequence[bool], with_: Sequence[bool]) -> Changes:
    """Count, question by question."""
    found = Counter(zip(without, with_, strict=True))
    return Changes(both=found[True, True], lost=found[True, False], won=found[False, True], neither=found[False, False])


_DOCUMENTS = re.compile(r"<\|begin_of_documents\|>(.*?)<\|end_of_documents\|>", re.DOTALL)


def _by_documents(folder: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """Right answers of how many, where the gold stands in the documents and where it does not; yes and no left out."""
    counts = {True: [0, 0], False: [0, 0]}
    for line in _lines(folder / "r1searcher_hotpotqa_250.jsonl.gz"):
        gold = squad_normalize(line["answer"])
        if gold not in ("yes", "no"):
            documents = squad_normalize(" ".join(_DOCUMENTS.findall(line["gen_text_store"])))
            held = counts[f" {gold} " in f" {documents} "]
            held[0] += str(line["gpt4o_output"]) == "True"
            held[1] += 1
    return (counts[True][0], counts[True][1]), (counts[False][0], counts[False][1])


# How long replies are


def _lengths(folder: Path) -> list[Fitted]:
    mirage = folder / "mirage_mmlu_med"
    debates = _lines(folder / _DEBATES)
    texts = {
        "argument": [line["outputs"][0] for line in _lines(mirage / "gpt-35-turbo-16k_cot.jsonl.gz")],
        "choosing": [line["outputs"][0] for line in _lines(mirage / "gpt-35-turbo-16k_rag_32.jsonl.gz")],
        "deciding": [text for entry in debates for text in said(entry, "Moderator")],
    }
    found = []
    for name, replies in texts.items():
        lengths = [max(len(text), 1) for text in replies]
        source = "characters of MIRAGE's replies, GPT-3.5" if name != "deciding" else "characters of the moderators'"
        for part, value in (("median", median(lengths)), ("spread", pstdev(map(log, lengths)))):
            found.append(
                Fitted(name=f"{name}.{part}", value=float(value), low=None, high=None, n=len(replies), source=source)
            )
    return found
