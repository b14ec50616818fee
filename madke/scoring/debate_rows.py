"""Named values of each debate and of each of its rounds; means and tests are computed from them.

Values that do not apply to a debate or round are missing. Failed stances are left out everywhere. A stance without a
readable answer is never right and agrees with no other. There are two disagreements (Liang et al., 2023, sections 1 and
4): ``disagreement`` is between the debaters of one round, ``self_disagreement`` between two adjacent rounds of one
debater.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from math import log2
from statistics import fmean
from types import MappingProxyType

from madke.core.transcript import PoolEntry, Round, Transcript, Turn
from madke.engine.agreement import Same, all_agree, answer_groups, matcher, same_answers
from madke.engine.reading import by_cast
from madke.scoring.metrics import (
    ALL_GOLDS,
    BIAS,
    GRADER,
    HUMAN,
    METRICS,
    is_binary,
    may_be_rate,
    metrics_of,
    question_of,
    sentence_bleu,
    texts_in,
)
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task

DebateRow = dict[str, float]

ExternalScores = Mapping[str, Mapping[tuple[str, int], float]]
"""Name of an external scorer, or :data:`GRADER` -> (question id, repeat) -> score of that answer."""

NO_EXTERNAL_SCORES: ExternalScores = MappingProxyType({})

_BY_JUDGE = ("cons_judge", "co2_judge", "co2_judge_grader")


class DebateMeasures:
    """One debate with its task, matcher and first metric: two answers are compared once, and each is scored once.

    ``docs/evaluation.md`` explains the values.
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.question = question = question_of(transcript)
        self.task = get_task(transcript.task)
        self.metrics = metrics_of(self.task)
        self.binary = is_binary(self.metrics[0])
        self.same: Same = cache(matcher(self.task, question))
        metric = METRICS[self.metrics[0]]
        self._metric = cache(lambda answer: metric(answer, question))

    def score(self, answer: str | None) -> float | None:
        """The task's first metric; a missing answer is wrong. None without gold answers."""
        if not self.transcript.answers:
            return None
        return 0.0 if answer is None else self._metric(answer)

    @cached_property
    def rounds(self) -> list[DebateRow]:
        """The values of each round, in order.

        ``accuracy`` is of the largest group of answers, in a tie of the earliest debater's group. ``right`` and the
        log-likelihood require a binary metric; agreement, entropy and disagreement more than one debater.
        ``self_disagreement`` is about debaters with an answer in this round and the one before.
        """
        names = [turn.agent for entry in self.transcript.rounds[:1] for turn in entry.turns]
        rows: list[DebateRow] = []
        before: dict[str, str | None] = {}
        for entry in self.transcript.rounds:
            spoke = by_cast(heard(entry), names)
            groups = answer_groups(spoke, self.same)
            row: DebateRow = {}
            if (accuracy := self.score(majority(groups))) is not None:
                row["accuracy"] = accuracy
                if self.binary and spoke:
                    right = sum(self.score(turn.stance.answer) == 1 for turn in spoke)
                    row["right"] = right / len(spoke)
                    row |= {"log_likelihood": log_likelihood(right, len(spoke))} if len(spoke) > 1 else {}
            if len(entry.turns) > 1:
                row["cons"] = float(all_agree(spoke, self.same))
                row |= {} if accuracy is None else {"co2": row["cons"] * accuracy}
                row |= {"entropy": entropy([len(group) for group in groups])} if groups else {}
                if (answered := sum(map(len, groups))) > 1:
                    alike = sum(same_answers(spoke, self.same).values())
                    row["disagreement"] = 1 - alike / (answered * (answered - 1))
            changed = [
                not self.same(old, new)
                for turn in entry.turns
                if (old := before.get(turn.agent)) is not None and (new := turn.stance.answer) is not None
            ]
            row |= {"self_disagreement": sum(changed) / len(changed)} if changed else {}
            before = {turn.agent: turn.stance.answer for turn in entry.turns}
            rows.append(row)
        return rows

    @cached_property
    def row(self) -> DebateRow:
        """All values of the whole debate, which has finished."""
        transcript, rounds = self.transcript, self.rounds
        answer, last = transcript.answer, transcript.rounds[-1]
        values: DebateRow = {}
        if (correct := self.score(answer)) is not None:
            metric, *others = self.metrics
            others += [ALL_GOLDS] if transcript.dataset == "ramdocs" and ALL_GOLDS not in self.metrics else []
            values[metric] = correct
            values |= {name: 0.0 if answer is None else METRICS[name](answer, self.question) for name in others}
            values["correct"] = correct
        consistent = {}
        # A judge that takes the answer itself (judge_extract) was not asked for consensus.
        if last.verdict is not None and transcript.final.by != "judge":
            consistent["judge"] = float(bool(last.verdict.consensus))
        if "cons" in rounds[-1]:
            consistent["matcher"] = rounds[-1]["cons"]
        for by, value in consistent.items():
            values[f"cons_{by}"] = value
            if correct is not None:
                values[f"co2_{by}"] = value * correct
        if transcript.usage:
            values["rounds"] = float(len(transcript.rounds))
        kept = ("entropy", "log_likelihood", "disagreement")
        values |= {name: rounds[-1][name] for name in kept if name in rounds[-1]}
        if correct is not None and self.binary and sum(len(entry.turns) for entry in transcript.rounds) > 1:
            # The majority of round 1 against the final answer; whether any debater was right in round 1.
            first = rounds[0]["accuracy"]
            values |= {"corrected": float(first == 0 and correct == 1), "collapsed": float(first == 1 and correct == 0)}
            values["oracle"] = float(rounds[0].get("right", 0.0) > 0)
        if wrong := texts_in(transcript.metadata, "wrong_answers"):
            # The trap rate of CIAR, and the adoption of misinformation in RAMDocs.
            stated = answer is not None and not self.task.accepts(answer, self.question)
            values["trapped"] = float(stated and any(self.same(answer or "", each) for each in wrong))
        replies = [turn.stance for entry in transcript.rounds for turn in entry.turns if turn.stance.stage == "reply"]
        if copied := [stance.copied for stance in replies if stance.status != "failed"]:
            values["copied"] = fmean(copied)
        values |= sides(transcript) | self.changes_of_mind() | self.judge_values()
        return values | selection_values(transcript) | self.diversity()

    @property
    def votes(self) -> list[float]:
        """1 or 0 for each vote for the final answer, by the task's first metric; a missing answer is 0.

        Empty if the answer was not found by a vote, without gold answers, and for a metric that is not binary. Samples
        of one vote can be drawn in several rounds. In a debate only the last round votes.
        """
        rounds = self.transcript.rounds
        if self.transcript.final.rule not in ("votes", "tie") or not self.binary:
            return []
        samples = all(turn.stance.stage == "speak" for entry in rounds for turn in entry.turns)
        spoke = [turn for entry in (rounds if samples else rounds[-1:]) for turn in heard(entry)]
        return [vote for turn in spoke if (vote := self.score(turn.stance.answer)) is not None]

    def changes_of_mind(self) -> DebateRow:
        """Who follows whom from a given first round in which some are right and some are wrong; else empty.

        ``right_to_none``: of the debaters that were given a right stance, the share whose next answer cannot be read.
        """
        transcript = self.transcript
        if not transcript.first_round_given or not transcript.answers or len(transcript.rounds) < 2:
            return {}

        def kind(answer: str | None) -> str:
            return "none" if answer is None else "right" if self.task.accepts(answer, self.question) else "wrong"

        before, after = (
            {turn.agent: kind(turn.stance.answer) for turn in heard(entry)} for entry in transcript.rounds[:2]
        )
        if not {"right", "wrong"} <= {*before.values()}:
            return {}
        values = {}
        for was, now in (("right", "wrong"), ("right", "none"), ("wrong", "right")):
            if next_kinds := [after[agent] for agent, kind in before.items() if kind == was and agent in after]:
                values[f"{was}_to_{now}"] = fmean(kind == now for kind in next_kinds)
        return values

    def judge_values(self) -> DebateRow:
        """How often the word of the judge and the summarizer differs from what the task's matcher finds.

        Verdicts without a call, and texts, which no matcher compares, are left out.
        """
        transcript = self.transcript
        if self.task.is_prose:
            return {}
        wrong: dict[str, list[bool]] = {"false_same": [], "false_different": [], "new_summary": []}
        # A judge that takes the answer itself was not asked for consensus.
        for entry in transcript.rounds if transcript.final.by != "judge" else ():
            verdict = entry.verdict
            if verdict is not None and verdict.consensus is not None and verdict.text:
                alike = all_agree(heard(entry), self.same)
                if verdict.consensus or verdict.rule == "no_answer":
                    wrong["false_same"].append(not alike)
                else:
                    wrong["false_different"].append(alike)
        if transcript.final.by == "summarizer" and (summary := transcript.final.answer) is not None:
            answers = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns}
            wrong["new_summary"].append(not any(self.same(summary, answer) for answer in answers if answer))
        return {name: fmean(flags) for name, flags in wrong.items() if flags}

    def diversity(self) -> DebateRow:
        """``diversity``: 1 minus the Self-BLEU of two translations (Liang et al., EMNLP 2024, Table 4).

        From 0 to 1; the paper prints it times 100. The base is the first translation of the debate, the current one the
        last. The Self-BLEU of two texts is the mean of the BLEU of each against the other (Zhu et al., 2018, Texygen).
        Empty for other tasks, if one of the two translations is missing, and if the last one does not follow from the
        first: it was made without reading or reviewing another (one turn, samples, votes).
        """
        rounds = self.transcript.rounds
        last = rounds[-1].turns[-1]
        base, current = rounds[0].turns[0].stance.answer, last.stance.answer
        follows = len(rounds) > 1 or last.reads or last.reflection is not None
        if not follows or base is None or current is None or "bleu" not in self.metrics:
            return {}
        if base == current:
            return {"diversity": 0.0}
        return {"diversity": 1 - (sentence_bleu(base, [current]) + sentence_bleu(current, [base])) / 2}


def correct(transcript: Transcript) -> float | None:
    """The task's first metric on the final answer; None for a failed or deferred one, or without gold answers."""
    if transcript.status in ("failed", "deferred"):
        return None
    return DebateMeasures(transcript).score(transcript.answer)


def majority(groups: Sequence[Sequence[Turn]]) -> str | None:
    """The answer of the largest group, in a tie of the first one; None without groups."""
    return max(groups, key=len)[0].stance.answer if groups else None


def heard(entry: Round) -> list[Turn]:
    """The turns of a round whose calls did not fail."""
    return [turn for turn in entry.turns if turn.stance.status != "failed"]


def sides(transcript: Transcript) -> DebateRow:
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


def entropy(sizes: Sequence[int]) -> float:
    """``-sum p log2 p`` in bits, where ``p`` is the share of each group of answers (Zhang et al., Eq. 5)."""
    total = sum(sizes)
    return sum(size / total * log2(total / size) for size in sizes)


def log_likelihood(right: int, n: int) -> float:
    """``log2 P(truth)``, where P is the share of the ``n`` debaters who are right (Zhang et al., Eq. 4).

    The paper does not define ``P = 0``; here it counts as ``1 / 2n``.
    """
    return log2(right / n if right else 1 / (2 * n))


def over_rounds(debates: Sequence[Sequence[Sequence[DebateRow]]]) -> dict[str, tuple[Estimate | None, ...]]:
    """The mean of each value after round 1, 2, ... of the longest debate; None if no debate has it in that round.

    ``debates``: for each question, the round rows of its repeats. A debate that has ended keeps its last values, so
    that all rounds have the same questions. Whoever is satisfied disagrees with itself in none of its further
    iterations: its ``self_disagreement`` is 0 (Liang et al., Figure 1, is about all questions).
    """
    longest = max((len(rounds) for repeats in debates for rounds in repeats), default=0)
    names = dict.fromkeys(name for repeats in debates for rounds in repeats for row in rounds for name in row)

    def value(rounds: Sequence[DebateRow], n: int, name: str) -> float | None:
        if n < len(rounds):
            return rounds[n].get(name)
        return 0.0 if name == "self_disagreement" else rounds[-1].get(name)

    def mean(n: int, name: str) -> Estimate | None:
        rows = ([number for one in repeats if (number := value(one, n, name)) is not None] for repeats in debates)
        return over_repeats([values for values in rows if values], shares=may_be_rate(name))

    return {name: tuple(mean(n, name) for n in range(longest)) for name in names}


def over_repeats(values: Sequence[Sequence[float]], *, shares: bool = True) -> Estimate | None:
    """The mean over questions of the mean over repeats, as in :func:`estimate`; None without questions."""
    return estimate([repeats[0] if len(repeats) == 1 else fmean(repeats) for repeats in values], shares=shares)


def with_external(values: DebateRow, transcript: Transcript, external: ExternalScores) -> DebateRow:
    """The row of a transcript with the external scores of its answer.

    With a grader it also has ``co2_judge_grader`` and ``co2_matcher_grader``, Wang et al.'s Co2 as published: the
    debaters agreed, and the grader finds the answer right. If they agreed on an ungraded answer, both are missing.
    With people's grades of a translation it has ``bias``.
    """
    key = (transcript.id, transcript.repeat)
    merged = values | {name: each[key] for name, each in external.items() if key in each}
    if (resolved := merged.get(f"{HUMAN}ambiguity_resolved")) is not None:
        merged[BIAS] = 1 - resolved
    for by in ("judge", "matcher") if GRADER in external and "correct" in values else ():
        agreed = values.get(f"cons_{by}")
        if agreed == 0:
            merged[f"co2_{by}_grader"] = 0.0
        elif agreed is not None and GRADER in merged:
            merged[f"co2_{by}_grader"] = agreed * merged[GRADER]
    return merged


def of_one_arm(rows: Sequence[DebateRow]) -> Iterator[DebateRow]:
    """Make the rows of all finished transcripts of an arm comparable; the order is unchanged.

    The judge's values are kept only if all rows have them: ``agreement_then_judge`` asks it about some debates only.
    """
    judged = all("cons_judge" in row for row in rows)
    for row in rows:
        yield {name: value for name, value in row.items() if judged or name not in _BY_JUDGE}


# What debaters select


def selection_values(transcript: Transcript) -> DebateRow:
    """Means over the selections of one debate; ``docs/evaluation.md`` explains them.

    Failed selections and those of a given first round are excluded; an unparsed one counts as empty. Passages found by
    debaters' own searches are not in the pool, and neither right nor wrong. Precision is over non-empty selections;
    precision and recall require gold in the pool.
    """
    gold, name_of = gold_of(transcript)
    in_pool = gold & {name_of(entry) for entry in transcript.pool if entry.asked_by is None}
    values = {"pool_recall": len(in_pool) / len(gold)} if gold and transcript.pool else {}
    turns = [turn for entry in transcript.rounds[transcript.first_round_given :] for turn in entry.turns]
    selections = [turn.selection for turn in turns if turn.selection and turn.selection.status != "failed"]
    if not selections:
        return values
    entries = {entry.n: entry for entry in transcript.pool}
    chosen = [[entries[n] for n in selection.ids if n in entries] for selection in selections]
    values["no_found"] = fmean(selection.rule == "no_found" for selection in selections)
    values["selected_ids"] = fmean(len(selection.ids) for selection in selections)
    if in_pool:
        retrieved = [[name_of(entry) for entry in passages if entry.asked_by is None] for passages in chosen]
        values["selection_recall"] = fmean(len(in_pool & {*names}) / len(in_pool) for names in retrieved)
        if shares := [fmean(name in in_pool for name in names) for names in retrieved if names]:
            values["selection_precision"] = fmean(shares)
    misleading = set(texts_in(transcript.metadata, "misinformation_passages"))
    if any(entry.key in misleading for entry in transcript.pool):
        values["misinformation_selected"] = fmean(
            any(each.key in misleading for each in passages) for passages in chosen
        )
    return values


def gold_of(transcript: Transcript) -> tuple[frozenset[str], Callable[[PoolEntry], str]]:
    """The keys of a question's gold passages, or else its gold titles, and a function that gives an entry's."""
    if keys := texts_in(transcript.metadata, "gold_passages"):
        return frozenset(keys), lambda entry: entry.key

    def title(text: str) -> str:
        return " ".join(unicodedata.normalize("NFC", text).replace("_", " ").casefold().split())

    return frozenset(map(title, texts_in(transcript.metadata, "gold_titles"))), lambda entry: title(entry.title)
