"""All scores of a run, from its transcripts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache

from pydantic import TypeAdapter

from madke.core.transcript import Digest, Final, Reflection, Selection, StageUsage, Stance, Transcript, Verdict
from madke.scoring.metrics import METRICS
from madke.scoring.rounds import round_rows
from madke.scoring.rows import (
    GRADER,
    NOTHING_SAID,
    Datasets,
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
from madke.scoring.spending import Spending
from madke.scoring.statistics import Estimate, Spread, between_repeats
from madke.scoring.translations import corpus_scores


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of one run. Means are over questions (repeats of one are averaged first), failed ones left out.

    "Correct" is the first metric of a question's task on the final answer. Abstained answers count as wrong.
    """

    questions: int
    datasets: int
    """How many datasets they come from, those of no name as one. Three and more widen intervals."""
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
    :func:`madke.scoring.rows.row`."""
    by_round: Mapping[str, tuple[Estimate | None, ...]] = field(default_factory=dict)
    """Name -> the value after round 1, 2, ... of the longest debate; None where no debate has one. The names stand with
    :func:`madke.scoring.rounds.round_rows`; debates that have ended count as
    :func:`madke.scoring.rows.over_rounds` says."""
    corpus: Mapping[str, float] = field(default_factory=dict)
    """``bleu`` and ``chrf`` of all translations as one corpus: :func:`madke.scoring.translations.corpus_scores`."""

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
    """Cost and shared prefixes, of a run directory whose calls are at hand; the transcripts do not say them."""
    scored: str = ""
    """Fingerprint of what a run directory held when these scores of it were written; empty elsewhere."""

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
    rows: dict[str, list[Row]] = {}
    finished: list[tuple[str, int]] = []
    values: list[Row] = []
    by_round: dict[str, list[list[Row]]] = {}
    translations: list[tuple[str, tuple[str, ...]]] = []
    datasets: dict[str, str | None] = {}
    statuses: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    usage: dict[str, StageUsage] = {}
    unread: dict[str, dict[str, list[bool]]] = {}
    for transcript in transcripts:
        datasets[transcript.id] = transcript.dataset
        statuses[transcript.status] += 1
        flags["degraded"] += transcript.degraded
        flags["partial"] += bool(transcript.pool_partial)
        flags["read_golds"] += transcript.oracle
        stops[transcript.stop_reason] += 1
        for stage, used in transcript.usage.items():
            usage[stage] = total_usage((usage.get(stage, StageUsage()), used))
        for stage, reply, missed in _replies(transcript):
            if missed is not None and reply.error is None:
                unread.setdefault(stage, {}).setdefault(transcript.id, []).append(missed)
        if GRADER in said and transcript.answers and transcript.status == "ok":
            ungraded = (transcript.id, transcript.repeat) not in said[GRADER]
            unread.setdefault("grade", {}).setdefault(transcript.id, []).append(ungraded)
        flags["shortened"] += shortened(transcript)
        kept = rows.setdefault(transcript.id, [])
        if transcript.status != "failed":
            stood = round_rows(transcript)
            by_round.setdefault(transcript.id, []).append(stood)
            finished.append((transcript.id, transcript.repeat))
            values.append(joined(row(transcript, stood), transcript, said))
            if transcript.task == "translation" and transcript.answers:
                translations.append((transcript.answer or "", transcript.answers))
        else:
            failures[transcript.final.error or "unknown"] += 1
            if transcript.answers:
                kept.append({"failed": 1.0})
    by_repeat: dict[str, dict[str, dict[int, float]]] = {}
    for (id_, repeat), of_one in zip(finished, of_one_arm(values), strict=True):
        rows[id_].append(of_one)
        for name, value in of_one.items():
            by_repeat.setdefault(name, {}).setdefault(id_, {})[repeat] = value

    def mean(name: str) -> Estimate | None:
        return over_questions(rows, name, datasets)

    def means(names: Iterable[str]) -> dict[str, Estimate]:
        return {name: found for name in names if (found := mean(name))}

    metrics = means(dict.fromkeys((*METRICS, *said)))
    graded = GRADER in metrics
    return Scores(
        questions=len(rows),
        datasets=len(set(datasets.values())),
        transcripts=statuses.total(),
        abstained=statuses["abstained"],
        failed=statuses["failed"],
        degraded=flags["degraded"],
        partial_pools=flags["partial"],
        shortened=flags["shortened"],
        read_golds=flags["read_golds"],
        correct=mean("correct"),
        correct_if_failed=_bounds(rows, "correct", lambda row: "correct" in row or "failed" in row),
        metrics=metrics,
        cons_judge=mean("cons_judge"),
        co2_judge=mean("co2_judge"),
        cons_matcher=mean("cons_matcher"),
        co2_matcher=mean("co2_matcher"),
        mean_rounds=mean("rounds"),
        stop_reasons=dict(stops.most_common()),
        failures=dict(failures.most_common()),
        parse_failures={
            stage: found for stage, replies in unread.items() if (found := _share_of_replies(replies, datasets))
        },
        usage=usage,
        debate=means(_beside_metrics(rows, metrics)),
        by_round=over_rounds(by_round, datasets),
        corpus=corpus_scores(translations),
        co2_judge_grader=mean("co2_judge_grader"),
        co2_matcher_grader=mean("co2_matcher_grader"),
        ungraded=sum(map(sum, unread.get("grade", {}).values())) if graded else 0,
        grader_if_ungraded=_bounds(rows, GRADER, lambda row: "correct" in row) if graded else None,
        repeats={
            name: spread
            for name in ("correct", *metrics, *_CONSISTENT)
            if (spread := between_repeats(by_repeat.get(name, {}).values()))
        },
    )


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
            low.append(sum(row.get(name, 0.0) for row in judged) / len(judged))
            high.append(sum(row.get(name, 1.0) for row in judged) / len(judged))
    return (sum(low) / len(low), sum(high) / len(high)) if low else None


def _share_of_replies(replies: Mapping[str, Sequence[bool]], datasets: Datasets) -> Estimate | None:
    """Over questions: several replies to one of them are no independent observations."""
    missed = [list(map(float, of_one)) for of_one in replies.values()]
    return over_repeats(missed, [datasets.get(id_) for id_ in replies])


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
