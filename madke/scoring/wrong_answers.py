"""Answers that a dataset lists as wrong (``metadata["wrong_answers"]``): RAMDocs' misinformation, CIAR's traps."""

from collections.abc import Callable, Iterator
from functools import cache
from statistics import fmean
from typing import Literal

from madke.core.transcript import Transcript
from madke.scoring.metrics import listed, question_of
from madke.tasks import get_task

Kind = Literal["wrong", "right", "other"]
"""``wrong``: equal to a listed wrong answer under the task's matcher, and not accepted as right. ``other``: also no
readable answer."""


def kinds_of(transcript: Transcript) -> Callable[[str | None], Kind] | None:
    """Tells the kind of an answer to the question of a transcript; None if the question lists no wrong answers."""
    wrong = listed(transcript.metadata, "wrong_answers")
    if not wrong:
        return None
    task, question = get_task(transcript.task), question_of(transcript)

    @cache
    def kind(answer: str | None) -> Kind:
        if answer is None:
            return "other"
        if task.accepts(answer, question):
            return "right"
        return "wrong" if any(task.same(answer, each, question) for each in wrong) else "other"

    return kind


def traps(transcript: Transcript) -> dict[str, float]:
    """Whether an answer is a listed wrong one; 0 or 1 each. Empty if the question lists none.

    ``trapped``: the final answer: the trap rate of CIAR, and the adoption of misinformation in RAMDocs.
    ``trapped_debater``: the answer of at least one debater in at least one round.
    """
    kind = kinds_of(transcript)
    if kind is None:
        return {}
    stated = {kind(turn.stance.answer) for entry in transcript.rounds for turn in entry.turns}
    return {"trapped": float(kind(transcript.answer) == "wrong"), "trapped_debater": float("wrong" in stated)}


def adoption(transcript: Transcript) -> Iterator[dict[str, float]]:
    """For each round, what its debaters do with listed wrong answers; values that do not apply are missing.

    ``adopted``, ``unmisled``: the share of debaters whose answer is one; whose answer is right.
    ``resisted``: of the debaters that did not hold one before and were shown one, the share that still holds none.
        In round 1 the passages show it, later the stances of the round before that a debater read.
    ``given_up``: of the debaters that held one before, the share that no longer does.

    Failed stances are left out. A reply without a readable answer holds none.
    """
    kind, before = kinds_of(transcript), dict[str, bool]()
    for entry in transcript.rounds:
        row: dict[str, float] = {}
        if kind is not None:
            spoke = [turn for turn in entry.turns if turn.stance.status != "failed"]
            now = {turn.agent: kind(turn.stance.answer) == "wrong" for turn in spoke}
            if entry.n == 1 and not transcript.first_round_given:
                shown = [*now] if transcript.pool else []
            else:
                read = {turn.agent: any(before.get(peer, False) for peer in turn.reads) for turn in spoke}
                shown = [agent for agent in now if read[agent] and not before.get(agent, False)]
            held = [agent for agent in now if before.get(agent, False)]
            if spoke:
                row["adopted"] = fmean(now.values())
                row["unmisled"] = fmean(kind(turn.stance.answer) == "right" for turn in spoke)
            row |= {"resisted": fmean(not now[agent] for agent in shown)} if shown else {}
            row |= {"given_up": fmean(not now[agent] for agent in held)} if held else {}
            before |= now
        yield row
