"""The roles: each step renders a stage's template, makes the call and reads the reply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from types import MappingProxyType
from typing import Any

from madke.core.chat import fields_of
from madke.core.transcript import (
    Called,
    Digest,
    Final,
    ParseStatus,
    Reflection,
    Remark,
    Round,
    Search,
    Selection,
    Stance,
    Turn,
    Verdict,
)
from madke.engine import parse
from madke.engine.citations import looked_up, merged
from madke.engine.parse.bound import (
    answer_schema,
    review_schema,
    selection_schema,
    stance_schema,
    verdict_schema,
)
from madke.engine.reading import View, stances_of
from madke.engine.scene import Scene, Schemas, StageReply, no_schema
from madke.engine.settings import Debater

_COMMON = frozenset({"question", "options", "task", "examples", "marker", "round", "rounds", "debaters"})
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
REMARK_VALUES = _COMMON | {"stances", "knowledge"}


@dataclass(frozen=True, slots=True)
class Roles:
    """The calls of one debate. A simulated debate has others (:mod:`madke.engine.simulate`)."""

    scene: Scene

    async def prepare(self, debater: Debater) -> None:
        """Make the calls of a debater's ``prepare`` stages; each sees the texts of the earlier ones."""
        scene = self.scene
        texts = scene.prepared.setdefault(debater.name, {})
        for stage in debater.prepare:
            values = {"knowledge": allowed(scene, debater), "own": None}
            reply, *_ = await self._ask(stage, debater, 1, values)
            if reply.error is not None:
                scene.unprepared[debater.name] = f"its {stage} failed: {reply.error}"
                return
            texts[stage] = reply.text

    async def select(self, debater: Debater, round_n: int, view: View) -> tuple[Selection, Search | None]:
        """Ask a debater which passages it wants (Eq. 2: it never sees the peers), and what to search for."""
        scene = self.scene
        numbers = allowed(scene, debater)
        limit, allow_search = scene.protocol.max_selected, scene.protocol.allow_search
        values = {"knowledge": numbers, "max_selected": limit, "allow_search": allow_search, "own": view.last}
        schema = no_schema if allow_search else partial(selection_schema, limit)
        reply, context, bound = await self._ask("select", debater, round_n, values, schema=schema)
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

    async def speak(self, debater: Debater, round_n: int, numbers: Sequence[int], view: View) -> Stance:
        """Ask a debater for its stance, with the passages ``numbers``. Eq. 3 in round 1; Eq. 4 as a reply to ``view``.

        A stance with a schema is reasons with quotes, and then an answer: no text, no lone answer, no confidence.
        """
        scene, task = self.scene, self.scene.task
        stage = "speak" if view.empty else "reply"
        view_fields = ("own", "peers", "history", "groups", "digest", "critique")
        asks_quotes = scene.protocol.cite or task.cites
        cite = bool(numbers) and asks_quotes
        values = {"knowledge": numbers, "cite": cite, **{name: getattr(view, name) for name in view_fields}}
        bindable = asks_quotes and scene.marker not in ("text", "alone") and not scene.weighs
        reply, context, bound = await self._ask(
            stage,
            debater,
            round_n,
            values,
            droppable=len(view.peers) + len(view.history),
            schema=partial(stance_schema, task, scene.question) if bindable else no_schema,
            chat=view.chat,
        )
        if reply.error is not None:
            return Stance(stage=stage, status="failed", **fields_of(reply))
        shown = set(numbers) - set(reply.truncated.passages if reply.truncated else ())
        parsed = self._answer(reply, context, shown) if bound is None else self._bound_answer(bound, context)
        if task.is_prose and parsed.value is not None:
            checked = looked_up(parsed.value, scene.question.question, searchable(scene, shown))
            parsed, reply = replace(parsed, value=checked), replace(reply, text=checked)
        confidence = parse.parse_confidence(reply.text, context=context).value if scene.weighs else None
        return Stance(
            stage=stage,
            answer=parsed.value,
            status=_status(parsed, reply),
            rule=parsed.rule,
            confidence=confidence,
            copied=parse.is_copied(reply.text, context),
            **fields_of(reply),
        )

    async def reflect(self, debater: Debater, round_n: int, own: str) -> Reflection:
        """Ask a debater to review its own stance and say whether it is satisfied."""
        values = {"knowledge": allowed(self.scene, debater), "own": own}
        schema = lambda shown: review_schema()  # noqa: E731
        reply, context, bound = await self._ask("reflect", debater, round_n, values, schema=schema)
        if reply.error is not None:
            return Reflection(satisfied=None, **fields_of(reply))
        parsed = parse.parse_verdict(reply.text, context=context) if bound is None else self._verdict(bound)
        status = _status(parsed, reply)
        return Reflection(satisfied=parsed.value.consensus, status=status, rule=parsed.rule, **fields_of(reply))

    async def remark(self, role: str, rounds: Sequence[Round], *, history: bool = False) -> Remark:
        """Ask a role outside the cast for a remark on the stances. It sees the pool."""
        values = {"knowledge": [*range(len(self.scene.pool.passages))]}
        reply, *_ = await self._conclude(role, role, rounds, history, values)
        return Remark(role=role, **fields_of(reply))

    async def digest(self, rounds: Sequence[Round]) -> Digest:
        """Ask the summarizer to sum up the debate so far, from the last round and its own previous summary."""
        before = rounds[-2].digest if len(rounds) > 1 else None
        values = {"stances": stances_of(rounds), "digest": before.text if before and not before.error else None}
        reply, *_ = await self.scene.call("digest", "summarizer", rounds[-1].n, values)
        return Digest(**fields_of(reply))

    async def judge(self, rounds: Sequence[Round], *, history: bool = False, decides: bool = False) -> Verdict:
        """Ask the judge whether the debate is settled (Wang et al., Eq. 5; Liang et al., Eq. 1). It sees no pool."""
        task, question, sides = self.scene.task, self.scene.question, self._sides
        schema = lambda shown: verdict_schema(task, question, sides) if decides else None  # noqa: E731
        reply, context, bound = await self._conclude("judge", "judge", rounds, history, schema=schema)
        if reply.error is not None:
            return Verdict(consensus=None, **fields_of(reply))
        read = lambda raw: task.read(raw, question)  # noqa: E731
        parsed = (
            parse.parse_verdict(reply.text, sides=sides, read=read, context=context)
            if bound is None
            else self._verdict(bound)
        )
        return replace(parsed.value, status=_status(parsed, reply), rule=parsed.rule, **fields_of(reply))

    async def extract(self, rounds: Sequence[Round]) -> Final:
        """Ask the judge for the answer of the whole debate (Liang et al., extractive mode)."""
        return await self._final("extract", "judge", rounds, self._sides)

    async def summarize(self, rounds: Sequence[Round]) -> Final:
        """Ask the summarizer for the final answer of the last round's stances (Eq. 6). It sees no pool."""
        final = await self._final("summarize", "summarizer", rounds)
        if not self.scene.task.is_prose or final.answer is None:
            return final
        stances = [spoken.answer for spoken in stances_of(rounds) if spoken.answer is not None]
        text, check = merged(final.answer, self.scene.question.question, stances)
        return replace(final, answer=text, text=text, citations=check)

    async def pick(self, rounds: Sequence[Round]) -> tuple[Final, str | None]:
        """Ask the judge which debater's last stance is the best; the name is None if none could be read."""
        reply, context, _ = await self._conclude("pick", "judge", rounds)
        if reply.error is not None:
            return Final(by="judge", status="failed", **fields_of(reply)), None
        parsed = parse.parse_pick(reply.text, [spoken.agent for spoken in stances_of(rounds)], context=context)
        return Final(by="judge", status=_status(parsed, reply), rule=parsed.rule, **fields_of(reply)), parsed.value

    @property
    def _sides(self) -> list[str]:
        return [debater.name for debater in self.scene.debaters]

    async def _final(self, stage: str, agent: str, rounds: Sequence[Round], sides: Sequence[str] = ()) -> Final:
        """The answer to a call about the last round; with ``sides``, about the whole debate and for one of them."""
        scene = self.scene
        bindable = scene.marker != "text"
        schema = lambda shown: answer_schema(scene.task, scene.question, sides) if bindable else None  # noqa: E731
        reply, context, bound = await self._conclude(stage, agent, rounds, bool(sides), schema=schema)
        if reply.error is not None:
            return Final(by=agent, status="failed", **fields_of(reply))
        if bound is None:
            parsed = self._answer(reply, context, _citable(scene, rounds))
            side = parse.parse_side(reply.text, sides, context=context).value
        else:
            parsed = self._bound_answer(bound, context)
            side = parse.bound_side(bound)
        status = _status(parsed, reply)
        return Final(by=agent, answer=parsed.value, status=status, rule=parsed.rule, agent=side, **fields_of(reply))

    def _answer(self, reply: Called, context: parse.ParseContext, shown: set[int]) -> parse.Parsed[str | None]:
        task, question, marker = self.scene.task, self.scene.question, self.scene.marker
        return parse.answer_of(reply.text, task, question, marker, shown=shown, cut=reply.cut, context=context)

    def _bound_answer(self, bound: parse.BoundReply, context: parse.ParseContext) -> parse.Parsed[str | None]:
        return parse.bound_answer(bound, self.scene.task, self.scene.question, context)

    def _verdict(self, bound: parse.BoundReply) -> parse.Parsed[Verdict]:
        return parse.bound_verdict(bound, self.scene.task, self.scene.question)

    async def _conclude(
        self,
        stage: str,
        agent: str,
        rounds: Sequence[Round],
        history: bool = False,
        values: Mapping[str, Any] = MappingProxyType({}),
        *,
        schema: Schemas = no_schema,
    ) -> StageReply:
        """Call a role outside the cast. Only stances of earlier rounds may be dropped, never the last round's."""
        stances = stances_of(rounds, history=history)
        old = sum(spoken.round < rounds[-1].n for spoken in stances)
        shown = {**values, "stances": stances}
        return await self.scene.call(stage, agent, rounds[-1].n, shown, droppable=old, schema=schema)

    async def _ask(
        self,
        stage: str,
        debater: Debater,
        round_n: int,
        values: Mapping[str, Any],
        *,
        droppable: int = 0,
        schema: Schemas = no_schema,
        chat: bool = False,
    ) -> StageReply:
        scene = self.scene
        texts = scene.prepared.get(debater.name, {})
        own = {
            "debater": debater.name,
            "persona": self._persona(debater, round_n),
            "prepared": {name: texts.get(name) for other in scene.debaters for name in other.prepare},
        }
        shown = {**values, **own}
        return await scene.call(stage, debater.name, round_n, shown, droppable=droppable, schema=schema, chat=chat)

    def _persona(self, debater: Debater, round_n: int) -> str:
        scene = self.scene
        if not scene.rotates_personas:
            return debater.persona
        place = place_of(scene, debater)
        return scene.debaters[(place - (round_n - 1)) % len(scene.debaters)].persona


def allowed(scene: Scene, debater: Debater) -> list[int]:
    """The numbers of the passages that a debater may see."""
    knowledge = scene.protocol.knowledge
    if knowledge is None or knowledge.select == "none":
        return []
    if knowledge.select == "one_each":
        place = place_of(scene, debater)
        return [place] if place < len(scene.pool.passages) else []
    if knowledge.select == "views":
        place = place_of(scene, debater)
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


def place_of(scene: Scene, debater: Debater) -> int:
    """The place of a debater in the cast, from 0."""
    return next(n for n, other in enumerate(scene.debaters) if other.name == debater.name)


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
            shown.update(*(allowed(scene, debater) for debater in scene.debaters if debater.name == turn.agent))
        shown.update(turn.search.ids if turn.search else ())
    return shown
