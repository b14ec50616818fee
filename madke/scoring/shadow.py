"""What a gate on the answers of round 1 would have saved, computed from finished debates without a call.

A gate skips the debate of a question if its rule holds after round 1. Then the answer is the most frequent one of round
1, and only the calls of that round are made. Else everything happens as it did. A real run of the same gate on the same
calls gives the same figures, if its debate cannot end early for another reason (``tests/scoring/test_shadow.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from madke.core.errors import count_of
from madke.core.transcript import StageUsage, Transcript, Turn
from madke.engine.agreement import Same, agreed, answer_groups, matcher
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import METRICS, common_metric, correct_by, metrics_of, question_of
from madke.scoring.statistics import Estimate
from madke.tasks import get_task

_CONCLUDING = {"judge", "extract", "pick", "summarize", "digest"}
_MAJORITY = 0.5 + 1e-6


GATES: Mapping[str, Callable[[tuple[Turn, ...], Same], bool]] = {
    "agreement": agreed,
    "majority": lambda turns, same: agreed(turns, same, _MAJORITY),
    "vote": lambda turns, same: True,
}
"""Gate -> its rule. ``agreement``: all answers are the same (``early_stop``). ``majority``: more than half of them
(``agreement_share``); with two debaters the same as ``agreement``. ``vote``: no debate at all."""


_CHANGED_NOTE = (
    "Changed: another answer under the task's matcher. Corrected, spoiled and the percentages are by the measure of "
    "`correct`, which may differ between answers that the matcher takes for the same."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateCost:
    """Calls and tokens."""

    calls: int = 0
    tokens: int | None = 0
    """None: a turn does not say what it used, such as one of a given first round."""

    def __add__(self, other: GateCost) -> GateCost:
        tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        return GateCost(calls=self.calls + other.calls, tokens=tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateFigures:
    """What one gate would have done."""

    skipped: int
    """Debates that it skips."""
    spent: GateCost
    """What all debates cost with it."""
    correct: Estimate | None
    """Accuracy with it, by the shadow's measure; None without gold answers."""
    difference: Estimate | None
    """That accuracy minus the debates'; positive: the gate gains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shadow:
    """Finished debates next to what gates would have made of them. Failed and deferred debates are left out."""

    debates: int
    changed: int
    """Debates whose answer is not the most frequent one of round 1, under the task's matcher."""
    corrected: int
    """Changed answers that were wrong and are right, or better by a metric that has more than two values."""
    spoiled: int
    judged: int
    """Debates with gold answers."""
    correct: Estimate | None
    spent: GateCost
    gates: Mapping[str, GateFigures]
    measure: str = "correct"
    """The metric that ``correct`` is, as in the scores of the run."""
    sentence: str = ""
    """What the debates changed, and what a vote on round 1 gives, in one sentence."""

    @property
    def price(self) -> str:
        """What each answer that the debates gained over that vote has cost, in one sentence; empty without gold."""
        if not self.judged:
            return ""
        gained, calls = self.corrected - self.spoiled, self.spent.calls - self.gates["vote"].spent.calls
        spent = f"{calls:,} more {'call' if calls == 1 else 'calls'}"
        if gained <= 0:
            outcome = "No answer gained" if gained == 0 else f"{count_of(-gained, 'answer')} lost"
            return f"{outcome} for {spent}."
        return f"{count_of(gained, 'answer')} gained for {spent}: {calls / gained:,.3g} calls for each."


def changed_note(shadows: Iterable[Shadow | None]) -> str | None:
    """Footnote of :attr:`Shadow.sentence`; None if no debate has a gold answer."""
    return _CHANGED_NOTE if any(each is not None and each.judged for each in shadows) else None


@dataclass(kw_only=True)
class ShadowCounter:
    """Collects debates one by one."""

    _held: list[_Debate] = field(default_factory=list)
    _debated: bool = False

    def add(self, transcript: Transcript) -> None:
        """Count a debate."""
        if (
            transcript.status not in ("failed", "deferred")
            and transcript.rounds
            and len(transcript.rounds[0].turns) > 1
        ):
            self._debated |= _is_debate(transcript)
            self._held.append(_compared(transcript))

    def found(self) -> Shadow | None:
        """The figures; None if no debate went beyond the answers of several debaters in round 1."""
        if not self._debated:
            return None
        held = self._held
        wide = max(each.debaters for each in held) > 2
        gates = [name for name in GATES if wide or name != "majority"]
        shadow = Shadow(
            debates=len(held),
            changed=sum(each.changed for each in held),
            corrected=sum(each.changed and each.gain > 0 for each in held),
            spoiled=sum(each.changed and each.gain < 0 for each in held),
            judged=sum(each.score is not None for each in held),
            correct=_mean(held, lambda each: each.score),
            spent=sum((each.whole for each in held), GateCost()),
            measure=common_metric(each.measure for each in held),
            gates={name: _figures(held, name) for name in gates},
        )
        return replace(shadow, sentence=_sentence(shadow))


def shadow_of(transcripts: Iterable[Transcript]) -> Shadow | None:
    """The figures of a run's debates."""
    counter = ShadowCounter()
    for transcript in transcripts:
        counter.add(transcript)
    return counter.found()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Debate:
    id: str
    debaters: int
    changed: bool
    measure: str
    score: float | None
    voted: float | None
    """The score of the most frequent answer of round 1."""
    whole: GateCost
    first: GateCost
    skips: Mapping[str, bool]

    @property
    def gain(self) -> float:
        return (self.score or 0) - (self.voted or 0)


def _is_debate(transcript: Transcript) -> bool:
    """Whether anything but samples of one vote came after round 1: replies, or a judge or summarizer."""
    replies = any(turn.stance.stage == "reply" for entry in transcript.rounds[1:] for turn in entry.turns)
    return replies or bool(_CONCLUDING & transcript.usage.keys())


def _sentence(shadow: Shadow) -> str:
    debates = count_of(shadow.debates, "answer")
    told = f"Debate changed {shadow.changed:,} of {debates}"
    vote = shadow.gates["vote"]
    paid = [*_shares(vote.spent, shadow.spent)][-1]
    if vote.correct is None or shadow.correct is None:
        return f"{told}; voting on round 1 takes {paid}."
    told += f": {shadow.corrected:,} corrected, {shadow.spoiled:,} spoiled"
    figures = f"{100 * vote.correct.value:.1f} instead of {100 * shadow.correct.value:.1f} %"
    figures += f" {correct_by(shadow.measure)}"
    return f"{told}; voting on round 1 gives {figures} for {paid}."


def _shares(part: GateCost, whole: GateCost) -> Iterator[str]:
    """The share of the calls, and of the tokens where they are known."""
    yield f"{100 * part.calls / max(1, whole.calls):.0f} % of the calls"
    if part.tokens is not None and whole.tokens:
        yield f"{100 * part.tokens / whole.tokens:.0f} % of the tokens"


def gate_lines(shadow: Shadow) -> Iterator[str]:
    """Each gate in a line: what it skips, what it costs, and what it gains or loses."""
    for name, found in shadow.gates.items():
        shares = ", ".join(_shares(found.spent, shadow.spent))
        line = f"gate {name}: skips {found.skipped:,} of {count_of(shadow.debates, 'debate')}, {shares}"
        if found.correct is not None and (change := found.difference) is not None:
            value, low, high = (100 * each for each in (change.value, change.low, change.high))
            by = f"{value:+.1f}, 95 % {low:+.1f} to {high:+.1f}" if low < high else "no question differs"
            line += f"; {correct_by(shadow.measure)} {100 * found.correct.value:.1f} % ({by})"
        yield line


def _compared(transcript: Transcript) -> _Debate:
    task, question = get_task(transcript.task), question_of(transcript)
    same = cache(matcher(task, question))
    measure = metrics_of(task)[0]
    metric = METRICS[measure]
    turns = tuple(turn for turn in transcript.rounds[0].turns if turn.stance.status != "failed")
    groups = answer_groups(turns, same)
    # As in a vote; a tie goes to the earliest debater.
    voted = max(groups, key=len)[0].stance.answer if groups else None
    answer = transcript.answer

    def score(found: str | None) -> float | None:
        return None if not transcript.answers else 0.0 if found is None else metric(found, question)

    kept = voted == answer or (voted is not None and answer is not None and same(voted, answer))
    return _Debate(
        id=transcript.id,
        debaters=len(transcript.rounds[0].turns),
        changed=not kept,
        measure=measure,
        score=score(answer),
        voted=score(voted),
        whole=GateCost(calls=transcript.total.calls, tokens=transcript.total.tokens),
        first=_first(transcript),
        skips={name: rule(turns, same) for name, rule in GATES.items()},
    )


def _first(transcript: Transcript) -> GateCost:
    turns = transcript.rounds[0].turns
    used = [turn.usage for turn in turns if turn.usage is not None]
    if len(used) < len(turns):
        calls = sum(1 + (turn.selection is not None) for turn in turns if turn.stance.rule != "given")
        return GateCost(calls=calls, tokens=None)
    total = sum(used, StageUsage())
    return GateCost(calls=total.calls, tokens=total.tokens)


def _figures(held: list[_Debate], gate: str) -> GateFigures:
    def score(each: _Debate) -> float | None:
        return each.voted if each.skips[gate] else each.score

    def difference(each: _Debate) -> float | None:
        gated = score(each)
        return None if gated is None or each.score is None else gated - each.score

    return GateFigures(
        skipped=sum(each.skips[gate] for each in held),
        spent=sum((each.first if each.skips[gate] else each.whole for each in held), GateCost()),
        correct=_mean(held, score),
        difference=_mean(held, difference, shares=False),
    )


def _mean(held: list[_Debate], value: Callable[[_Debate], float | None], *, shares: bool = True) -> Estimate | None:
    """The mean over questions of the mean over repeats."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in held:
        found = value(each)
        if found is not None:
            values[each.id].append(found)
    return over_repeats([*values.values()], shares=shares)
