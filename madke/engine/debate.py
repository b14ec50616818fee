"""One debate, from a question to its transcript."""

from collections.abc import Sequence

from madke.core import events
from madke.core.chat import fields_of
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, Transcript, Turn, outcome
from madke.engine.agreement import Evidence, agreement_of
from madke.engine.protocol import Protocol, function_of
from madke.engine.scene import Scene, citable_numbers, searchable
from madke.engine.steps import Debate
from madke.tasks.base import BaseTask


async def run_protocol(scene: Scene) -> tuple[Debate, Final]:
    """Run the protocol of a scene."""
    protocol = scene.protocol
    assert isinstance(protocol, Protocol), "only a simulated debate has no function"
    trace = protocol.trace
    scene.weighs, scene.decides = trace.weighs, trace.decides
    debate = Debate(scene)
    return debate, await debate.run(function_of(protocol.function), protocol.values, by=trace.differ.by)


async def hold_debate(scene: Scene) -> Transcript:
    """Debate the question of a scene.

    Returns:
        The transcript. A debater whose call failed is left out of its round; the debate goes on with the others and is
        marked ``degraded``. ``status`` is ``failed`` if all calls of a round or the final call failed, ``abstained`` if
        the final text holds no answer.

    Raises:
        UserError: The protocol needs something that is missing: given stances, golds, a search, an answer scorer.
    """
    protocol, first_round = scene.protocol, scene.first_round
    assert isinstance(protocol, Protocol), "only a simulated debate has no function"
    check_needs(protocol, [scene.question], given=bool(first_round), scored=scene.score_answers is not None)
    check_task(protocol, scene.task)
    if protocol.needs_search and scene.retrieve is None:
        raise UserError("allow_search needs sources that can be searched, not only a pool")
    scene.tell(events.DebateStarted, pool=scene.pool)
    debate, final = await run_protocol(scene)
    rounds = debate.past
    turns = [turn for entry in rounds for turn in entry.turns]
    turn_failed = any(turn.stance.status == "failed" or (turn.search and turn.search.error) for turn in turns)
    texts, debaters = searchable(scene, range(len(scene.pool.passages))) or None, {d.name: d for d in scene.debaters}

    def shown(turn: Turn) -> Sequence[int]:
        return citable_numbers(scene, debaters[turn.agent], turn) if turn.agent in debaters else ()

    transcript = Transcript(
        **fields_of(scene.question),
        status=outcome(final.status),
        answer=final.answer,
        stop_reason=debate.stop_reason or "",
        rounds=tuple(rounds),
        final=final,
        degraded=any(stage.failed for stage in scene.usage.values()) or turn_failed,
        oracle=protocol.trace.needs_golds is not None,
        repeat=scene.repeat,
        first_round_given=bool(first_round),
        prepared=scene.prepared,
        pool=scene.pool_entries(),
        pool_partial=scene.pool.partial,
        usage=scene.usage_by_stage(),
        agreement=agreement_of(
            rounds, final, Evidence(scene.task, scene.question, texts, shown), samples=debate.samples
        ),
    )
    if scene.settle is not None:
        transcript = scene.settle(transcript)
    scene.tell(events.DebateFinished, transcript=transcript)
    return transcript


def check_needs(protocol: Protocol, questions: Sequence[Question], *, given: bool, scored: bool) -> None:
    """UserError if first-round stances are needed and not ``given``, or golds or an answer scorer are missing."""
    if protocol.first_round_given and not given:
        raise UserError("the protocol needs first-round stances; pass their file with madke run --first-round FILE")
    order = protocol.trace.needs_golds
    if order is not None and (unknown := [question.id for question in questions if not question.answers]):
        raise UserError(f"order = {order} needs gold answers, but question {unknown[0]!r} has none")
    if protocol.trace.needs_answer_scorer and not scored:
        raise UserError("this protocol needs an answer scorer; pass its command with --answer-scorer")


def check_task(protocol: Protocol, task: BaseTask) -> None:
    """UserError if answers are texts and the protocol compares answers, or asks for a form of them."""
    what = protocol.trace.compares
    if what is None and protocol.marker not in ("plain", "alone", "text"):
        what = f"marker = {protocol.marker}"
    if task.is_prose and what is not None:
        why = f"this protocol compares answers ({what}), and no two texts are the same"
        raise UserError(f"task {task.name!r}: {why}; take one with a judge or a summarizer, such as madke or moa")
