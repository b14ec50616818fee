"""When a debate ends before its last round. One small function a rule.

Each takes the scene and the rounds so far and returns the last round, with what the rule found out in it, and the
reason to stop; None to go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from madke.concurrency import together
from madke.core.transcript import Round, Turn, Verdict
from madke.engine import roles
from madke.engine.groups import agreed
from madke.engine.scene import Scene
from madke.engine.view import everybody

Ending = tuple[Round, str | None]
"""The round as it is with what was asked to end it, and why the debate ends; None while it goes on."""
Stop = Callable[[Scene, Sequence[Round]], Awaitable[Ending]]


async def never(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """All rounds are played."""
    return rounds[-1], None


async def judge(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """The judge finds the debate settled.

    The judge reads texts, so it is asked wherever two debaters said something, parsed or not. One surviving debater is
    no consensus: then there is no call and no verdict.
    """
    heard = sum(bool(spoken.text.strip()) for spoken in everybody(rounds))
    verdict = Verdict(consensus=None, rule="too_few") if heard < 2 else await roles.judge(scene, rounds)
    reason = "settled" if scene.protocol.finish == "judge_extract" else "consensus"
    return replace(rounds[-1], verdict=verdict), reason if verdict.consensus else None


async def agreement(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """All answers are the same under the task's matcher."""
    return rounds[-1], "agreement" if agreed(rounds[-1].turns, scene.same) else None


async def agreement_then_judge(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """The matcher sees agreement, or else the judge does; after the last round only where the finish takes that."""
    entry, reason = await agreement(scene, rounds)
    asked = entry.n < scene.protocol.rounds or scene.protocol.judge_finishes
    return await judge(scene, rounds) if asked and not reason else (entry, reason)


async def satisfied(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Every debater, asked to scrutinise its own stance, is satisfied. The last round has nothing to decide."""
    entry = rounds[-1]
    if entry.n == scene.protocol.rounds:
        return entry, None
    debaters = {debater.name: debater for debater in scene.protocol.cast}

    async def scrutinised(turn: Turn) -> Turn:
        if turn.stance.status == "failed" or turn.agent not in debaters:
            return turn
        found = await roles.reflect(scene, debaters[turn.agent], entry.n, turn.stance.text)
        return replace(turn, reflection=found)

    turns = tuple(await together(scrutinised(turn) for turn in entry.turns))
    found = [turn.reflection for turn in turns if turn.reflection is not None]
    content = bool(found) and all(reflection.satisfied for reflection in found)
    return replace(entry, turns=turns), "satisfied" if content else None


async def stability(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Every debater gives the answer that it gave in the round before; of one who failed nobody knows."""
    if len(rounds) < 2:
        return rounds[-1], None
    before = {turn.agent: turn.stance.answer for turn in rounds[-2].turns}
    stable = all(
        (now := turn.stance.answer) is not None
        and (then := before.get(turn.agent)) is not None
        and scene.same(now, then)
        for turn in rounds[-1].turns
    )
    return rounds[-1], "stability" if stable else None


async def budget(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """The question has used up its tokens."""
    limit = scene.protocol.token_budget
    return rounds[-1], "budget" if limit is not None and scene.tokens >= limit else None


STOPS: Mapping[str, Stop] = {
    "never": never,
    "judge": judge,
    "agreement": agreement,
    "agreement_then_judge": agreement_then_judge,
    "satisfied": satisfied,
    "stability": stability,
    "budget": budget,
}
"""Every value of ``Protocol.stop``."""
