"""All scores of a run, from its transcripts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache

from pydantic import TypeAdapter

from madke.core.transcript import Digest, Final, Reflection, Selection, StageUsage, Stance, Transcript, Verdict
from madke.scoring.metrics import METRICS
from madke.scoring.rounds import round_rows
from madke.scoring.rows import Datasets, Row, Rows, over_questions, over_rounds, row
from madke.scoring.spending import Spending
from madke.scoring.statistics import Estimate, estimate
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
    stand among them once a run directory is scored: over the questions with an answer."""
    cons_judge: Estimate | None
    """Cons (Wang et al., Eq. 8), consistent by the judge's last verdict; None without a judge, or where it
    was not asked about every question (``agreement_then_judge``)."""
    co2_judge: Estimate | None
    """Co2 (Eq. 7), consistent by the judge's last verdict and correct."""
    cons_matcher: Estimate | None
    """Cons, consistent if all last stances were parsed and agree under the task's matcher."""
    co2_matcher: Estimate | None
    mean_rounds: float
    stop_reasons: Mapping[str, int]
    failures: Mapping[str, int]
    """Why transcripts failed -> how many, the commonest first."""
    parse_failures: Mapping[str, Estimate]
    """By stage: share of a question's replies in which no value of the stage's grammar was found, over questions."""
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

    spending: Spending | None = None
    """Cost and shared prefixes, of a run directory whose calls are at hand; the transcripts do not say them."""
    scored: str = ""
    """Fingerprint of what a run directory held when these scores of it were written; empty elsewhere."""

    @property
    def total(self) -> StageUsage:
        """Calls and tokens of all stages together."""
        return total_usage(self.usage.values())


def score(transcripts: Iterable[Transcript]) -> Scores:
    """Compute all scores in one pass; a few small rows are kept for each transcript, and the text of translations.

    Raises:
        UserError: A transcript names a task that does not exist.
    """
    rows: dict[str, list[Row]] = {}
    by_round: dict[str, list[list[Row]]] = {}
    translations: list[tuple[str, tuple[str, ...]]] = []
    datasets: dict[str, str | None] = {}
    statuses: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    usage: dict[str, StageUsage] = {}
    unread: dict[str, dict[str, list[bool]]] = {}
    rounds = 0
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
        flags["shortened"] += shortened(transcript)
        kept = rows.setdefault(transcript.id, [])
        if transcript.status != "failed":
            stood = round_rows(transcript)
            by_round.setdefault(transcript.id, []).append(stood)
            kept.append(row(transcript, stood))
            if transcript.task == "translation" and transcript.answers:
                translations.append((transcript.answer or "", transcript.answers))
            flags["judged"] += "cons_judge" in kept[-1]
            rounds += len(transcript.rounds)
        else:
            failures[transcript.final.error or "unknown"] += 1
            if transcript.answers:
                kept.append({"failed": 1.0})
    n = statuses.total()
    finished = n - statuses["failed"]
    # A judge who is asked for some questions only (agreement_then_judge) says nothing about all.
    judged = flags["judged"] == finished
    return Scores(
        questions=len(rows),
        datasets=len(set(datasets.values())),
        transcripts=n,
        abstained=statuses["abstained"],
        failed=statuses["failed"],
        degraded=flags["degraded"],
        partial_pools=flags["partial"],
        shortened=flags["shortened"],
        read_golds=flags["read_golds"],
        correct=over_questions(rows, "correct", datasets),
        correct_if_failed=_bounds(rows),
        metrics={name: found for name in METRICS if (found := over_questions(rows, name, datasets))},
        cons_judge=over_questions(rows, "cons_judge", datasets) if judged else None,
        co2_judge=over_questions(rows, "co2_judge", datasets) if judged else None,
        cons_matcher=over_questions(rows, "cons_matcher", datasets),
        co2_matcher=over_questions(rows, "co2_matcher", datasets),
        mean_rounds=rounds / finished if finished else 0.0,
        stop_reasons=dict(stops.most_common()),
        failures=dict(failures.most_common()),
        parse_failures={
            stage: found for stage, replies in unread.items() if (found := _share_of_replies(replies, datasets))
        },
        usage=usage,
        debate={name: found for name in _beside_metrics(rows) if (found := over_questions(rows, name, datasets))},
        by_round=over_rounds(by_round, datasets),
        corpus=corpus_scores(translations),
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


def _beside_metrics(rows: Rows) -> dict[str, None]:
    """The names of the values that have no field of their own, in the order in which they appear."""
    own = {"correct", "failed", "cons_judge", "co2_judge", "cons_matcher", "co2_matcher"} | METRICS.keys()
    return dict.fromkeys(name for repeats in rows.values() for row in repeats for name in row if name not in own)


def _bounds(rows: Rows) -> tuple[float, float] | None:
    """Mean correctness over questions with gold answers, failed ones counted as wrong, and as right."""
    low, high = [], []
    for repeats in rows.values():
        judged = [row for row in repeats if "correct" in row or "failed" in row]
        if judged:
            low.append(sum(row.get("correct", 0.0) for row in judged) / len(judged))
            high.append(sum(row.get("correct", 1.0) for row in judged) / len(judged))
    return (sum(low) / len(low), sum(high) / len(high)) if low else None


def _share_of_replies(replies: Mapping[str, Sequence[bool]], datasets: Datasets) -> Estimate | None:
    """Over questions: several replies to one of them are no independent observations."""
    shares = [sum(missed) / len(missed) for missed in replies.values()]
    return estimate(shares, [datasets.get(id_) for id_ in replies])


_Reply = Selection | Stance | Reflection | Verdict | Digest | Final


def _replies(transcript: Transcript) -> Iterator[tuple[str, _Reply, bool | None]]:
    """Every reply that this debate asked for: its stage, the reply, and whether no value could be read in it.

    The last is None where nothing is to be read. Stances that were given are nobody's reply.
    """
    for entry in transcript.rounds:
        for turn in () if transcript.given and entry is transcript.rounds[0] else entry.turns:
            if turn.selection is not None:
                yield "select", turn.selection, turn.selection.status == "abstained"
            yield turn.stance.stage, turn.stance, turn.stance.status == "abstained"
            if turn.reflection is not None:
                yield "reflect", turn.reflection, turn.reflection.satisfied is None
        if entry.verdict is not None and entry.verdict.rule != "too_few":
            yield "judge", entry.verdict, entry.verdict.consensus is None
        if entry.extracted is not None:
            yield "extract", entry.extracted, entry.extracted.status == "abstained"
        if entry.digest is not None:
            yield "digest", entry.digest, None
    final = transcript.final
    if final.by == "summarizer":
        yield "summarize", final, final.status == "abstained"
    elif "pick" in transcript.usage:
        yield "pick", final, final.agent is None
    elif "extract" in transcript.usage and transcript.rounds[-1].extracted is None:
        yield "extract", final, final.status == "abstained"
