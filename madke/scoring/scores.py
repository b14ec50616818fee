"""All scores of a run, computed from its transcripts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from madke.core.transcript import (
    UNREAD_STATUSES,
    Digest,
    Final,
    ParseStatus,
    Reflection,
    Selection,
    StageUsage,
    Stance,
    Transcript,
    Verdict,
    reading,
)
from madke.scoring.arms import ArmValues, QuestionKey, read_arm
from madke.scoring.debate_rows import NO_EXTERNAL_SCORES, DebateMeasures, ExternalScores, over_repeats, over_rounds
from madke.scoring.gates import GatedDebate, Shadow, gated_debate, shadow_of
from madke.scoring.metrics import GRADER, METRICS
from madke.scoring.statistics import Estimate, effective_votes


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """Cost of a run's own calls, including retried and failed ones, excluding grading."""

    cost: Mapping[str, float] = field(default_factory=dict)
    """Stage -> cost of the tokens of models with a price, in the currency of the prices; empty without prices."""
    unpriced: tuple[str, ...] = ()
    """Models without a price; ``cost`` excludes their tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of one run. Means are over questions (repeats are averaged first), without failed and deferred ones.

    "Correct" is the first metric of a question's task on the final answer: ``match`` for short answers. Abstained
    answers count as wrong. Values that no question has are None, or missing from mappings.
    """

    questions: int
    datasets: int
    """Questions without a dataset name count as one dataset."""
    transcripts: int
    """Questions times repeats."""
    abstained: int
    """Transcripts without an answer whose final text declines to give one."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """Status -> number of transcripts without an answer whose final text cannot be read."""
    failed: int
    """Transcripts without an outcome because calls failed. Means exclude them; see ``correct_if_failed``."""
    deferred: int = 0
    """Transcripts whose answer is left to a person. Means exclude them."""
    degraded: int
    """Transcripts in which a call failed but the debate continued."""
    partial_pools: int
    """Transcripts whose pool lacks a failed source."""
    shortened: int
    """Transcripts in which a prompt was too long and was shortened."""
    read_golds: int
    """Transcripts whose speaking order used the gold answers (analysis only)."""
    correct: Estimate | None
    measure: str = "correct"
    """The metric that ``correct`` is; ``correct`` if the questions' tasks have different ones."""
    correct_if_failed: tuple[float, float] | None
    """``correct`` if all failed transcripts were wrong, and if all were right."""
    metrics: Mapping[str, Estimate]
    """Each metric, over the questions of its tasks. Also each external scorer, on its own scale, over questions with an
    answer, and the grader, over questions with a gold answer, excluding ``ungraded`` ones."""
    ungraded: int = 0
    """Answers with a gold answer for which the grader gave no grade. Its mean excludes them."""
    mean_rounds: Estimate | None
    """None for predictions from elsewhere, which have no calls."""
    votes: Estimate | None = None
    """How many independent votes the votes for the final answers were worth
    (:func:`madke.scoring.statistics.effective_votes`); None for other answers, for measures that are not binary, and
    where all votes are equally right."""
    debate: Mapping[str, Estimate] = field(default_factory=dict)
    """The other values of ``DebateMeasures.row``, each over the questions that it applies to. Among them Cons and Co2
    (Wang et al., Eq. 8 and 7): ``cons_judge`` and ``co2_judge``, consistent by the judge's last verdict, only if it was
    asked about every question; ``cons_matcher`` and ``co2_matcher``, consistent if all last stances were parsed and
    agree under the task's matcher; with a grader ``co2_judge_grader``, as Wang et al. report it."""
    by_round: Mapping[str, tuple[Estimate | None, ...]] = field(default_factory=dict)
    """Name of ``DebateMeasures.rounds`` -> value after round 1, 2, ...; None if no debate has one."""
    shadow: Shadow | None = None
    """What gates on the answers of round 1 would have saved; None for protocols without a debate."""
    answer_words: float | None = None
    """The median length of the final answers in words."""
    stop_reasons: Mapping[str, int]
    failures: Mapping[str, int]
    """Reason -> number of failed transcripts, most frequent first."""
    parse_failures: Mapping[str, Estimate]
    """By stage: share of a question's replies that cannot be read (``unmarked``, ``echoed``, ``contradictory``,
    ``cut``; not those that decline), averaged over questions. ``grade``: share of answers with a gold answer that have
    no grade."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """Stage -> number of replies that were stopped at ``max_tokens`` before they said anything that can be read."""
    usage: Mapping[str, StageUsage]
    """By stage, over all transcripts, including failed ones."""
    spending: Spending | None = None
    """Only for a run directory with its call store, scored with prices; transcripts do not contain it."""
    scored: str = ""
    """Fingerprint of the run directory's content at the time of scoring; empty for other results."""
    incomplete: str | None = None
    """How much of the run was done at the time of scoring, and why not all; None for complete runs and predictions."""

    @property
    def readable(self) -> Mapping[str, Estimate]:
        """By stage: the share of a question's replies that can be read, averaged over questions."""
        return {
            stage: Estimate(value=1 - lost.value, low=1 - lost.high, high=1 - lost.low, n=lost.n)
            for stage, lost in self.parse_failures.items()
            if stage != "grade"
        }

    @property
    def total(self) -> StageUsage:
        """Calls and tokens, summed over all stages."""
        return sum(self.usage.values(), StageUsage())


def scores_of(transcripts: Iterable[Transcript], external: ExternalScores = NO_EXTERNAL_SCORES) -> Scores:
    """Compute all scores in one pass; memory holds a few small rows per transcript, and texts of translations."""
    return score_with_values("", transcripts, external)[0]


def score_with_values(
    name: str, transcripts: Iterable[Transcript], external: ExternalScores = NO_EXTERNAL_SCORES
) -> tuple[Scores, ArmValues]:
    """All scores of an arm, and the values behind them, in one pass."""
    counts: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    lost: Counter[QuestionKey] = Counter()
    usage: dict[str, StageUsage] = {}
    readings: defaultdict[str, defaultdict[str, list[ParseStatus]]] = defaultdict(lambda: defaultdict(list))
    """Stage -> question -> the reading of each reply."""
    ungraded: defaultdict[str, list[bool]] = defaultdict(list)
    """Question -> whether each answer lacks a grade."""
    shadows: list[GatedDebate | None] = []
    votes: dict[tuple[QuestionKey, int], list[float]] = {}
    words: list[int] = []

    def count(debate: DebateMeasures) -> None:
        transcript = debate.transcript
        key = (transcript.id, transcript.question)
        counts.update(["transcripts", transcript.reading])
        counts["degraded"] += transcript.degraded
        counts["partial_pools"] += bool(transcript.pool_partial)
        counts["shortened"] += is_shortened(transcript)
        counts["read_golds"] += transcript.oracle
        stops[transcript.stop_reason] += 1
        shadows.append(gated_debate(debate))
        if transcript.status == "failed":
            failures[transcript.final.error or "unknown"] += 1
            lost[key] += bool(transcript.answers)
        elif transcript.status != "deferred":
            votes[key, transcript.repeat] = debate.votes
            words.extend([len(transcript.answer.split())] if transcript.answer else [])
        for stage, used in transcript.usage.items():
            usage[stage] = usage.get(stage, StageUsage()) + used
        for stage, reply in _replies(transcript):
            if not isinstance(reply, Digest) and reply.error is None:
                # A pick is read if it names a debater: its status is that of the debater's stance.
                picked = stage == "pick" and isinstance(reply, Final) and reply.agent is not None
                status: ParseStatus = "ok" if picked else reading(reply)
                readings[stage][transcript.id].append(status)
                cut[stage] += status == "cut"
        if GRADER in external and transcript.answers and transcript.status == "ok":
            ungraded[transcript.id].append((transcript.id, transcript.repeat) not in external[GRADER])

    arm = read_arm(name, transcripts, external, count)
    means = {name: mean for name in arm.values if (mean := arm.mean(name))}
    metrics = {name: means[name] for name in dict.fromkeys((*METRICS.used(), *external)) if name in means}
    fields: dict[str, Any] = {name: counts[name] for name in _COUNTS}
    failed_parses = {stage: _share(replies, UNREAD_STATUSES) for stage, replies in readings.items()}
    failed_parses |= {"grade": _share(ungraded, (True,))} if ungraded else {}
    scores = Scores(
        questions=len(arm.questions),
        datasets=len(set(arm.questions.values())),
        **fields,
        correct=means.get("correct"),
        measure=arm.first_metric,
        correct_if_failed=_if_failed(arm, lost),
        metrics=metrics,
        mean_rounds=means.get("rounds"),
        stop_reasons=dict(stops.most_common()),
        failures=dict(failures.most_common()),
        parse_failures=failed_parses,
        unread={status: counts[status] for status in UNREAD_STATUSES if counts[status]},
        cut=dict(+cut),
        usage=usage,
        debate={name: mean for name, mean in means.items() if name not in ("correct", "rounds", *metrics)},
        by_round=over_rounds(list(arm.rounds.values())),
        shadow=shadow_of(shadows),
        votes=effective_votes([*votes.values()]),
        answer_words=median(words) if words else None,
        ungraded=sum(map(sum, ungraded.values())) if GRADER in metrics else 0,
    )
    return scores, arm


def is_shortened(transcript: Transcript) -> bool:
    """Whether a prompt of the debate was too long and was shortened."""
    return any(reply.truncated is not None for _, reply in _replies(transcript))


_COUNTS = ("transcripts", "abstained", "failed", "deferred", "degraded", "partial_pools", "shortened", "read_golds")
"""Fields of :class:`Scores` that count transcripts."""


def _share(replies: Mapping[str, Sequence[object]], kinds: Sequence[object]) -> Estimate:
    """The share of these kinds among a question's replies, averaged over questions."""
    estimate = over_repeats([[float(each in kinds) for each in statuses] for statuses in replies.values()])
    assert estimate is not None
    return estimate


def _if_failed(arm: ArmValues, lost: Mapping[QuestionKey, int]) -> tuple[float, float] | None:
    """``correct`` if all failed debates of questions with gold answers were wrong, and if all were right."""
    values = arm.values.get("correct", {})
    repeats = {key: [*values.get(key, {}).values()] for key in arm.questions if key in values or lost[key]}
    if not repeats:
        return None
    low, high = (fmean(fmean([*each, *[end] * lost[key]]) for key, each in repeats.items()) for end in (0.0, 1.0))
    return low, high


_Reply = Selection | Stance | Reflection | Verdict | Digest | Final


def _replies(transcript: Transcript) -> Iterator[tuple[str, _Reply]]:
    """Yield (stage, reply) for every reply of a model in this debate. Given first-round stances are not replies."""
    for entry in transcript.rounds:
        for turn in () if transcript.first_round_given and entry is transcript.rounds[0] else entry.turns:
            if turn.selection is not None:
                yield "select", turn.selection
            yield turn.stance.stage, turn.stance
            if turn.reflection is not None:
                yield "reflect", turn.reflection
        if entry.verdict is not None and entry.verdict.rule != "too_few":
            yield "judge", entry.verdict
        if entry.extracted is not None:
            yield "extract", entry.extracted
        if entry.digest is not None:
            yield "digest", entry.digest
    final = transcript.final
    if final.by == "summarizer":
        yield "summarize", final
    elif "pick" in transcript.usage:
        yield "pick", final
    elif "extract" in transcript.usage and transcript.rounds[-1].extracted is None:
        yield "extract", final
