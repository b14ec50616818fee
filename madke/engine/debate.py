"""One debate, from a question to its transcript (Wang et al., Algorithm 1; Liang et al., Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from madke.concurrency import together
from madke.core.errors import UserError
from madke.core.events import (
    DebateFinished,
    DebateStarted,
    Listener,
    RoundEnded,
    RoundStarted,
    StanceGiven,
    VerdictGiven,
    heedless,
)
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Final, Round, Transcript, Turn
from madke.engine import roles
from madke.engine.finish import FINISHES
from madke.engine.protocol import Protocol
from madke.engine.scene import Cast, Estimate, Prompts, Retrieve, Scene
from madke.engine.stop import STOPS
from madke.engine.turns import play_round
from madke.engine.view import everybody
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
    given: Sequence[Turn] = (),
    retrieve: Retrieve | None = None,
    estimate: Estimate | None = None,
    listen: Listener | None = None,
    deltas: bool = False,
    clock: Callable[[], float] = lambda: 0.0,
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
        given: The first round's turns, where ``protocol.given`` says that they come from outside. An agent that is
            none of the debaters is read by all and speaks no more.
        retrieve: Who searches where debaters may (``knowledge.requery``).
        estimate: The quality estimator of ``finish: rerank``.
        listen: Is told each event of :mod:`madke.core.events` when it happens. It changes nothing: what it raises is
            logged once for each kind of event.
        deltas: Whether it is also told the parts of replies, by models that stream.
        clock: Seconds, for the times of events.

    Returns:
        The transcript. Failed calls are values in it: a debater whose call failed is left out of its round, and
        the debate goes on with the others, marked ``degraded``. ``status`` is ``failed`` where nobody was left or
        the final call failed, ``abstained`` where the final text holds no answer.

    Raises:
        UserError: The protocol needs something that is not there: given stances, golds, a search, an estimator.
    """
    _check(question, protocol, given, retrieve, estimate)
    pool = EMPTY_POOL if protocol.knowledge is None else pool
    protocol = _attended(protocol, pool)
    debaters = protocol.cast
    scene = Scene(
        question=question,
        task=task,
        protocol=protocol,
        prompts=prompts,
        cast=cast,
        pool=pool,
        repeat=repeat,
        seed=seed,
        retrieve=retrieve,
        estimate=estimate,
        listen=heedless(listen) if listen is not None else None,
        deltas=deltas and listen is not None,
        clock=clock,
    )
    scene.tell(DebateStarted, pool=pool)
    await together(roles.prepare(scene, debater) for debater in debaters if debater.prepare)
    rounds: list[Round] = []
    stop_reason = None
    while stop_reason is None:
        scene.tell(RoundStarted, n=len(rounds) + 1)
        if given and not rounds:
            rounds.append(Round(n=1, order=tuple(turn.agent for turn in given), turns=tuple(given)))
            for turn in given:
                scene.tell(StanceGiven, n=1, agent=turn.agent, stance=turn.stance)
        else:
            rounds.append(await play_round(scene, debaters, rounds))
        rounds[-1], stop_reason = await _closed(scene, rounds)
        scene.tell(RoundEnded, round=rounds[-1])
    final = await _finish(scene, rounds)
    transcript = Transcript(
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
        degraded=any(stage.failed for stage in scene.usage.values()) or any(map(_failed, rounds)),
        oracle=protocol.needs_golds,
        repeat=repeat,
        given=bool(given),
        prepared=scene.prepared,
        pool=scene.pool_entries(),
        pool_partial=scene.pool.partial,
        usage=scene.usage,
    )
    scene.tell(DebateFinished, transcript=transcript)
    return transcript


def _attended(protocol: Protocol, pool: KnowledgePool) -> Protocol:
    """The protocol with those debaters who have a passage, where each is given one. One alone has no second round."""
    if protocol.knowledge is None or protocol.knowledge.select != "one_each":
        return protocol
    here = protocol.cast[: max(1, len(pool.passages))]
    return protocol.model_copy(update={"debaters": here, "rounds": 1 if len(here) == 1 else protocol.rounds})


def _failed(entry: Round) -> bool:
    """Whether a stance, or a search, of the round failed; a given stance has no call that could have."""
    return any(t.stance.status == "failed" or (t.search is not None and t.search.error) for t in entry.turns)


def _check(
    question: Question,
    protocol: Protocol,
    given: Sequence[Turn],
    retrieve: Retrieve | None,
    estimate: Estimate | None,
) -> None:
    where = f"question {question.id!r}"
    if protocol.given != bool(given):
        raise UserError(f"{where}: given stances are {'missing' if protocol.given else 'not what the protocol says'}")
    agents = [turn.agent for turn in given]
    if twice := [agent for agent in agents if agents.count(agent) > 1]:
        raise UserError(f"{where}: two given stances are by {twice[0]!r}; names must differ")
    if protocol.needs_golds and not question.answers:
        raise UserError(f"{where} has no gold answer, which order {protocol.order.by} needs")
    if protocol.needs_estimator and estimate is None:
        raise UserError("finish = rerank needs a quality estimator; name a command with --estimator")
    if protocol.needs_search and retrieve is None:
        raise UserError("knowledge.requery needs sources that can be searched, not only a pool")


async def _closed(scene: Scene, rounds: Sequence[Round]) -> tuple[Round, str | None]:
    """The last round with what follows its turns, and why the debate ends with it; None where it goes on."""
    if not everybody(rounds):
        return rounds[-1], "nobody_left"
    entry, reason = await STOPS[scene.protocol.stop](scene, rounds)
    if entry.verdict is not None:
        scene.tell(VerdictGiven, n=entry.n, verdict=entry.verdict)
    if scene.protocol.extract == "each_round":
        entry = replace(entry, extracted=await roles.extract(scene, [*rounds[:-1], entry]))
    if reason is None and entry.n == scene.protocol.rounds:
        reason = "rounds"
    if reason is None and scene.protocol.talk.later == "simultaneous_with_summary":
        entry = replace(entry, digest=await roles.digest(scene, [*rounds[:-1], entry]))
    return entry, reason


async def _finish(scene: Scene, rounds: Sequence[Round]) -> Final:
    if not everybody(rounds):
        error = rounds[-1].turns[0].stance.error if rounds[-1].turns else None
        return Final(by=scene.protocol.finish, status="failed", rule="nobody_left", error=error)
    return await FINISHES[scene.protocol.finish](scene, rounds)
