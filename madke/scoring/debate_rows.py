"""A row of named values for each transcript; means and tests are computed from the rows."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from types import MappingProxyType
from typing import Self

from madke.core.transcript import PoolEntry, Selection, Transcript
from madke.engine.agreement import agreed, matcher
from madke.scoring.metrics import (
    ALL_GOLDS,
    BIAS,
    GRADER,
    HUMAN,
    METRICS,
    has_corpus_metric,
    is_binary,
    listed,
    may_be_rate,
    metrics_of,
    question_of,
    sentence_bleu,
    with_units,
)
from madke.scoring.rounds import carried, round_rows, traps
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

DebateRow = dict[str, float]

_AFTER_LAST = ("entropy", "log_likelihood", "disagreement")

ExternalScores = Mapping[str, Mapping[tuple[str, int], float]]
"""Name of an external scorer, or :data:`GRADER` -> (question id, repeat) -> score of that answer."""

NO_EXTERNAL_SCORES: ExternalScores = MappingProxyType({})

_BY_JUDGE = ("cons_judge", "co2_judge", "co2_judge_grader")
_SHARE = "share_"


def row(transcript: Transcript, rounds: Sequence[DebateRow] | None = None) -> DebateRow:
    """All values of one finished transcript; values that do not apply are missing.

    The metrics of its task; ``correct`` (the first of them); ``cons_judge``, ``co2_judge``, ``cons_matcher`` and
    ``co2_matcher``; ``rounds`` (not for predictions from elsewhere); ``entropy``, ``log_likelihood`` and
    ``disagreement`` after the last round (:func:`madke.scoring.rounds.round_rows`); and the values of
    :func:`flip_values`, :func:`copied_stances`, :func:`sides`, :func:`~madke.scoring.rounds.traps`,
    :func:`changes_of_mind`, :func:`judge_values`, :func:`diversity` and
    :func:`selection_values`. On RAMDocs also ``all_golds``, its owners' measure.
    ``rounds``: the transcript's :func:`~madke.scoring.rounds.round_rows`, if the caller has them already.
    """
    rounds = round_rows(transcript) if rounds is None else rounds
    task = get_task(transcript.task)
    values: DebateRow = {}
    if transcript.answers:
        names = metrics_of(task)
        names += (ALL_GOLDS,) if transcript.dataset == "ramdocs" and ALL_GOLDS not in names else ()
        values = dict(zip(names, _metrics(transcript, names), strict=True))
        values["correct"] = values[names[0]]
    last = transcript.rounds[-1]
    consistent = {}
    # A judge that takes the answer itself (judge_extract) was not asked for consensus.
    if last.verdict is not None and transcript.final.by != "judge":
        consistent["judge"] = float(bool(last.verdict.consensus))
    if "cons" in rounds[-1]:
        consistent["matcher"] = rounds[-1]["cons"]
    for by, value in consistent.items():
        values[f"cons_{by}"] = value
        if "correct" in values:
            values[f"co2_{by}"] = value * values["correct"]
    if transcript.usage:
        values["rounds"] = float(len(transcript.rounds))
    values |= {name: rounds[-1][name] for name in _AFTER_LAST if name in rounds[-1]}
    if "correct" in values:
        values |= flip_values(transcript, values["correct"], rounds)
    values |= (
        copied_stances(transcript)
        | sides(transcript)
        | traps(transcript)
        | changes_of_mind(transcript)
        | judge_values(transcript)
    )
    return with_units(values | selection_values(transcript) | diversity(transcript))


def with_external(values: DebateRow, transcript: Transcript, external: ExternalScores) -> DebateRow:
    """The row of a transcript with the external scores of its answer.

    With a grader it also has ``co2_judge_grader`` and ``co2_matcher_grader``, Wang et al.'s Co2 as published: the
    debaters agreed, and the grader finds the answer right. If they agreed on an ungraded answer, both are missing.
    With people's grades of a translation it has ``bias``.
    """
    key = (transcript.id, transcript.repeat)
    found = values | {name: each[key] for name, each in external.items() if key in each}
    if (resolved := found.get(f"{HUMAN}ambiguity_resolved")) is not None:
        found[BIAS] = 1 - resolved
    for by in ("judge", "matcher") if GRADER in external and "correct" in values else ():
        agreed = values.get(f"cons_{by}")
        if agreed == 0:
            found[f"co2_{by}_grader"] = 0.0
        elif agreed is not None and GRADER in found:
            found[f"co2_{by}_grader"] = agreed * found[GRADER]
    return found


def of_one_arm(rows: Sequence[DebateRow]) -> Iterator[DebateRow]:
    """Make the rows of all finished transcripts of an arm comparable; the order is unchanged.

    The judge's values are kept only if all rows have them: ``agreement_then_judge`` asks it about some debates only. A
    source that a debate chose nothing from gets a share of 0 if another debate of the arm chose from it.
    """
    judged = all("cons_judge" in row for row in rows)
    sources = dict.fromkeys(name for row in rows for name in row if name.startswith(_SHARE))
    for row in rows:
        none = dict.fromkeys(sources if sources.keys() & row.keys() else (), 0.0)
        yield {name: value for name, value in (row | none | row).items() if judged or name not in _BY_JUDGE}


def over_repeats(values: Sequence[Sequence[float]], *, shares: bool = True) -> Estimate | None:
    """The mean over questions of the mean over repeats, as in :func:`estimate`; None without questions."""
    return estimate([held[0] if len(held) == 1 else fmean(held) for held in values], shares=shares)


def over_rounds(debates: Sequence[Sequence[Sequence[DebateRow]]]) -> dict[str, tuple[Estimate | None, ...]]:
    """The mean of each value after round 1, 2, ... of the longest debate; None if no debate has it in that round.

    ``debates``: for each question, the round rows of its repeats. A debate that has ended keeps its last values, so
    that all rounds have the same questions. Changes between rounds are not carried over.
    """
    longest = max((len(rounds) for repeats in debates for rounds in repeats), default=0)
    names = dict.fromkeys(name for repeats in debates for rounds in repeats for row in rounds for name in row)
    means: dict[str, tuple[Estimate | None, ...]] = dict.fromkeys(names, ())
    for n in range(longest):
        after = [[rounds[n] if n < len(rounds) else carried(rounds[-1]) for rounds in repeats] for repeats in debates]
        for name in names:
            held = ([row[name] for row in rows if name in row] for rows in after)
            mean = over_repeats([values for values in held if values], shares=may_be_rate(name))
            means[name] = (*means[name], mean)
    return means


def correct(transcript: Transcript) -> float | None:
    """The task's first metric on the final answer; None for a failed or deferred one, or without gold answers."""
    if transcript.status in ("failed", "deferred") or not transcript.answers:
        return None
    return _metrics(transcript, metrics_of(get_task(transcript.task))[:1])[0]


def _metrics(transcript: Transcript, names: Sequence[str]) -> list[float]:
    if transcript.answer is None:
        return [0.0] * len(names)
    question = question_of(transcript)
    return [METRICS[name](transcript.answer, question) for name in names]


def flip_values(transcript: Transcript, correct: float, rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Compare the final answer with round 1; empty for a single turn or a metric that is not binary.

    Each value is 0 or 1. The final accuracy is the accuracy of round 1 plus ``corrected`` minus ``collapsed``.

    ``corrected``, ``collapsed``: the majority of round 1 was wrong and the final answer is right; the reverse.
    ``oracle``: at least one debater was right in round 1: the result of a perfect choice among them.
    ``repaired``: no debater was right in round 1, but the final answer is right.
    """
    first_metric = metrics_of(get_task(transcript.task))[0]
    if not is_binary(first_metric) or sum(len(r.turns) for r in transcript.rounds) < 2:
        return {}
    first = rounds[0]["accuracy"]
    oracle = rounds[0].get("right", 0.0) > 0
    return {
        "corrected": float(first == 0 and correct == 1),
        "collapsed": float(first == 1 and correct == 0),
        "oracle": float(oracle),
        "repaired": float(not oracle and correct == 1),
    }


def sides(transcript: Transcript) -> dict[str, float]:
    """The debater that a judge sided with (Liang et al., Table 7): ``sided_with_<debater>`` or ``judge_tie``.

    Only for a judge that takes the answer; exactly one value is 1. It is a tie if the judge took an answer but named no
    debater. If its reply could not be parsed, the result is empty.
    """
    final, verdict = transcript.final, transcript.rounds[-1].verdict
    if final.by != "judge":
        return {}
    side = final.agent
    if side is None and verdict is not None and verdict.consensus:
        side = verdict.side
    if side is None and final.answer is None:
        return {}
    names = dict.fromkeys(turn.agent for entry in transcript.rounds for turn in entry.turns)
    return {f"sided_with_{name}": float(name == side) for name in names} | {"judge_tie": float(side is None)}


def copied_stances(transcript: Transcript) -> dict[str, float]:
    """``copied``: the share of stances that reply to others and consist of their words; empty without such stances."""
    stances = [turn.stance for entry in transcript.rounds for turn in entry.turns if turn.stance.stage == "reply"]
    spoken = [stance.copied for stance in stances if stance.status != "failed"]
    return {"copied": fmean(spoken)} if spoken else {}


def changes_of_mind(transcript: Transcript) -> dict[str, float]:
    """Who follows whom from a given first round in which some are right and some are wrong; empty for other debates.

    ``right_to_wrong``, ``right_to_none``: of the debaters that were given a right stance, the share whose next answer
        is wrong, or cannot be read.
    ``wrong_to_right``: of those that were given a wrong one, the share whose next answer is right.

    Only stances with a readable answer count as given, and only calls that succeeded as answers.
    """
    if not transcript.first_round_given or not transcript.answers or len(transcript.rounds) < 2:
        return {}
    task, question = get_task(transcript.task), question_of(transcript)
    given = {
        turn.agent: task.accepts(turn.stance.answer, question)
        for turn in transcript.rounds[0].turns
        if turn.stance.answer is not None
    }
    if {*given.values()} != {True, False}:
        return {}
    after: dict[bool, list[str]] = {True: [], False: []}
    for turn in transcript.rounds[1].turns:
        if turn.agent in given and turn.stance.status != "failed":
            answer = turn.stance.answer
            now = "none" if answer is None else "right" if task.accepts(answer, question) else "wrong"
            after[given[turn.agent]].append(now)
    wanted = (("right", "wrong"), ("right", "none"), ("wrong", "right"))
    shares = ((f"{was}_to_{now}", after[was == "right"], now) for was, now in wanted)
    return {name: fmean(each == now for each in answers) for name, answers, now in shares if answers}


def diversity(transcript: Transcript) -> dict[str, float]:
    """``diversity``: 1 minus the Self-BLEU of the base and the current translation (Liang et al., EMNLP 2024, Table 4).

    From 0 to 1; the paper prints it times 100. The base is the first translation of the debate, the current one the
    last. The Self-BLEU of two texts is the mean of the BLEU of each against the other (Zhu et al., 2018, Texygen).
    Empty for other tasks, if one of the two translations is missing, and if the last one does not follow from the
    first: it was made without reading or reviewing another (one turn, samples, votes).
    """
    first, last = transcript.rounds[0].turns[0], transcript.rounds[-1].turns[-1]
    base, current = first.stance.answer, last.stance.answer
    follows = len(transcript.rounds) > 1 or last.reads or last.reflection is not None
    if not follows or base is None or current is None or not has_corpus_metric(get_task(transcript.task)):
        return {}
    if base == current:
        return {"diversity": 0.0}
    return {"diversity": 1 - (sentence_bleu(base, [current]) + sentence_bleu(current, [base])) / 2}


def correct_votes(transcript: Transcript) -> list[float]:
    """1 or 0 for each vote for the final answer, by the task's first metric; a missing answer is 0.

    Empty if the answer was not found by a vote, without gold answers, and for a metric that is not binary. Samples of
    one vote can be drawn in several rounds. In a debate only the last round votes.
    """
    metric = METRICS[metrics_of(get_task(transcript.task))[0]]
    if transcript.final.rule not in ("votes", "tie") or not transcript.answers or not metric.binary:
        return []
    samples = all(turn.stance.stage == "speak" for entry in transcript.rounds for turn in entry.turns)
    turns = [turn for entry in (transcript.rounds if samples else transcript.rounds[-1:]) for turn in entry.turns]
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    question = question_of(transcript)
    return [0.0 if answer is None else metric(answer, question) for answer in answers]


_Chosen = Mapping[str, Selection]
"""Debater -> its selection in one round."""


def selection_values(transcript: Transcript) -> dict[str, float]:
    """Means over the selections of one debate; values that do not apply are missing.

    Failed selections and those of a given first round are excluded; an unparsed one counts as empty.

    ``no_found``: the share of selections that decline all knowledge.
    ``selected_ids``: passages per selection.
    ``selection_overlap``: the Jaccard index of two debaters' selections in one round, over pairs that are not both
        empty.
    ``selection_change``: 1 minus the Jaccard index of one debater's selections in two adjacent rounds; 0 if both are
        empty.
    ``share_<source>``: the share of all selected passages that came from a source of the pool; the shares add up to 1.
    ``pool_recall``: the share of gold passages, or else of gold titles, in the pool. Passages found by debaters' own
        searches are excluded, here and below. Gold is ``metadata["gold_passages"]`` (keys), or else
        ``metadata["gold_titles"]``: every passage of such a page counts as evidence.
    ``selection_precision``: the share of gold among a selection's passages, over non-empty selections; only if the pool
        contains gold.
    ``selection_recall``: the share of the pool's gold in a selection; only if the pool contains gold.
    ``misinformation_selected``: the share of selections with a passage of ``metadata["misinformation_passages"]``
        (keys; RAMDocs); only if the pool contains one.
    """
    played = transcript.rounds[1:] if transcript.first_round_given else transcript.rounds
    rounds: list[_Chosen] = [
        {
            turn.agent: turn.selection
            for turn in entry.turns
            if turn.selection is not None and turn.selection.status != "failed"
        }
        for entry in played
    ]
    chosen = [selection for entry in rounds for selection in entry.values()]
    wanted, name_of = gold_of(transcript)
    in_pool = wanted & {name_of(entry) for entry in transcript.pool if entry.asked_by is None}
    values = {"pool_recall": len(in_pool) / len(wanted)} if wanted and transcript.pool else {}
    if not chosen:
        return values
    entries = {entry.n: entry for entry in transcript.pool}
    passages = [[entries[n] for n in selection.ids if n in entries] for selection in chosen]
    values |= {
        "no_found": fmean(selection.rule == "no_found" for selection in chosen),
        "selected_ids": fmean(len(selection.ids) for selection in chosen),
    }
    return values | _between(rounds) | _shares(transcript, passages) | _evidence(transcript, passages, in_pool, name_of)


def _between(rounds: Sequence[_Chosen]) -> dict[str, float]:
    pairs = [pair for entry in rounds for pair in combinations([set(s.ids) for s in entry.values()], 2)]
    overlaps = [_jaccard(one, other) for one, other in pairs if one or other]
    changes = [
        1 - _jaccard(set(before[agent].ids), set(after[agent].ids))
        for before, after in pairwise(rounds)
        for agent in before.keys() & after.keys()
    ]
    values = {"selection_overlap": fmean(overlaps)} if overlaps else {}
    return values | ({"selection_change": fmean(changes)} if changes else {})


def _shares(transcript: Transcript, passages: Sequence[Sequence[PoolEntry]]) -> dict[str, float]:
    by_source = Counter(entry.source for selected in passages for entry in selected)
    total = by_source.total()
    sources = dict.fromkeys(entry.source for entry in transcript.pool)
    return {f"share_{source}": by_source[source] / total for source in sources} if total else {}


def _evidence(
    transcript: Transcript,
    passages: Sequence[Sequence[PoolEntry]],
    in_pool: frozenset[str],
    name_of: Callable[[PoolEntry], str],
) -> dict[str, float]:
    values = {}
    retrieved = [[entry for entry in selected if entry.asked_by is None] for selected in passages]
    if in_pool:
        found = [[name for name in map(name_of, selected) if name in in_pool] for selected in retrieved]
        values["selection_recall"] = fmean(len(set(names)) / len(in_pool) for names in found)
        shares = [len(names) / len(selected) for names, selected in zip(found, retrieved, strict=True) if selected]
        if shares:
            values["selection_precision"] = fmean(shares)
    misleading = set(listed(transcript.metadata, "misinformation_passages"))
    if any(entry.key in misleading for entry in transcript.pool):
        misled = [any(entry.key in misleading for entry in selected) for selected in passages]
        values["misinformation_selected"] = fmean(misled)
    return values


def gold_numbers(transcript: Transcript) -> list[int]:
    """The pool numbers of the gold passages, if the question's metadata names any."""
    wanted, name_of = gold_of(transcript)
    return [entry.n for entry in transcript.pool if name_of(entry) in wanted]


def gold_of(transcript: Transcript) -> tuple[frozenset[str], Callable[[PoolEntry], str]]:
    """The keys of a question's gold passages, or else its gold titles, and a function that gives an entry's."""
    if keys := listed(transcript.metadata, "gold_passages"):
        return frozenset(keys), lambda entry: entry.key
    return frozenset(map(_title, listed(transcript.metadata, "gold_titles"))), lambda entry: _title(entry.title)


def _title(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).replace("_", " ").casefold().split())


def _jaccard(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


# The judge and the summarizer, judged: how often their word differs from what the task's matcher finds.


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCounts:
    """Numbers of verdicts and summaries, over all debates of an arm."""

    same: int = 0
    """Verdicts SAME."""
    same_of_different: int = 0
    """Verdicts SAME about answers that the matcher takes for different ones."""
    same_of_missing: int = 0
    """Verdicts SAME where a debater has no answer."""
    different: int = 0
    """Verdicts DIFFERENT."""
    different_of_same: int = 0
    """Verdicts DIFFERENT about answers that the matcher takes for the same."""
    summaries: int = 0
    """Final answers of a summarizer."""
    new_summaries: int = 0
    """Those that the matcher finds in no debater's answers."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def judge_counts(transcript: Transcript) -> JudgeCounts:
    """The counts of one debate. Verdicts without a call, and texts, which no matcher compares, are left out."""
    task = get_task(transcript.task)
    if task.is_prose:
        return JudgeCounts()
    verdicts = list(_verdicts(transcript))
    summary = transcript.final.answer if transcript.final.by == "summarizer" else None
    same = matcher(task, question_of(transcript))
    answers = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns} - {None}
    return JudgeCounts(
        same=sum(said for said, _ in verdicts),
        same_of_different=verdicts.count((True, "different")),
        same_of_missing=verdicts.count((True, "missing")),
        different=sum(not said for said, _ in verdicts),
        different_of_same=verdicts.count((False, "same")),
        summaries=int(summary is not None),
        new_summaries=int(summary is not None and not any(same(summary, answer) for answer in answers if answer)),
    )


def _verdicts(transcript: Transcript) -> Iterator[tuple[bool, str]]:
    """Each verdict of a judge that was asked for consensus: whether it said SAME, and what the matcher finds."""
    same = matcher(get_task(transcript.task), question_of(transcript))
    for entry in transcript.rounds if transcript.final.by != "judge" else ():
        verdict = entry.verdict
        if verdict is None or verdict.consensus is None or not verdict.text:
            continue
        spoke = [turn for turn in entry.turns if turn.stance.status != "failed"]
        missing = any(turn.stance.answer is None for turn in spoke)
        said = verdict.consensus or verdict.rule == "no_answer"
        yield said, "missing" if missing else "same" if agreed(spoke, same) else "different"


def judge_values(transcript: Transcript) -> dict[str, float]:
    """The same as shares of one debate; values that do not apply are missing.

    ``false_same``: of the judge's verdicts SAME, the share where the matcher finds different or missing answers.
    ``false_different``: of its verdicts DIFFERENT, the share where the matcher finds the same answer.
    ``new_summary``: whether the summarizer's answer differs from every debater's answer.
    """
    counts = judge_counts(transcript)
    shares = {
        "false_same": (counts.same_of_different + counts.same_of_missing, counts.same),
        "false_different": (counts.different_of_same, counts.different),
        "new_summary": (counts.new_summaries, counts.summaries),
    }
    return {name: part / whole for name, (part, whole) in shares.items() if whole}
