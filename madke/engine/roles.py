"""The roles: a template in, a parsed reply out. One function a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from madke.core.transcript import Digest, Final, Reflection, Round, Search, Selection, Stance, Verdict
from madke.engine.order import persona_of
from madke.engine.parse import (
    answer_of,
    parse_confidence,
    parse_pick,
    parse_search,
    parse_selection,
    parse_side,
    parse_verdict,
)
from madke.engine.protocol import Debater
from madke.engine.scene import Scene, Told
from madke.engine.view import View, everybody

_COMMON = frozenset({"question", "options", "task", "round", "rounds", "debaters", "level"})
_DEBATER = _COMMON | {"debater", "persona", "knowledge", "own", "prepared"}
_READER = _DEBATER | {"peers", "history", "groups", "digest", "critique"}

STAGE_VALUES: Mapping[str, frozenset[str]] = {
    "select": _DEBATER | {"max_selected", "allow_search"},
    "speak": _READER,
    "reply": _READER,
    "reflect": _DEBATER,
    "digest": _COMMON | {"stances", "digest"},
    **dict.fromkeys(("judge", "extract", "pick", "summarize"), _COMMON | {"stances"}),
}
"""What the template of each stage may use."""

PREPARE_VALUES = _DEBATER


async def prepare(scene: Scene, debater: Debater) -> None:
    """Let a debater go through its preparing stages; each sees what the ones before it made."""
    texts = scene.prepared.setdefault(debater.name, {})
    for stage in debater.prepare:
        values = {"knowledge": allowed(scene, debater), "own": None}
        told = await _ask(scene, stage, debater, 1, values)
        if told["error"] is not None:
            scene.unprepared[debater.name] = f"its {stage} failed: {told['error']}"
            return
        texts[stage] = told["text"]


async def select(scene: Scene, debater: Debater, round_n: int, view: View) -> tuple[Selection, Search | None]:
    """Ask a debater which knowledge it wants (Eq. 2: it never sees the peers), and what it would search for."""
    knowledge = scene.protocol.knowledge
    assert knowledge is not None
    numbers = allowed(scene, debater)
    limit, allow_search = knowledge.max_selected, knowledge.allow_search
    values = {"knowledge": numbers, "max_selected": limit, "allow_search": allow_search, "own": view.last}
    told = await _ask(scene, "select", debater, round_n, values)
    if told["error"] is not None:
        return Selection(status="failed", **told), None
    shown = set(numbers) - set(told["truncated"].passages if told["truncated"] else ())
    parsed = parse_selection(told["text"], size=len(scene.pool.passages), limit=limit, shown=shown)
    chosen = parsed.value
    selection = Selection(ids=chosen.ids, dropped=chosen.dropped, status=parsed.status, rule=parsed.rule, **told)
    query = parse_search(told["text"]).value if allow_search else None
    return selection, Search(query=query) if query else None


async def speak(scene: Scene, debater: Debater, round_n: int, numbers: Sequence[int], view: View) -> Stance:
    """Let a debater speak, with the knowledge it has. Eq. 3 in round 1; Eq. 4 as a reply to what it sees."""
    stage = "speak" if view.empty else "reply"
    shown_of_view = ("own", "peers", "history", "groups", "digest", "critique")
    values = {"knowledge": numbers, **{name: getattr(view, name) for name in shown_of_view}}
    droppable = len(view.peers) + len(view.history)
    told = await _ask(scene, stage, debater, round_n, values, droppable=droppable)
    if told["error"] is not None:
        return Stance(stage=stage, status="failed", **told)
    shown = set(numbers) - set(told["truncated"].passages if told["truncated"] else ())
    parsed = answer_of(told["text"], scene.task, scene.question, scene.protocol.marker, shown=shown)
    confidence = parse_confidence(told["text"]).value if scene.protocol.finish == "weighted" else None
    answer, status, rule = parsed.value, parsed.status, parsed.rule
    return Stance(stage=stage, answer=answer, status=status, rule=rule, confidence=confidence, **told)


async def reflect(scene: Scene, debater: Debater, round_n: int, own: str) -> Reflection:
    """Let a debater scrutinise its own stance and say whether it is satisfied with it."""
    values = {"knowledge": allowed(scene, debater), "own": own}
    told = await _ask(scene, "reflect", debater, round_n, values)
    if told["error"] is not None:
        return Reflection(satisfied=None, **told)
    parsed = parse_verdict(told["text"])
    return Reflection(satisfied=parsed.value.consensus, rule=parsed.rule, **told)


async def digest(scene: Scene, rounds: Sequence[Round]) -> Digest:
    """Ask the summarizer to sum up the debate so far: the last round, and its own account of those before."""
    before = rounds[-2].digest if len(rounds) > 1 else None
    values = {"stances": everybody(rounds), "digest": before.text if before and not before.error else None}
    return Digest(**await scene.call("digest", "summarizer", rounds[-1].n, values))


async def judge(scene: Scene, rounds: Sequence[Round]) -> Verdict:
    """Ask the judge whether the debate is settled (Wang et al., Eq. 5; Liang et al., Eq. 1). It sees no pool."""
    told = await _closing(scene, "judge", "judge", rounds, scene.protocol.judge_sees == "history")
    if told["error"] is not None:
        return Verdict(consensus=None, **told)
    sides = [debater.name for debater in scene.protocol.cast]
    parsed = parse_verdict(told["text"], sides=sides, read=scene.read)
    found = parsed.value
    return Verdict(
        consensus=found.consensus, side=found.side, answer=found.answer, reason=found.reason, rule=parsed.rule, **told
    )


async def extract(scene: Scene, rounds: Sequence[Round]) -> Final:
    """Ask the judge for the answer of the whole debate (Liang et al., extractive mode)."""
    return await _answer(scene, "extract", "judge", rounds, history=True)


async def summarize(scene: Scene, rounds: Sequence[Round]) -> Final:
    """Ask the summarizer for the final answer of the last round's stances (Eq. 6). It sees no pool."""
    return await _answer(scene, "summarize", "summarizer", rounds)


async def pick(scene: Scene, rounds: Sequence[Round]) -> tuple[Final, str | None]:
    """Ask the judge which debater's last stance is the best; its name is None where none could be read."""
    told = await _closing(scene, "pick", "judge", rounds)
    if told["error"] is not None:
        return Final(by="judge", status="failed", **told), None
    parsed = parse_pick(told["text"], [spoken.agent for spoken in everybody(rounds)])
    return Final(by="judge", status=parsed.status, rule=parsed.rule, **told), parsed.value


def allowed(scene: Scene, debater: Debater) -> list[int]:
    """The numbers of the passages that a debater may see at all."""
    knowledge = scene.protocol.knowledge
    if knowledge is None or knowledge.select == "none":
        return []
    if knowledge.select == "one_each":
        place = next(n for n, other in enumerate(scene.protocol.cast) if other.name == debater.name)
        return [place] if place < len(scene.pool.passages) else []
    sources = (knowledge.per_debater_sources or {}).get(debater.name)
    return [n for n, p in enumerate(scene.pool.passages) if sources is None or p.source in sources]


async def _answer(scene: Scene, stage: str, agent: str, rounds: Sequence[Round], *, history: bool = False) -> Final:
    told = await _closing(scene, stage, agent, rounds, history)
    if told["error"] is not None:
        return Final(by=agent, status="failed", **told)
    shown = _cited(scene, rounds)
    parsed = answer_of(told["text"], scene.task, scene.question, scene.protocol.marker, shown=shown)
    sides = [debater.name for debater in scene.protocol.cast] if stage == "extract" else []
    side = parse_side(told["text"], sides).value
    return Final(by=agent, answer=parsed.value, status=parsed.status, rule=parsed.rule, agent=side, **told)


def _cited(scene: Scene, rounds: Sequence[Round]) -> set[int]:
    """The numbers that the debaters' stances may cite: those of the passages that the debaters were shown."""
    shown: set[int] = set()
    for turn in (turn for played in rounds for turn in played.turns):
        if turn.selection is not None:
            shown.update(turn.selection.ids)
        else:
            shown.update(*(allowed(scene, debater) for debater in scene.protocol.cast if debater.name == turn.agent))
        shown.update(turn.search.ids if turn.search else ())
    return shown


async def _closing(scene: Scene, stage: str, agent: str, rounds: Sequence[Round], history: bool = False) -> Told:
    """A call of the judge or the summarizer. What may be dropped from it is history: never the last round."""
    stances = everybody(rounds, history=history)
    old = sum(spoken.round < rounds[-1].n for spoken in stances)
    return await scene.call(stage, agent, rounds[-1].n, {"stances": stances}, droppable=old)


async def _ask(
    scene: Scene, stage: str, debater: Debater, round_n: int, values: Mapping[str, Any], *, droppable: int = 0
) -> Told:
    cast, texts = scene.protocol.cast, scene.prepared.get(debater.name, {})
    own = {
        "debater": debater.name,
        "persona": persona_of(debater, cast, round_n, scene.protocol.order),
        "prepared": {name: texts.get(name) for other in cast for name in other.prepare},
    }
    prompt, temperature = debater.prompt, debater.temperature
    shown = {**values, **own}
    return await scene.call(
        stage, debater.name, round_n, shown, prompt=prompt, temperature=temperature, droppable=droppable
    )
