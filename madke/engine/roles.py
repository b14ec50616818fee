"""The roles: each function renders a stage's template, makes the call and parses the reply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from madke.core.chat import fields_of
from madke.core.transcript import (
    Called,
    Digest,
    Final,
    ParseStatus,
    Reflection,
    Round,
    Search,
    Selection,
    Stance,
    Turn,
    Verdict,
)
from madke.engine import parse
from madke.engine.prose import is_prose, looked_up, merged
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Debater
from madke.engine.scene import Scene, StageReply
from madke.engine.schemas import asks_for_quotes
from madke.engine.view import View, stances_of

_COMMON = frozenset({"question", "options", "task", "marker", "round", "rounds", "debaters", "level"})
_DEBATER = _COMMON | {"debater", "persona", "knowledge", "own", "prepared"}
_READER = _DEBATER | {"peers", "history", "groups", "digest", "critique", "cite", "bound"}

STAGE_VALUES: Mapping[str, frozenset[str]] = {
    "select": _DEBATER | {"max_selected", "allow_search", "bound"},
    "speak": _READER,
    "reply": _READER,
    "reflect": _DEBATER | {"bound"},
    "digest": _COMMON | {"stances", "digest"},
    **dict.fromkeys(("judge", "extract", "summarize"), _COMMON | {"stances", "bound"}),
    "pick": _COMMON | {"stances"},
}
"""Stage -> the variables that its template may use."""

PREPARE_VALUES = _DEBATER


async def prepare(scene: Scene, debater: Debater) -> None:
    """Make the calls of a debater's ``prepare`` stages; each sees the texts of the earlier ones."""
    texts = scene.prepared.setdefault(debater.name, {})
    for stage in debater.prepare:
        values = {"knowledge": allowed(scene, debater), "own": None}
        reply, *_ = await _ask(scene, stage, debater, 1, values)
        if reply.error is not None:
            scene.unprepared[debater.name] = f"its {stage} failed: {reply.error}"
            return
        texts[stage] = reply.text


async def select(scene: Scene, debater: Debater, round_n: int, view: View) -> tuple[Selection, Search | None]:
    """Ask a debater which passages it wants (Eq. 2: it never sees the peers), and what to search for."""
    knowledge = scene.protocol.knowledge
    assert knowledge is not None
    numbers = allowed(scene, debater)
    limit, allow_search = knowledge.max_selected, knowledge.allow_search
    values = {"knowledge": numbers, "max_selected": limit, "allow_search": allow_search, "own": view.last}
    reply, context, bound = await _ask(scene, "select", debater, round_n, values)
    if reply.error is not None:
        return Selection(status="failed", **fields_of(reply)), None
    shown = set(numbers) - set(reply.truncated.passages if reply.truncated else ())
    size = len(scene.pool.passages)
    parsed = (
        parse.parse_selection(reply.text, size=size, limit=limit, shown=shown, context=context)
        if bound is None
        else parse.bound_selection(bound, limit)
    )
    selection = replace(parsed.value, status=_status(parsed, reply), rule=parsed.rule, **fields_of(reply))
    queries = parse.parse_searches(reply.text, limit=1, context=context).value if allow_search else ()
    return selection, Search(query=queries[0]) if queries else None


async def speak(scene: Scene, debater: Debater, round_n: int, numbers: Sequence[int], view: View) -> Stance:
    """Ask a debater for its stance, with the passages ``numbers``. Eq. 3 in round 1; Eq. 4 as a reply to ``view``."""
    stage = "speak" if view.empty else "reply"
    view_fields = ("own", "peers", "history", "groups", "digest", "critique")
    cite = bool(numbers) and asks_for_quotes(scene.protocol, scene.task)
    values = {"knowledge": numbers, "cite": cite, **{name: getattr(view, name) for name in view_fields}}
    droppable = len(view.peers) + len(view.history)
    reply, context, bound = await _ask(scene, stage, debater, round_n, values, droppable=droppable)
    if reply.error is not None:
        return Stance(stage=stage, status="failed", **fields_of(reply))
    shown = set(numbers) - set(reply.truncated.passages if reply.truncated else ())
    parsed = _answer(scene, reply, context, shown) if bound is None else _bound_answer(scene, bound, context)
    if is_prose(scene.task) and parsed.value is not None:
        checked = looked_up(parsed.value, scene.question.question, searchable(scene, shown))
        parsed, reply = replace(parsed, value=checked), replace(reply, text=checked)
    confidence = (
        parse.parse_confidence(reply.text, context=context).value if scene.protocol.finish == "weighted" else None
    )
    return Stance(
        stage=stage,
        answer=parsed.value,
        status=_status(parsed, reply),
        rule=parsed.rule,
        confidence=confidence,
        copied=parse.is_copied(reply.text, context),
        **fields_of(reply),
    )


async def reflect(scene: Scene, debater: Debater, round_n: int, own: str) -> Reflection:
    """Ask a debater to review its own stance and say whether it is satisfied."""
    values = {"knowledge": allowed(scene, debater), "own": own}
    reply, context, bound = await _ask(scene, "reflect", debater, round_n, values)
    if reply.error is not None:
        return Reflection(satisfied=None, **fields_of(reply))
    parsed = parse.parse_verdict(reply.text, context=context) if bound is None else _verdict(scene, bound)
    status = _status(parsed, reply)
    return Reflection(satisfied=parsed.value.consensus, status=status, rule=parsed.rule, **fields_of(reply))


async def digest(scene: Scene, rounds: Sequence[Round]) -> Digest:
    """Ask the summarizer to sum up the debate so far, from the last round and its own previous summary."""
    before = rounds[-2].digest if len(rounds) > 1 else None
    values = {"stances": stances_of(rounds), "digest": before.text if before and not before.error else None}
    reply, *_ = await scene.call("digest", "summarizer", rounds[-1].n, values)
    return Digest(**fields_of(reply))


async def ask_judge(scene: Scene, rounds: Sequence[Round]) -> Verdict:
    """Ask the judge whether the debate is settled (Wang et al., Eq. 5; Liang et al., Eq. 1). It sees no pool."""
    reply, context, bound = await _conclude(scene, "judge", "judge", rounds, scene.protocol.judge_sees == "history")
    if reply.error is not None:
        return Verdict(consensus=None, **fields_of(reply))
    sides = [debater.name for debater in scene.protocol.cast]
    read = lambda raw: scene.task.read(raw, scene.question)  # noqa: E731
    parsed = (
        parse.parse_verdict(reply.text, sides=sides, read=read, context=context)
        if bound is None
        else _verdict(scene, bound)
    )
    return replace(parsed.value, status=_status(parsed, reply), rule=parsed.rule, **fields_of(reply))


async def extract(scene: Scene, rounds: Sequence[Round]) -> Final:
    """Ask the judge for the answer of the whole debate (Liang et al., extractive mode)."""
    return await _final(scene, "extract", "judge", rounds, history=True)


async def summarize(scene: Scene, rounds: Sequence[Round]) -> Final:
    """Ask the summarizer for the final answer of the last round's stances (Eq. 6). It sees no pool."""
    final = await _final(scene, "summarize", "summarizer", rounds)
    if not is_prose(scene.task) or final.answer is None:
        return final
    stances = [spoken.answer for spoken in stances_of(rounds) if spoken.answer is not None]
    text, check = merged(final.answer, scene.question.question, stances)
    return replace(final, answer=text, text=text, citations=check)


async def pick(scene: Scene, rounds: Sequence[Round]) -> tuple[Final, str | None]:
    """Ask the judge which debater's last stance is the best; the name is None if none could be read."""
    reply, context, _ = await _conclude(scene, "pick", "judge", rounds)
    if reply.error is not None:
        return Final(by="judge", status="failed", **fields_of(reply)), None
    parsed = parse.parse_pick(reply.text, [spoken.agent for spoken in stances_of(rounds)], context=context)
    return Final(by="judge", status=_status(parsed, reply), rule=parsed.rule, **fields_of(reply)), parsed.value


def allowed(scene: Scene, debater: Debater) -> list[int]:
    """The numbers of the passages that a debater may see."""
    knowledge = scene.protocol.knowledge
    if knowledge is None or knowledge.select == "none":
        return []
    if knowledge.select == "one_each":
        place = _place(scene.protocol, debater)
        return [place] if place < len(scene.pool.passages) else []
    if knowledge.select == "views":
        place = _place(scene.protocol, debater)
        size = len(scene.pool.passages)
        return [(place + n) % size for n in range(ceil(knowledge.view_share * size))]
    sources = (knowledge.per_debater_sources or {}).get(debater.name)
    return [n for n, p in enumerate(scene.pool.passages) if sources is None or p.source in sources]


def searchable(scene: Scene, numbers: Iterable[int]) -> dict[int, str]:
    """Pool number -> the text in which answers and quotes are looked up. Sentences end at its line breaks."""
    return {n: "\n".join(scene.passage(n)) for n in numbers}


def citable_numbers(scene: Scene, debater: Debater, turn: Turn) -> list[int]:
    """The numbers of the passages that a debater reads in its turn: those it chose and found, or else all."""
    if turn.selection is None:
        return allowed(scene, debater)
    return sorted({*turn.selection.ids, *(turn.search.ids if turn.search else ())})


async def _final(scene: Scene, stage: str, agent: str, rounds: Sequence[Round], *, history: bool = False) -> Final:
    reply, context, bound = await _conclude(scene, stage, agent, rounds, history)
    if reply.error is not None:
        return Final(by=agent, status="failed", **fields_of(reply))
    if bound is None:
        parsed = _answer(scene, reply, context, _citable(scene, rounds))
        sides = [debater.name for debater in scene.protocol.cast] if stage == "extract" else []
        side = parse.parse_side(reply.text, sides, context=context).value
    else:
        parsed = _bound_answer(scene, bound, context)
        side = parse.bound_side(bound)
    status = _status(parsed, reply)
    return Final(by=agent, answer=parsed.value, status=status, rule=parsed.rule, agent=side, **fields_of(reply))


def _answer(scene: Scene, reply: Called, context: parse.ParseContext, shown: set[int]) -> parse.Parsed[str | None]:
    task, question, marker = scene.task, scene.question, scene.protocol.marker
    return parse.answer_of(reply.text, task, question, marker, shown=shown, cut=reply.cut, context=context)


def _bound_answer(scene: Scene, bound: parse.BoundReply, context: parse.ParseContext) -> parse.Parsed[str | None]:
    return parse.bound_answer(bound, scene.task, scene.question, context)


def _verdict(scene: Scene, bound: parse.BoundReply) -> parse.Parsed[Verdict]:
    return parse.bound_verdict(bound, scene.task, scene.question)


def _status(parsed: parse.Parsed[Any], reply: Called) -> ParseStatus:
    """The status of a reading; ``cut`` if the reply was stopped before it said anything that can be read."""
    return "cut" if reply.cut and parsed.status == "unmarked" else parsed.status


def _citable(scene: Scene, rounds: Sequence[Round]) -> set[int]:
    """The pool numbers that the stances may cite: those of all passages that debaters were shown."""
    shown: set[int] = set()
    for turn in (turn for entry in rounds for turn in entry.turns):
        if turn.selection is not None:
            shown.update(turn.selection.ids)
        else:
            shown.update(*(allowed(scene, debater) for debater in scene.protocol.cast if debater.name == turn.agent))
        shown.update(turn.search.ids if turn.search else ())
    return shown


async def _conclude(scene: Scene, stage: str, agent: str, rounds: Sequence[Round], history: bool = False) -> StageReply:
    """Call the judge or the summarizer. Only stances of earlier rounds may be dropped, never the last round's."""
    stances = stances_of(rounds, history=history)
    old = sum(spoken.round < rounds[-1].n for spoken in stances)
    return await scene.call(stage, agent, rounds[-1].n, {"stances": stances}, droppable=old)


async def _ask(
    scene: Scene, stage: str, debater: Debater, round_n: int, values: Mapping[str, Any], *, droppable: int = 0
) -> StageReply:
    cast, texts = scene.protocol.cast, scene.prepared.get(debater.name, {})
    own = {
        "debater": debater.name,
        "persona": _persona(debater, scene.protocol, round_n),
        "prepared": {name: texts.get(name) for other in cast for name in other.prepare},
    }
    return await scene.call(stage, debater.name, round_n, {**values, **own}, droppable=droppable)


def _persona(debater: Debater, protocol: Protocol, round_n: int) -> str:
    if not protocol.order.rotate_personas:
        return debater.persona
    place = _place(protocol, debater)
    return protocol.cast[(place - (round_n - 1)) % len(protocol.cast)].persona


def _place(protocol: Protocol, debater: Debater) -> int:
    """The place of a debater in the cast, from 0."""
    return next(n for n, other in enumerate(protocol.cast) if other.name == debater.name)
