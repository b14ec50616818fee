"""What finished debates say of gates, without a call: on the answers of round 1, and on whether to act on an answer.

A gate on round 1 skips the debate of a question if its rule holds after it. Then the answer is the most frequent one of
round 1, and only the calls of that round are made. Else everything happens as it did. A real run of the same gate on
the same calls gives the same figures, if its debate cannot end early for another reason
(``tests/scoring/test_shadow.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from madke.core.errors import UserError, count_of
from madke.core.transcript import StageUsage, Turn
from madke.engine.agreement import Same, all_agree, answer_groups
from madke.engine.deferral import SIGNALS, Calibration, signals, stated_answer
from madke.scoring.arms import Results
from madke.scoring.debate_rows import DebateMeasures, heard, majority, over_repeats
from madke.scoring.metrics import METRICS, common_metric, correct_by, is_binary, metrics_of, question_of
from madke.scoring.statistics import Estimate
from madke.tasks import get_task

GATES: Mapping[str, Callable[[Sequence[Turn], Same], bool]] = {"agreement": all_agree, "vote": lambda turns, same: True}
"""Gate -> its rule. ``agreement``: all answers are the same (``early_stop``). ``vote``: no debate at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateFigures:
    """What one gate would have done."""

    skipped: int
    """Debates that it skips."""
    spent: StageUsage
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
    spent: StageUsage
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


def gate_lines(shadow: Shadow) -> Iterator[str]:
    """Each gate in a line: what it skips, what it costs, and what it gains or loses."""
    for name, figures in shadow.gates.items():
        shares = ", ".join(_shares(figures.spent, shadow.spent))
        line = f"gate {name}: skips {figures.skipped:,} of {count_of(shadow.debates, 'debate')}, {shares}"
        if figures.correct is not None and (change := figures.difference) is not None:
            value, low, high = (100 * each for each in (change.value, change.low, change.high))
            by = f"{value:+.1f}, 95 % {low:+.1f} to {high:+.1f}" if low < high else "no question differs"
            line += f"; {correct_by(shadow.measure)} {100 * figures.correct.value:.1f} % ({by})"
        yield line


def _shares(part: StageUsage, whole: StageUsage) -> list[str]:
    """The share of the calls, and of the tokens where they are known."""
    shares = [f"{100 * part.calls / max(1, whole.calls):.0f} % of the calls"]
    return [*shares, f"{100 * part.tokens / whole.tokens:.0f} % of the tokens"] if part.tokens else shares


@dataclass(frozen=True, kw_only=True, slots=True)
class GatedDebate:
    """One debate and what gates make of it."""

    id: str
    is_debate: bool
    """Whether anything but samples of one vote came after round 1: replies, or a judge or summarizer."""
    changed: bool
    measure: str
    score: float | None
    voted: float | None
    """The score of the most frequent answer of round 1."""
    whole: StageUsage
    first: StageUsage
    skips: Mapping[str, bool]


def gated_debate(debate: DebateMeasures) -> GatedDebate | None:
    """A debate as gates see it; None if it failed, was deferred, or had no round of several debaters."""
    transcript, same = debate.transcript, debate.same
    turns = transcript.rounds[0].turns if transcript.rounds else ()
    if transcript.status in ("failed", "deferred") or len(turns) < 2:
        return None
    spoke = heard(transcript.rounds[0])
    # As in a vote; a tie goes to the earliest debater.
    voted, answer = majority(answer_groups(spoke, same)), transcript.answer
    kept = voted == answer or (voted is not None and answer is not None and same(voted, answer))
    replied = any(turn.stance.stage == "reply" for entry in transcript.rounds[1:] for turn in entry.turns)
    return GatedDebate(
        id=transcript.id,
        is_debate=replied or bool({"judge", "extract", "pick", "summarize", "digest"} & transcript.usage.keys()),
        changed=not kept,
        measure=debate.metrics[0],
        score=debate.score(answer),
        voted=debate.score(voted),
        whole=transcript.total,
        first=sum((turn.usage for turn in turns if turn.usage is not None), StageUsage()),
        skips={name: rule(spoke, same) for name, rule in GATES.items()},
    )


def shadow_of(debates: Iterable[GatedDebate | None]) -> Shadow | None:
    """The figures of a run's debates; None if no debate went beyond the answers of several debaters in round 1."""
    usable = [each for each in debates if each is not None]
    if not any(each.is_debate for each in usable):
        return None

    def mean(value: Callable[[GatedDebate], float | None], *, shares: bool = True) -> Estimate | None:
        """Over questions, of the mean over repeats."""
        values: defaultdict[str, list[float]] = defaultdict(list)
        for each in usable:
            if (number := value(each)) is not None:
                values[each.id].append(number)
        return over_repeats([*values.values()], shares=shares)

    def figures(gate: str) -> GateFigures:
        def score(each: GatedDebate) -> float | None:
            return each.voted if each.skips[gate] else each.score

        return GateFigures(
            skipped=sum(each.skips[gate] for each in usable),
            spent=sum((each.first if each.skips[gate] else each.whole for each in usable), StageUsage()),
            correct=mean(score),
            difference=mean(lambda each: None if each.score is None else (score(each) or 0) - each.score, shares=False),
        )

    gates = {name: figures(name) for name in GATES}
    gains = [(each.score or 0) - (each.voted or 0) for each in usable if each.changed]
    corrected, spoiled = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    correct, measure = mean(lambda each: each.score), common_metric(each.measure for each in usable)
    spent, vote = sum((each.whole for each in usable), StageUsage()), gates["vote"]
    text, paid = f"Debate changed {len(gains):,} of {count_of(len(usable), 'answer')}", _shares(vote.spent, spent)[-1]
    if vote.correct is None or correct is None:
        sentence = f"{text}; voting on round 1 takes {paid}."
    else:
        figures_of = f"{100 * vote.correct.value:.1f} instead of {100 * correct.value:.1f} % {correct_by(measure)}"
        text += f": {corrected:,} corrected, {spoiled:,} spoiled"
        sentence = f"{text}; voting on round 1 gives {figures_of} for {paid}."
    return Shadow(
        debates=len(usable),
        changed=len(gains),
        corrected=corrected,
        spoiled=spoiled,
        judged=sum(each.score is not None for each in usable),
        correct=correct,
        spent=spent,
        measure=measure,
        gates=gates,
        sentence=sentence,
    )


# Thresholds on a signal of debates, learned from runs with gold answers (madke.engine.deferral)

_MIN_RIGHT = 0.5
"""The lowest value of a metric that is not yes or no, such as F1, of an answer that counts as right."""
_MIN_QUESTIONS = 20
"""The fewest questions that thresholds are tested on."""


def calibrate(arms: Sequence[Results], signal: str, *, delta: float = 0.1) -> Calibration:
    """A calibration on this signal, from the first debate of each question that has an answer and a gold answer.

    The answer may also be a deferred one; it is wrong by ``match``, or by the first metric of a task that has no
    ``match``. UserError for too few questions, runs that differ in protocol or models, and
    if a debate lacks the signal.
    """
    specs = [arm.config for arm in arms if arm.config is not None]
    if len(specs) < len(arms):
        raise UserError("expected run directories: a calibration records protocol, tasks and models")
    if len({(spec.variant, *sorted(spec.models.items())) for spec in specs}) > 1:
        raise UserError("the runs have different protocols or models; calibrate each of them alone")
    if signal not in SIGNALS:
        raise UserError(f"unknown signal {signal!r}; expected {', '.join(SIGNALS)}")
    points: dict[tuple[str, str], tuple[float | None, bool]] = {}
    tasks = set()
    for transcript in (each for arm in arms for each in arm.transcripts()):
        tasks.add(transcript.task)
        answer, key = stated_answer(transcript), (transcript.id, transcript.question)
        if answer is None or key in points:
            continue
        if transcript.answers and transcript.rounds and not transcript.oracle:
            task = get_task(transcript.task)
            names = metrics_of(task)
            name = "match" if "match" in names else names[0]
            wrong = METRICS[name](answer, question_of(transcript)) < (1 if is_binary(name) else _MIN_RIGHT)
            points[key] = signals(transcript, task).get(signal), wrong
    known = tuple(sorted((value, wrong) for value, wrong in points.values() if value is not None))
    if lacking := len(points) - len(known):
        raise UserError(f"signal {signal!r}: {lacking} of {len(points)} debates do not have it")
    if len(known) < _MIN_QUESTIONS:
        few = f"{len(known)} questions with an answer and a gold are too few"
        raise UserError(f"{few}; expected at least {_MIN_QUESTIONS}")
    return Calibration(
        run=", ".join(arm.name for arm in arms),
        variant=specs[0].variant,
        tasks=tuple(sorted(tasks)),
        models=tuple(sorted(set(specs[0].models.values()))),
        signal=signal,
        points=known,
        delta=delta,
    )
