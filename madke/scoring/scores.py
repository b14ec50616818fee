"""All scores of a run, from its transcripts alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import zip_longest
from statistics import fmean

from pydantic import TypeAdapter

from madke.core.transcript import Digest, Final, Reflection, Selection, StageUsage, Stance, Transcript, Verdict
from madke.scoring.arms import QuestionKey, read_arm
from madke.scoring.debate_rows import GRADER, NO_EXTERNAL_SCORES, ExternalScores, over_repeats, over_rounds
from madke.scoring.metrics import METRICS
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
    """Those of no name count as one."""
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
    """Transcripts whose order read the gold answers: an analysis."""
    correct: Estimate | None
    correct_if_failed: tuple[float, float] | None
    """``correct`` if all failed ones were wrong, and if all were right."""
    metrics: Mapping[str, Estimate]
    """Each metric, over the questions of the tasks that it scores; also scorers outside, on scales of their own, over
    the questions with an answer, and a grader, over those with a gold answer, the ``ungraded`` left out."""
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
    ``grade``: share of the answers with a gold answer that have no grade."""
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

        KeyError, with the names that there are, where no question has the value.
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


def score(transcripts: Iterable[Transcript], said: ExternalScores = NO_EXTERNAL_SCORES) -> Scores:
    """Compute all scores in one pass; a few small rows are kept for each transcript, and the text of translations.

    ``said`` is what graders and scorers outside said of the answers.
    """
    counted = _Counted()
    arm = read_arm("", counted.each(transcripts, said), said)
    means = {name: mean for name in arm.values if (mean := arm.mean(name))}
    metrics = {name: means[name] for name in dict.fromkeys((*METRICS, *said)) if name in means}
    own = {"correct", "rounds", *_CONSISTENT, *metrics}
    correct, grades = arm.values.get("correct", {}), arm.values.get(GRADER, {})
    # Failed debates of questions with golds, as what nobody knows.
    judged = {key: [*correct.get(key, {}).values(), *[None] * counted.lost[key]] for key in arm.questions}
    graded = [[grades.get(key, {}).get(repeat) for repeat in repeats] for key, repeats in correct.items()]
    return Scores(
        questions=len(arm.questions),
        datasets=len(set(arm.questions.values())),
        transcripts=counted.flags["transcripts"],
        abstained=counted.flags["abstained"],
        failed=counted.flags["failed"],
        degraded=counted.flags["degraded"],
        partial_pools=counted.flags["partial_pools"],
        shortened=counted.flags["shortened"],
        read_golds=counted.flags["read_golds"],
        correct=means.get("correct"),
        correct_if_failed=_bounds([held for held in judged.values() if held]),
        metrics=metrics,
        cons_judge=means.get("cons_judge"),
        co2_judge=means.get("co2_judge"),
        cons_matcher=means.get("cons_matcher"),
        co2_matcher=means.get("co2_matcher"),
        co2_judge_grader=means.get("co2_judge_grader"),
        co2_matcher_grader=means.get("co2_matcher_grader"),
        mean_rounds=means.get("rounds"),
        stop_reasons=dict(counted.stops.most_common()),
        failures=dict(counted.failures.most_common()),
        parse_failures={
            stage: found for stage, replies in counted.unread.items() if (found := over_repeats(list(replies.values())))
        },
        usage=counted.usage,
        debate={name: mean for name, mean in means.items() if name not in own},
        by_round=over_rounds(list(arm.rounds.values())),
        corpus=corpus_scores(counted.translations),
        ungraded=int(sum(map(sum, counted.unread["grade"].values()))) if GRADER in metrics else 0,
        grader_if_ungraded=_bounds(graded) if GRADER in metrics else None,
        repeats={
            name: spread
            for name in ("correct", *metrics, *_CONSISTENT)
            if (spread := between_repeats(arm.values.get(name, {}).values()))
        },
    )


class _Counted:
    """What is counted of all debates, failed ones too."""

    def __init__(self) -> None:
        self.flags: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.lost: Counter[QuestionKey] = Counter()
        self.usage: dict[str, StageUsage] = {}
        self.unread: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Stage -> question -> of each reply, whether no value could be read in it: 0 or 1."""
        self.translations: list[tuple[str, tuple[str, ...]]] = []

    def each(self, transcripts: Iterable[Transcript], said: ExternalScores) -> Iterator[Transcript]:
        """The transcripts, each counted on the way."""
        for transcript in transcripts:
            self._add(transcript, said)
            yield transcript

    def _add(self, transcript: Transcript, said: ExternalScores) -> None:
        self.flags["transcripts"] += 1
        self.flags[transcript.status] += 1
        self.flags["degraded"] += transcript.degraded
        self.flags["partial_pools"] += bool(transcript.pool_partial)
        self.flags["shortened"] += shortened(transcript)
        self.flags["read_golds"] += transcript.oracle
        self.stops[transcript.stop_reason] += 1
        if transcript.status == "failed":
            self.failures[transcript.final.error or "unknown"] += 1
            self.lost[transcript.id, transcript.question] += bool(transcript.answers)
        elif transcript.task == "translation" and transcript.answers:
            self.translations.append((transcript.answer or "", transcript.answers))
        for stage, used in transcript.usage.items():
            self.usage[stage] = total_usage((self.usage.get(stage, StageUsage()), used))
        for stage, reply, missed in _replies(transcript):
            if missed is not None and reply.error is None:
                self.unread[stage][transcript.id].append(float(missed))
        if GRADER in said and transcript.answers and transcript.status == "ok":
            ungraded = (transcript.id, transcript.repeat) not in said[GRADER]
            self.unread["grade"][transcript.id].append(float(ungraded))


def shortened(transcript: Transcript) -> bool:
    """Whether some prompt of the debate was too long, and something was left out of it."""
    return any(reply.truncated is not None for _, reply, _ in _replies(transcript))


def total_usage(parts: Iterable[StageUsage]) -> StageUsage:
    """The sum, field by field."""
    parts = list(parts)
    return StageUsage(**{f.name: sum(getattr(part, f.name) for part in parts) for f in fields(StageUsage)})


@cache
def _adapter() -> TypeAdapter[Scores]:
    return TypeAdapter(Scores)


def scores_to_json(scores: Scores, *, indent: int | None = 2) -> bytes:
    """The scores as JSON, with a newline at the end."""
    return _adapter().dump_json(scores, indent=indent) + b"\n"


def scores_from_json(text: bytes) -> Scores:
    """The scores that :func:`scores_to_json` wrote; pydantic.ValidationError where the text is not that."""
    return _adapter().validate_json(text)


_CONSISTENT = ("cons_judge", "co2_judge", "cons_matcher", "co2_matcher", "co2_judge_grader", "co2_matcher_grader")


def _bounds(values: Sequence[Sequence[float | None]]) -> tuple[float, float] | None:
    """The mean over questions of their repeats' values, None taken as 0, and as 1."""
    if not values:
        return None
    low, high = (fmean(fmean(lost if n is None else n for n in held) for held in values) for lost in (0.0, 1.0))
    return low, high


def corpus_scores(translations: Sequence[tuple[str, Sequence[str]]]) -> Mapping[str, float]:
    """BLEU and chrF of a whole run, as sacrebleu computes them with its defaults, on the scale 0 .. 1.

    N-grams are counted over the whole run first, so they are no means of the sentences' scores. ``translations`` are
    the answers (empty where there is none), each with its references, at least one.
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
        for turn in () if transcript.first_round_given and entry is transcript.rounds[0] else entry.turns:
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
