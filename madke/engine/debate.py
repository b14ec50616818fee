"""One debate, from a question to its transcript (Wang et al., Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence

from madke.concurrency import together
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Final, PoolEntry, Round, Stance, Transcript, Turn, Verdict
from madke.engine import finish, stop
from madke.engine.protocol import Debater, Protocol
from madke.engine.roles import Cast, Prompts, Scene
from madke.engine.view import Spoken, view
from madke.tasks.base import Task


async def debate(
    question: Question,
    protocol: Protocol,
    cast: Cast,
    pool: KnowledgePool = EMPTY_POOL,
    *,
    task: Task,
    prompts: Prompts,
    repeat: int = 0,
    seed: int | None = None,
) -> Transcript:
    """Debate one question.

    Args:
        question: What to debate.
        protocol: Who speaks when, who sees what, when it ends and how the answer is taken.
        cast: A model for each of ``protocol.roles``.
        pool: The question's knowledge, numbered; ignored where ``protocol.knowledge`` is None.
        task: The answer format of ``question.task``.
        prompts: The variant's templates.
        repeat: Which repeat of the whole run this is, 0-based.
        seed: The run's sampling seed; each call derives its own. None leaves sampling to the server.

    Returns:
        The transcript. Failed calls are values in it: a debater whose call failed is left out of its round, and
        the debate goes on with the others, marked ``degraded``. ``status`` is ``failed`` where nobody was left or
        the final call failed, ``abstained`` where the final text holds no answer.
    """
    if protocol.knowledge is None:
        pool = EMPTY_POOL
    scene = Scene(
        question=question,
        task=task,
        protocol=protocol,
        prompts=prompts,
        cast=cast,
        pool=pool,
        repeat=repeat,
        seed=seed,
    )
    rounds: list[Round] = []
    stop_reason = "rounds"
    for n in range(1, protocol.rounds + 1):
        turns = await _talk(scene, n, rounds)
        heard = _heard(turns)
        verdict = None
        if not heard:
            stop_reason = "nobody_left"
        elif protocol.stop == "judge":
            # One surviving debater is no consensus, and there is nothing to compare: no call, no verdict.
            verdict = await scene.judge(n, heard) if len(heard) > 1 else Verdict(consensus=None, rule="too_few")
            if verdict.consensus:
                stop_reason = "consensus"
        elif protocol.stop == "agreement" and stop.agreement(turns, task):
            stop_reason = "agreement"
        rounds.append(Round(n=n, order=tuple(turn.agent for turn in turns), turns=turns, verdict=verdict))
        if stop_reason != "rounds":
            break
    final = await _finish(scene, rounds[-1])
    return Transcript(
        id=question.id,
        question=question.question,
        task=question.task,
        answers=question.answers,
        choices=question.choices,
        metadata=question.metadata,
        status=final.status,
        answer=final.answer,
        stop_reason=stop_reason,
        rounds=tuple(rounds),
        final=final,
        degraded=any(stage.failed for stage in scene.usage.values()),
        repeat=repeat,
        pool=tuple(PoolEntry(n=n, source=p.source, key=p.key, title=p.title) for n, p in enumerate(pool.passages)),
        pool_partial=pool.partial,
        usage=scene.usage,
    )


async def _talk(scene: Scene, n: int, rounds: Sequence[Round]) -> tuple[Turn, ...]:
    """All turns of round ``n``, in speaking order."""
    protocol = scene.protocol
    timing = protocol.talk.first if n == 1 else protocol.talk.later
    if timing == "simultaneous":
        return tuple(await together(_turn(scene, debater, n, rounds, ()) for debater in protocol.cast))
    turns: list[Turn] = []
    for debater in protocol.cast:
        turns.append(await _turn(scene, debater, n, rounds, turns))
    return tuple(turns)


async def _turn(scene: Scene, debater: Debater, n: int, rounds: Sequence[Round], spoken: Sequence[Turn]) -> Turn:
    seen = view(scene.protocol, debater.name, rounds, spoken)
    select = scene.protocol.knowledge.select if scene.protocol.knowledge else "none"
    numbers: Sequence[int] = () if select == "none" else range(len(scene.pool.passages))
    selection = None
    if select == "adaptive" and numbers:
        selection = await scene.select(debater, n, seen)
        if selection.error is not None:
            failed = Stance(status="failed", error=f"its selection failed: {selection.error}")
            return Turn(agent=debater.name, stance=failed, selection=selection)
        numbers = selection.ids
    stance = await scene.speak(debater, n, numbers, seen)
    return Turn(agent=debater.name, stance=stance, selection=selection)


def _heard(turns: Sequence[Turn]) -> tuple[Spoken, ...]:
    """The stances that judge and summarizer read: those of the debaters whose calls succeeded."""
    return tuple(Spoken(agent=t.agent, text=t.stance.text) for t in turns if t.stance.status != "failed")


async def _finish(scene: Scene, last: Round) -> Final:
    rule = scene.protocol.finish
    heard = _heard(last.turns)
    if not heard:
        return Final(by=rule, status="failed", rule="nobody_left", error=last.turns[0].stance.error)
    if rule == "summarizer":
        return await scene.summarize(last.n, heard)
    return {"majority": finish.majority, "only": finish.only}[rule](last.turns, scene.task)
