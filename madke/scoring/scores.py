"""All scores of a run, from its transcripts alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import zip_longest
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from madke.core.transcript import Digest, Final, Reflection, Selection, StageUsage, Stance, Transcript, Verdict
from madke.scoring.debate_rows import (
    GRADER,
    NOTHING_SAID,
    Row,
    Rows,
    Said,
    joined,
    of_one_arm,
    over_questions,
    over_repeats,
    over_rounds,
    row,
)
from madke.scoring.metrics import METRICS
from madke.scoring.rounds import round_rows
from madke.scoring.statistics import Estimate, Spread, between_repeats


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """Cost of the calls that a run made itself, repeated and failed ones too; grades are kept elsewhere."""

    cost: Mapping[str, float] = field(default_factory=dict)
    """Stage -> cost of the tokens of models with a price, in the currency of the prices; empty without prices."""
    unpriced: tuple[str, ...] = ()
    """Models whose tokens are in no cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of one run. Means are over questions (repeats of one are averaged first), failed ones left out.

    "Correct" is the first metric of a question's task on the final answer. Abstained answers count as wrong.
    """

    questions: int
    datasets: int
    """How many datasets they come from, those of no name as one."""
    transcripts: int
    """Questions times repeats."""
    abstained: int
    """Transcripts whose final text held no answer."""
    failed: int
    """Transcripts without an outcome because calls failed. In no mean below; see ``correct_if_failed``."""
    degraded: int
    """Transcripts in which some call failed and the debate went on."""
    partial_pools: int
    """Transcripts whose pool lacks a source that failed."""
    shortened: int
    """Transcripts in which a prompt was too long and something was left out of it."""
    read_golds: int
    """Transcripts whose order read the gold answers: an analysis, no prediction."""
    correct: Estimate | None
    """None where no question has a gold answer."""
    correct_if_failed: tuple[float, float] | None
    """``correct`` if all failed ones were wrong, and if all were right."""
    metrics: Mapping[str, Estimate]
    """Each metric, over the questions of the tasks that it scores. Those of scorers outside, on scales of their own,
    stand among them once a run directory is scored: over the questions with an answer. So does a grader's: over the
    questions with a gold answer, those left out whose answer has no grade (``ungraded``)."""
    cons_judge: Estimate | None
    """Cons (Wang et al., Eq. 8), consistent by the judge's last verdict; None without a judge, or where it
    was not asked about every question (``agreement_then_judge``)."""
    co2_judge: Estimate | None
    """Co2 (Eq. 7), consistent by the judge's last verdict and correct."""
    cons_matcher: Estimate | None
    """Cons, consistent if all last stances were parsed and agree under the task's matcher."""
    co2_matcher: Estimate | None
    mean_rounds: Estimate | None
    """None where nobody counted calls: of answers from elsewhere."""
    stop_reasons: Mapping[str, int]
    failures: Mapping[str, int]
    """Why transcripts failed -> how many, the commonest first."""
    parse_failures: Mapping[str, Estimate]
    """By stage: share of a question's replies in which no value of the stage's grammar was found, over questions.
    ``grade``: share of the answers with a gold answer that have no grade, because the reply held none or the call
    failed."""
    usage: Mapping[str, StageUsage]
    """By stage, over all transcripts, failed ones too."""
    debate: Mapping[str, Estimate] = field(default_factory=dict)
    """What is no metric of the answer, by name, each over the questions that it applies to: the other values of
    :func:`madke.scoring.debate_rows.row`."""
    by_round: Mapping[str, tuple[Estimate | None, ...]] = field(default_factory=dict)
    """Name -> the value after round 1, 2, ... of the longest debate; None where no debate has one. The names stand with
    :func:`madke.scoring.rounds.round_rows`; debates that have ended count as
    :func:`madke.scoring.debate_rows.over_rounds` says."""
    corpus: Mapping[str, float] = field(default_factory=dict)
    """``bleu`` and ``chrf`` of all translations as one corpus: :func:`corpus_scores`."""
    co2_judge_grader: Estimate | None = None
    """Co2 as Wang et al. report it: consistent by the judge's last verdict, and right by a grader. None without one."""
    co2_matcher_grader: Estimate | None = None
    ungraded: int = 0
    """Answers with a gold answer that a grader was asked about and gave no grade. They are not in its mean."""
    grader_if_ungraded: tuple[float, float] | None = None
    """The grader's mean if all those were wrong, and if all were right; None without a grader."""
    repeats: Mapping[str, Spread] = field(default_factory=dict)
    """How much ``correct``, each metric, Cons and Co2 vary from repeat to repeat, by name; of two repeats and more."""
    spending: Spending | None = None
    """Of a run directory whose calls are at hand, scored with prices; the transcripts do not say it."""
    scored: str = ""
    """Fingerprint of what a run directory held when these scores of it were written; empty elsewhere."""

    def __getitem__(self, name: str) -> Estimate:
        """The mean of one value: ``correct``, a metric, a scorer's name, ``co2_judge``, ``oracle`` ...

        Raises:
            KeyError: No question has the value; the error lists those that there are.
        """
        means: dict[str, Estimate | None] = {"correct": self.correct, "rounds": self.mean_rounds}
        means |= {each: getattr(self, each) for each in _CONSISTENT} | {**self.metrics, **self.debate}
        found = {each: mean for each, mean in means.items() if mean is not None}
        if name not in found:
            raise KeyError(f"no value {name!r}; there are {', '.join(found) or 'none'}")
        return found[name]

    @property
    def total(self) -> StageUsage:
        """Calls and tokens of all stages together."""
        return total_usage(self.usage.values())


def score(transcripts: Iterable[Transcript], said: Said = NOTHING_SAID) -> Scores:
    """Compute all scores in one pass; a few small rows are kept for each transcript, and the text of translations.

    Args:
        transcripts: The debates of an arm.
        said: What graders and scorers outside said of their answers.

    Raises:
        UserError: A transcript names a task that does not exist.
    """
    counted, measured = _Counted(), _Measured(said)
    for transcript in transcripts:
        counted.add(transcript, said)
        measured.add(transcript)
    rows, by_repeat = measured.values()

    def means(names: Iterable[str]) -> dict[str, Estimate]:
        return {name: found for name in names if (found := over_questions(rows, name))}

    counts: dict[str, Any] = {name: counted.flags[name] for name in _FLAGS}
    consistent: dict[str, Any] = {name: over_questions(rows, name) for name in _CONSISTENT}
    metrics = means(dict.fromkeys((*METRICS, *said)))
    graded = GRADER in metrics
    return Scores(
        questions=len(rows),
        datasets=len(set(counted.datasets.values())),
        transcripts=counted.transcripts,
        **counts,
        correct=over_questions(rows, "correct"),
        correct_if_failed=_bounds(rows, "correct", lambda row: "correct" in row or "failed" in row),
        metrics=metrics,
        **consistent,
        mean_rounds=over_questions(rows, "rounds"),
        stop_reasons=dict(counted.stops.most_common()),
        failures=dict(counted.failures.most_common()),
        parse_failures={
            stage: found for stage, replies in counted.unread.items() if (found := over_repeats(list(replies.values())))
        },
        usage=counted.usage,
        debate=means(_beside_metrics(rows, metrics)),
        by_round=over_rounds(measured.by_round),
        corpus=corpus_scores(measured.translations),
        ungraded=int(sum(map(sum, counted.unread["grade"].values()))) if graded else 0,
        grader_if_ungraded=_bounds(rows, GRADER, lambda row: "correct" in row) if graded else None,
        repeats={
            name: spread
            for name in ("correct", *metrics, *_CONSISTENT)
            if (spread := between_repeats(by_repeat.get(name, {}).values()))
        },
    )


class _Counted:
    """What is counted of all debates, failed ones too."""

    def __init__(self) -> None:
        self.transcripts = 0
        self.datasets: dict[str, str | None] = {}
        self.flags: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.usage: dict[str, StageUsage] = {}
        self.unread: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Stage -> question -> of each reply, whether no value could be read in it: 0 or 1."""

    def add(self, transcript: Transcript, said: Said) -> None:
        self.transcripts += 1
        self.datasets[transcript.id] = transcript.dataset
        self.flags.update(name for name, holds in _FLAGS.items() if holds(transcript))
        self.stops[transcript.stop_reason] += 1
        if transcript.status == "failed":
            self.failures[transcript.final.error or "unknown"] += 1
        for stage, used in transcript.usage.items():
            self.usage[stage] = total_usage((self.usage.get(stage, StageUsage()), used))
        for stage, reply, missed in _replies(transcript):
            if missed is not None and reply.error is None:
                self.unread[stage][transcript.id].append(float(missed))
        if GRADER in said and transcript.answers and transcript.status == "ok":
            ungraded = (transcript.id, transcript.repeat) not in said[GRADER]
            self.unread["grade"][transcript.id].append(float(ungraded))


class _Measured:
    """The rows of the debates that have an outcome."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self._rows: dict[str, list[Row]] = {}
        self._finished: list[tuple[str, int]] = []
        self._values: list[Row] = []
        self.by_round: dict[str, list[list[Row]]] = {}
        self.translations: list[tuple[str, tuple[str, ...]]] = []

    def add(self, transcript: Transcript) -> None:
        kept = self._rows.setdefault(transcript.id, [])
        if transcript.status == "failed":
            if transcript.answers:
                kept.append({"failed": 1.0})
            return
        rounds = round_rows(transcript)
        self.by_round.setdefault(transcript.id, []).append(rounds)
        self._finished.append((transcript.id, transcript.repeat))
        self._values.append(joined(row(transcript, rounds), transcript, self._said))
        if transcript.task == "translation" and transcript.answers:
            self.translations.append((transcript.answer or "", transcript.answers))

    def values(self) -> tuple[Rows, dict[str, dict[str, dict[int, float]]]]:
        """Question -> its rows; and name -> question -> repeat -> value."""
        rows = {id_: list(kept) for id_, kept in self._rows.items()}
        by_repeat: dict[str, dict[str, dict[int, float]]] = {}
        for (id_, repeat), of_one in zip(self._finished, of_one_arm(self._values), strict=True):
            rows[id_].append(of_one)
            for name, value in of_one.items():
                by_repeat.setdefault(name, {}).setdefault(id_, {})[repeat] = value
        return rows, by_repeat


def shortened(transcript: Transcript) -> bool:
    """Whether some prompt of the debate was too long, and something was left out of it."""
    return any(reply.cut is not None for _, reply, _ in _replies(transcript))


def total_usage(parts: Iterable[StageUsage]) -> StageUsage:
    """The sum, field by field."""
    total = StageUsage()
    for part in parts:
        sums = {f.name: getattr(total, f.name) + getattr(part, f.name) for f in fields(StageUsage)}
        total = replace(total, **sums)
    return total


@cache
def _adapter() -> TypeAdapter[Scores]:
    return TypeAdapter(Scores)


def scores_to_json(scores: Scores, *, indent: int | None = 2) -> bytes:
    """The scores as JSON, with a newline at the end."""
    return _adapter().dump_json(scores, indent=indent) + b"\n"


def scores_from_json(text: bytes) -> Scores:
    """The scores that :func:`scores_to_json` wrote.

    Raises:
        pydantic.ValidationError: The text is not that.
    """
    return _adapter().validate_json(text)


_CONSISTENT = ("cons_judge", "co2_judge", "cons_matcher", "co2_matcher", "co2_judge_grader", "co2_matcher_grader")


def _beside_metrics(rows: Rows, metrics: Iterable[str]) -> dict[str, None]:
    """The names of the values that have no field of their own, in the order in which they appear."""
    own = {"correct", "failed", "rounds", *_CONSISTENT, *metrics}
    return dict.fromkeys(name for repeats in rows.values() for row in repeats for name in row if name not in own)


def _bounds(rows: Rows, name: str, counts: Callable[[Row], bool]) -> tuple[float, float] | None:
    """The mean over questions of a value, of the rows that count: those that lack it taken as 0, and as 1."""
    low, high = [], []
    for repeats in rows.values():
        judged = [row for row in repeats if counts(row)]
        if judged:
            low.append(fmean(row.get(name, 0.0) for row in judged))
            high.append(fmean(row.get(name, 1.0) for row in judged))
    return (fmean(low), fmean(high)) if low else None


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


_Reply = Selection | Stance | Reflection | Verdict | Digest | Final


def _replies(transcript: Transcript) -> Iterator[tuple[str, _Reply, bool | None]]:
    """Every reply that this debate asked for: its stage, the reply, and whether no value could be read in it.

    The last is None where nothing is to be read. Stances that were given are nobody's reply.
    """
    for entry in transcript.rounds:
        for turn in () if transcript.given and entry is transcript.rounds[0] else entry.turns:
            if turn.selection is not None:
                yield "select", turn.selection, _unparsed(turn.selection)
            yield turn.stance.stage, turn.stance, _unparsed(turn.stance)
            if turn.reflection is not None:
                yield "reflect", turn.reflection, turn.reflection.satisfied is None
        if entry.verdict is not None and entry.verdict.rule != "too_few":
            yield "judge", entry.verdict, entry.verdict.consensus is None
        if entry.extracted is not None:
            yield "extract", entry.extracted, _unparsed(entry.extracted)
        if entry.digest is not None:
            yield "digest", entry.digest, None
    final = transcript.final
    if final.by == "summarizer":
        yield "summarize", final, _unparsed(final)
    elif "pick" in transcript.usage:
        yield "pick", final, final.agent is None
    elif "extract" in transcript.usage and transcript.rounds[-1].extracted is None:
        yield "extract", final, _unparsed(final)


def _unparsed(reply: Selection | Stance | Final) -> bool:
    """Whether no value could be read. A reply that says it has no answer was read: it declined."""
    return reply.status == "abstained" and reply.rule != "declined"


_FLAGS: Mapping[str, Callable[[Transcript], bool]] = {
    "abstained": lambda transcript: transcript.status == "abstained",
    "failed": lambda transcript: transcript.status == "failed",
    "degraded": lambda transcript: transcript.degraded,
    "partial_pools": lambda transcript: bool(transcript.pool_partial),
    "shortened": shortened,
    "read_golds": lambda transcript: transcript.oracle,
}
"""Counts of :class:`Scores` -> what makes a transcript one of them."""
