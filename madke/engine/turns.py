"""One round: who speaks when, and what each does in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from madke.concurrency import together
from madke.core.events import SearchMade, SelectionMade, StanceGiven
from madke.core.knowledge import Hits
from madke.core.transcript import Round, Search, Selection, Stance, Turn
from madke.engine import roles
from madke.engine.order import order_for, reading_order
from madke.engine.protocol import Debater
from madke.engine.scene import Scene
from madke.engine.view import View, view


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """What a debater made of the pool before it speaks."""

    selection: Selection | None = None
    search: Search | None = None
    error: str | None = None


async def play_round(scene: Scene, debaters: Sequence[Debater], rounds: Sequence[Round]) -> Round:
    """All turns of the round that comes after ``rounds``."""
    n, protocol = len(rounds) + 1, scene.protocol
    names = [debater.name for debater in debaters]
    seed = repr((scene.seed, scene.question.id, scene.repeat, n))
    order, scores = reading_order(protocol.order, rounds, names, question=scene.question, task=scene.task, seed=seed)
    turns: list[Turn] = []

    def seen(debater: Debater) -> View:
        reading = order
        if protocol.order.score == "per_reader" and rounds:
            own_order = order_for(debater.name, rounds[-1].turns, names, scene.same)
            reading = tuple(dict.fromkeys((*own_order, *order)))
        return view(protocol, debater.name, rounds, turns, reading, scene.same)

    timing = protocol.talk.first if n == 1 else protocol.talk.later
    if timing == "sequential":
        # Who has not spoken yet (after given stances of others) comes after those who have.
        order = tuple(dict.fromkeys((*order, *names)))
        for debater in sorted(debaters, key=lambda debater: order.index(debater.name)):
            turns.append(await _turn(scene, debater, n, seen(debater)))
    elif protocol.needs_search:
        turns += await _searching_turns(scene, debaters, n, [seen(debater) for debater in debaters])
    else:
        turns += await together(_turn(scene, debater, n, seen(debater)) for debater in debaters)
    return Round(n=n, order=order, scores=scores, turns=tuple(turns))


async def _turn(scene: Scene, debater: Debater, n: int, seen: View) -> Turn:
    choice = await _choose(scene, debater, n, seen)
    choice = _grown(scene, debater, n, choice, await _search(scene, debater, n, choice))
    return await _say(scene, debater, n, seen, choice)


async def _searching_turns(scene: Scene, debaters: Sequence[Debater], n: int, views: Sequence[View]) -> list[Turn]:
    """Simultaneous turns in which searches may be asked for.

    What they find is numbered in the order of the cast, whoever was answered first.
    """
    choices = await together(_choose(scene, d, n, seen) for d, seen in zip(debaters, views, strict=True))
    answers = await together(_search(scene, d, n, choice) for d, choice in zip(debaters, choices, strict=True))
    grown = [_grown(scene, d, n, choice, hits) for d, choice, hits in zip(debaters, choices, answers, strict=True)]
    return await together(
        _say(scene, d, n, seen, choice) for d, seen, choice in zip(debaters, views, grown, strict=True)
    )


async def _choose(scene: Scene, debater: Debater, n: int, seen: View) -> _Choice:
    if debater.name in scene.unprepared:
        return _Choice(error=scene.unprepared[debater.name])
    knowledge = scene.protocol.knowledge
    # An empty pool is worth a call only where something may be searched for.
    if knowledge is None or knowledge.select != "adaptive" or not (roles.allowed(scene, debater) or knowledge.requery):
        return _Choice()
    selection, search = await roles.select(scene, debater, n, seen)
    scene.tell(SelectionMade, n=n, agent=debater.name, selection=selection)
    error = None if selection.error is None else f"its selection failed: {selection.error}"
    return _Choice(selection=selection, search=search, error=error)


async def _search(scene: Scene, debater: Debater, n: int, choice: _Choice) -> Hits:
    if choice.search is None:
        return Hits()
    assert scene.retrieve is not None, "debate() checks that there is somebody to search"
    return await scene.retrieve(choice.search.query, scene.purpose("search", debater.name, n))


def _grown(scene: Scene, debater: Debater, n: int, choice: _Choice, hits: Hits) -> _Choice:
    if choice.search is None:
        return choice
    if hits.error is not None:
        search = replace(choice.search, error=hits.error)
    else:
        search = replace(choice.search, ids=scene.add_passages(hits.passages, debater.name, n, choice.search.query))
    scene.tell(SearchMade, n=n, agent=debater.name, search=search)
    return replace(choice, search=search)


async def _say(scene: Scene, debater: Debater, n: int, seen: View, choice: _Choice) -> Turn:
    if choice.error is not None:
        stance = Stance(status="failed", error=choice.error)
    else:
        if choice.selection is None:
            numbers = roles.allowed(scene, debater)
        else:
            asked = choice.search.ids if choice.search else ()
            numbers = sorted({*choice.selection.ids, *asked})
        stance = await roles.speak(scene, debater, n, numbers, seen)
    scene.tell(StanceGiven, n=n, agent=debater.name, stance=stance)
    return Turn(agent=debater.name, stance=stance, selection=choice.selection, search=choice.search, reads=seen.reads)
