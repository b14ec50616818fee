"""What replies do with their prompt, by stage, and with a given first round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from eval.real_models.kept import KeptCell
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import METRICS, question_of
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate, estimate

GRAM = 8
"""Words in a row that count as repeated."""
QUOTED = 4
"""Words in a row that count as a quotation."""
SHORTEST = 5
"""Shorter lines cannot repeat the prompt: "Selected: [0]" is what was asked for."""
ECHOED = 0.1
"""A reply whose share of repeated words is above this one repeats the prompt."""
SCORED = ("em", "f1", "match")
"""The metrics that the page shows."""
STAGES = ("select", "speak", "reply", "judge", "summarize")


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMeasures:
    """The shares of one stage: means over questions of the share of a question's replies."""

    replies: int
    """Replies of calls that did not fail."""
    failed: int
    """Calls that failed, also those that were made again."""
    readable: Estimate | None
    """The value that the stage asks for was read; None if the stage has none."""
    echoed: Estimate | None
    example: Estimate | None
    """The example of the prompt was given back."""
    cut: Estimate | None
    """Ended at ``max_tokens``."""


@dataclass(kw_only=True)
class _Counted:
    failed: int = 0
    flags: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))


def by_stage(cell: KeptCell) -> dict[str, StageMeasures]:
    """The measures of each stage of a cell, in the order of a debate."""
    counted: dict[str, _Counted] = defaultdict(_Counted)
    for call in cell.calls:
        held = counted[call.stage]
        if call.outcome != "ok":
            held.failed += 1
            continue
        held.flags["echoed"][call.question].append(float(call.echo > ECHOED))
        held.flags["example"][call.question].append(float(call.example))
        held.flags["cut"][call.question].append(float(call.finish == "length"))
    unread = scores_of(cell.transcripts).parse_failures
    order = {stage: n for n, stage in enumerate(STAGES)}
    return {
        stage: StageMeasures(
            replies=sum(map(len, held.flags["cut"].values())),
            failed=held.failed,
            readable=_complement(unread.get(stage)),
            echoed=over_repeats(list(held.flags["echoed"].values())),
            example=over_repeats(list(held.flags["example"].values())),
            cut=over_repeats(list(held.flags["cut"].values())),
        )
        for stage, held in sorted(counted.items(), key=lambda item: order.get(item[0], len(order)))
    }


def _complement(share: Estimate | None) -> Estimate | None:
    if share is None:
        return None
    return Estimate(value=1 - share.value, low=1 - share.high, high=1 - share.low, n=share.n)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What debaters with a given stance answered after they read the other's."""

    right_to_wrong: Estimate | None
    """Of debaters that were right: the share whose next answer is another, wrong one."""
    wrong_to_right: Estimate | None
    """Of debaters that were wrong: the share whose next answer is right."""
    right_to_none: Estimate | None
    """Of debaters that were right: the share whose next answer cannot be read."""


def changes(transcripts: Iterable[Transcript]) -> Changes:
    """The changes from the given first round to the second one; failed replies are left out."""
    was_right: list[float] = []
    lost: list[float] = []
    was_wrong: list[float] = []
    for transcript in transcripts:
        question = question_of(transcript)
        if len(transcript.rounds) < 2:
            continue
        given = {turn.agent: turn.stance.answer for turn in transcript.rounds[0].turns}
        for turn in transcript.rounds[1].turns:
            if turn.stance.status == "failed":
                continue
            right = _accepted(turn.stance.answer, question)
            if _accepted(given[turn.agent], question):
                was_right.append(float(turn.stance.answer is not None and not right))
                lost.append(float(turn.stance.answer is None))
            else:
                was_wrong.append(float(right))
    return Changes(right_to_wrong=estimate(was_right), wrong_to_right=estimate(was_wrong), right_to_none=estimate(lost))


def _accepted(answer: str | None, question: Question) -> bool:
    return answer is not None and METRICS["match"](answer, question) == 1.0
