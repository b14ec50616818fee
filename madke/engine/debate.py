"""One debate, from a question to its transcript (Wang et al., Algorithm 1; Liang et al., Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import replace

from madke._util.concurrency import gather
from madke.core import events
from madke.core.agreement import Agreement
from madke.core.chat import fields_of, takes_schemas
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Transcript, Turn, outcome
from madke.engine import roles
from madke.engine.ending import FINISHES, STOPS
from madke.engine.evidence import agreement_of
from madke.engine.order import order_for, reading_order
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Debater
from madke.engine.scene import Scene
from madke.engine.schemas import bound_roles
from madke.engine.view import View, stances_of, view


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
    check_needs(protocol, [scene.question], given=bool(first_round), scored=scene.score_answers is not None)
    if protocol.needs_search and scene.retrieve is None:
        raise UserError("knowledge.allow_search needs sources that can be searched, not only a pool")
    if protocol.structured == "require":
        names = (scene.cast[role].name for role in bound_roles(protocol) if not takes_schemas(scene.cast[role]))
        if (name := next(names, None)) is not None:
            raise UserError(f"structured = require: the model {name} takes no JSON schemas; set structured to auto")
    scene.tell(events.DebateStarted, pool=scene.pool)
    await gather(roles.prepare(scene, debater) for debater in protocol.cast if debater.prepare)
    rounds: list[Round] = []
    stop_reason = None
    while stop_reason is None:
        scene.tell(events.RoundStarted, n=len(rounds) + 1)
        if first_round and not rounds:
            rounds.append(Round(n=1, order=tuple(turn.agent for turn in first_round), turns=tuple(first_round)))
            for turn in first_round:
                scene.tell(events.StanceGiven, n=1, agent=turn.agent, stance=turn.stance)
        else:
            rounds.append(await _play_round(scene, rounds))
        rounds[-1], stop_reason = await _close_round(scene, rounds)
        scene.tell(events.RoundEnded, round=rounds[-1])
    final = await _finish(scene, rounds)
    turns = [turn for entry in rounds for turn in entry.turns]
    turn_failed = any(turn.stance.status == "failed" or (turn.search and turn.search.error) for turn in turns)
    transcript = Transcript(
        **fields_of(scene.question),
        status=outcome(final.status),
        answer=final.answer,
        stop_reason=stop_reason,
        rounds=tuple(rounds),
        final=final,
        degraded=any(stage.failed for stage in scene.usage.values()) or turn_failed,
        oracle=protocol.needs_golds,
        repeat=scene.repeat,
        first_round_given=bool(first_round),
        prepared=scene.prepared,
        pool=scene.pool_entries(),
        pool_partial=scene.pool.partial,
        retrieval=scene.pool.retrieval,
        usage=scene.usage_by_stage(),
        agreement=_agreement(scene, rounds, final),
    )
    if scene.settle is not None:
        transcript = scene.settle(transcript)
    scene.tell(events.DebateFinished, transcript=transcript)
    return transcript


def _agreement(scene: Scene, rounds: Sequence[Round], final: Final) -> Agreement | None:
    texts = roles.searchable(scene, range(len(scene.pool.passages))) or None
    debaters = {debater.name: debater for debater in scene.protocol.cast}

    def shown(turn: Turn) -> Sequence[int]:
        return roles.citable_numbers(scene, debaters[turn.agent], turn) if turn.agent in debaters else ()

    samples = scene.protocol.samples
    return agreement_of(
        rounds, final, task=scene.task, question=scene.question, texts=texts, shown=shown, samples=samples
    )


def check_needs(protocol: Protocol, questions: Sequence[Question], *, given: bool, scored: bool) -> None:
    """UserError if first-round stances are needed and not ``given``, or golds or an answer scorer are missing."""
    if protocol.first_round_given and not given:
        raise UserError("the protocol needs first-round stances; pass their file with madke run --first-round FILE")
    if protocol.needs_golds and (unknown := [question.id for question in questions if not question.answers]):
        raise UserError(f"order = {protocol.order.by} needs gold answers, but question {unknown[0]!r} has none")
    if protocol.needs_answer_scorer and not scored:
        raise UserError("finish = rerank needs an answer scorer; pass its command with --answer-scorer")


async def _close_round(scene: Scene, rounds: Sequence[Round]) -> tuple[Round, str | None]:
    """Make the calls after the last round's turns; return the round, and the stop reason or None to go on."""
    if not stances_of(rounds):
        return rounds[-1], "all_failed"
    entry, reason = await STOPS[scene.protocol.stop](scene, rounds)
    if entry.verdict is not None:
        scene.tell(events.VerdictGiven, n=entry.n, verdict=entry.verdict)
    if scene.protocol.extract == "each_round":
        entry = replace(entry, extracted=await roles.extract(scene, [*rounds[:-1], entry]))
    if reason is None and entry.n == scene.protocol.rounds:
        reason = "rounds"
    if reason is None and scene.protocol.talk.later == "simultaneous_with_summary":
        entry = replace(entry, digest=await roles.digest(scene, [*rounds[:-1], entry]))
    return entry, reason


async def _finish(scene: Scene, rounds: Sequence[Round]) -> Final:
    if not stances_of(rounds):
        error = rounds[-1].turns[0].stance.error if rounds[-1].turns else None
        return Final(by=scene.protocol.finish, status="failed", rule="all_failed", error=error)
    return await FINISHES[scene.protocol.finish](scene, rounds)


async def _play_round(scene: Scene, rounds: Sequence[Round]) -> Round:
    n, protocol = len(rounds) + 1, scene.protocol
    debaters, names = protocol.speakers(n), [debater.name for debater in protocol.cast]
    seed = repr((scene.seed, scene.question.id, scene.repeat, n))
    order, scores = reading_order(protocol.order, rounds, names, question=scene.question, task=scene.task, seed=seed)
    turns: list[Turn] = []

    def view_of(debater: Debater) -> View:
        reading = order
        if protocol.order.score == "per_reader" and rounds:
            own_order = order_for(debater.name, rounds[-1].turns, names, scene.same)
            reading = tuple(dict.fromkeys((*own_order, *order)))
        return view(protocol, debater.name, rounds, turns, reading, scene.same)

    timing = protocol.talk.first if n == 1 else protocol.talk.later
    if timing == "sequential":
        # Debaters who have not spoken yet (after a given first round of others) come last.
        order = tuple(dict.fromkeys((*order, *names)))
        for debater in sorted(debaters, key=lambda debater: order.index(debater.name)):
            turns += await _turns(scene, n, [(debater, view_of(debater))])
    else:
        turns += await _turns(scene, n, [(debater, view_of(debater)) for debater in debaters])
    return Round(n=n, order=order, scores=scores, turns=tuple(turns))


async def _turns(scene: Scene, n: int, views: Sequence[tuple[Debater, View]]) -> list[Turn]:
    """Simultaneous turns. Searched passages are numbered in the order of the cast, not of the replies."""

    async def turn(debater: Debater, view: View) -> Turn:
        return await _speak(scene, debater, n, view, await _select(scene, debater, n, view))

    if not scene.protocol.needs_search:
        return await gather(turn(debater, view) for debater, view in views)
    selected = await gather(_select(scene, debater, n, view) for debater, view in views)
    results = await gather(_search(scene, n, turn) for turn in selected)
    searched = [_with_hits(scene, n, turn, hits) for turn, hits in zip(selected, results, strict=True)]
    return await gather(_speak(scene, d, n, view, turn) for (d, view), turn in zip(views, searched, strict=True))


async def _select(scene: Scene, debater: Debater, n: int, view: View) -> Turn:
    """A turn with the debater's selection and search query, but without its stance."""
    turn = Turn(agent=debater.name, stance=Stance(), reads=view.reads)
    if debater.name in scene.unprepared:
        return replace(turn, stance=Stance(status="failed", error=scene.unprepared[debater.name]))
    knowledge = scene.protocol.knowledge
    # With an empty pool, a selection is useful only if the debater may search.
    if (
        knowledge is None
        or knowledge.select != "adaptive"
        or not (roles.allowed(scene, debater) or knowledge.allow_search)
    ):
        return turn
    selection, search = await roles.select(scene, debater, n, view)
    scene.tell(events.SelectionMade, n=n, agent=debater.name, selection=selection)
    if selection.error is not None:
        turn = replace(turn, stance=Stance(status="failed", error=f"its selection failed: {selection.error}"))
    return replace(turn, selection=selection, search=search)


async def _search(scene: Scene, n: int, turn: Turn) -> Hits:
    if turn.search is None:
        return Hits()
    assert scene.retrieve is not None, "debate() checks it"
    return await scene.retrieve(turn.search.query, scene.purpose("search", turn.agent, n))


def _with_hits(scene: Scene, n: int, turn: Turn, hits: Hits) -> Turn:
    if turn.search is None:
        return turn
    passages = () if hits.error is not None else hits.passages
    ids = scene.add_passages(passages, turn.agent, n, turn.search.query)
    search = replace(turn.search, ids=ids, error=hits.error)
    scene.tell(events.SearchMade, n=n, agent=turn.agent, search=search)
    return replace(turn, search=search)


async def _speak(scene: Scene, debater: Debater, n: int, view: View, turn: Turn) -> Turn:
    if turn.stance.status != "failed":
        # A sample is the same call in whichever round it is taken, so a vote that takes all at once shares it.
        asked_in = 1 if scene.protocol.samples else n
        numbers = roles.citable_numbers(scene, debater, turn)
        turn = replace(turn, stance=await roles.speak(scene, debater, asked_in, numbers, view))
    scene.tell(events.StanceGiven, n=n, agent=debater.name, stance=turn.stance)
    return replace(turn, usage=scene.turn_usage.pop(debater.name, None))
