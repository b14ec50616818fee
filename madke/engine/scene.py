"""The state of one debate, and its calls: each renders a stage's template, calls a model and keeps what came back."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple, TypeVar

from madke._util.concurrency import gather
from madke.core.chat import (
    BoundForm,
    ChatModel,
    ChatRequest,
    Completion,
    Message,
    Purpose,
    Schema,
    ShownPassage,
    Spoken,
    Stage,
    call_seed,
    fields_of,
    shared_length,
    takes_schemas,
    writable,
)
from madke.core.events import CallDelta, CallFinished, CallStarted, Event, Listener, never_raising
from madke.core.knowledge import EMPTY_POOL, Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Called, PoolEntry, StageUsage, Transcript, Truncation, Turn
from madke.engine.parse.answer import Marker
from madke.engine.parse.decisions import BoundReply, read_bound
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import NO_CONTEXT, TRUNCATED, ParseContext, with_empty_outcome, without_reasoning
from madke.engine.reading import as_message, groups_without, quoted
from madke.engine.settings import Debater, Settings
from madke.tasks.base import BaseTask

Cast = Mapping[str, ChatModel]
"""The model of each role of a protocol."""

Retrieve = Callable[[str, Purpose], Awaitable[Hits]]
"""Answers a debater's search (``allow_search``), given the query and the purpose of the call."""

ScoreAnswers = Callable[[Question, Sequence[str]], Awaitable[Sequence[float]]]
"""An answer scorer: scores answers without the golds; the highest is the best."""

Gather = Callable[[Iterable[Coroutine[Any, Any, Any]]], Awaitable[list[Any]]]
"""Makes the calls of debaters that need not wait for each other; returns their results in order."""

Record = TypeVar("Record", bound=Called)

Schemas = Callable[[Sequence[int]], Schema | None]
"""The schema of a reply, given the numbers of the passages in its prompt."""

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

_SHARE = 8
"""Each attempt to shorten a prompt drops an eighth of its stances or passages."""


@dataclass(slots=True)
class Scene:
    """One debate: its inputs, what all its calls share, and what they have used so far. Each debate needs a new one."""

    question: Question
    """Its gold answers are read only by the orders ``truth_first`` and ``truth_last``."""
    protocol: Settings
    cast: Cast
    pool: KnowledgePool = EMPTY_POOL
    """Numbered passages; ignored if the protocol has no ``sources``. Grows if debaters search."""
    _: KW_ONLY
    task: BaseTask
    prompts: Any
    """The templates: a :class:`madke.engine.variant.Variant`, which imports this module."""
    repeat: int = 0
    seed: int | None = None
    """The run's sampling seed; each call derives its own. None leaves sampling to the server."""
    first_round: Sequence[Turn] = ()
    """The turns of round 1, for ``protocol.first_round_given``. An agent outside the cast is read by all but does not
    speak."""
    retrieve: Retrieve | None = None
    score_answers: ScoreAnswers | None = None
    gather: Gather = gather
    settle: Callable[[Transcript], Transcript] | None = None
    listen: Listener | None = None
    deltas: bool = False
    simulate: Callable[[str, str, int, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Of a simulated debate (:mod:`madke.engine.protocol`): stage, agent, round and values of a call -> what its reply
    says, as fields of its record. The call is made, but its reply is not read."""
    clock: Callable[[], float] = lambda: 0.0
    began: float = field(init=False)
    usage: dict[str, StageUsage] = field(default_factory=dict, init=False)
    turn_usage: dict[str, StageUsage] = field(default_factory=dict, init=False)
    prepared: dict[str, dict[str, str]] = field(default_factory=dict, init=False)
    unprepared: dict[str, str] = field(default_factory=dict, init=False)
    search_entries: dict[int, PoolEntry] = field(default_factory=dict, init=False)
    """Pool number -> entry, for passages that debaters' searches added."""
    debaters: tuple[Debater, ...] = field(init=False)
    """Who debates: the cast, with ``select: one_each`` as many as there are passages, but at least one."""
    marker: Marker = field(init=False)
    weighs: bool = field(default=False, init=False)
    """Whether stances state a confidence, since the answers are weighed."""
    decides: bool = field(default=False, init=False)
    """Whether the judge decides on the answer."""
    rotates_personas: bool = field(default=False, init=False)
    """Whether personas move to the next debater in every round."""
    shared: dict[str, Any] = field(init=False)
    """The values that all templates can show."""
    _lines: dict[int, ShownPassage] = field(default_factory=dict, init=False)
    _prompts: list[tuple[tuple[int, str, str], str, tuple[Message, ...], int]] = field(default_factory=list, init=False)
    """Of each call: its round, stage and agent; the model; the prompt; the tokens that the server counted."""

    def __post_init__(self) -> None:
        self.began = self.clock()
        if self.listen is not None:
            self.listen = never_raising(self.listen)
        if self.protocol.knowledge is None:
            self.pool = EMPTY_POOL
        self.debaters = self.protocol.cast
        if self.one_each:
            self.debaters = self.debaters[: max(1, len(self.pool.passages))]
        self.marker = "text" if self.task.is_prose else self.protocol.marker
        self.shared = {
            # Without golds and metadata, so that no template can show the answer.
            "question": replace(self.question, answers=(), metadata={}),
            "rounds": getattr(self.protocol, "rounds", 1),
            "debaters": tuple(debater.name for debater in self.debaters),
        }

    @property
    def one_each(self) -> bool:
        """Whether each debater has one passage, so that there are no more debaters than passages."""
        return self.protocol.knowledge is not None and self.protocol.select == "one_each"

    def tell(self, kind: type[Event], **fields: Any) -> None:
        """Tell the listener, if there is one."""
        if self.listen is not None:
            at = self.clock() - self.began
            self.listen(kind(question=self.question.id, repeat=self.repeat, at=at, **fields))

    def same(self, a: str, b: str) -> bool:
        """The task's matcher for this question."""
        return self.task.same(a, b, self.question)

    def purpose(self, stage: str, agent: str, round_n: int) -> Purpose:
        """What a call is for."""
        return Purpose(question=self.question.id, stage=stage, agent=agent, round=round_n, repeat=self.repeat)

    async def call(
        self,
        stage: str,
        agent: str,
        round_n: int,
        values: Mapping[str, Any],
        *,
        droppable: int = 0,
        schema: Schemas | None = None,
        chat: bool = False,
    ) -> "StageReply":
        """Make one call of a stage in a round (1-based); ``values`` are its variables, ``knowledge`` pool numbers.

        If the prompt is too long, the first ``droppable`` of ``history``, ``peers`` or ``stances`` may be dropped.
        """
        debater = next((debater for debater in self.debaters if debater.name == agent), None)
        prompt, temperature = (debater.prompt, debater.temperature) if debater else (None, None)
        purpose = self.purpose(stage, agent, round_n)
        kept, truncated, retries = dict(values), Truncation(), 0

        def on_delta(text: str) -> None:
            self.tell(CallDelta, purpose=purpose, text=text)

        while True:
            render = partial(self._messages, stage, round_n, kept, prompt, chat)
            form = None
            if schema and self.protocol.structured != "off" and takes_schemas(self.cast[agent]):
                fields = schema(kept.get("knowledge", ()))
                if fields is not None and "bound" in self.prompts.shows(stage, prompt=prompt):
                    form = BoundForm(schema=fields, task=render(bound=True)[-1].content)
            request = ChatRequest(
                messages=render(),
                purpose=purpose,
                temperature=self.protocol.temperature if temperature is None else temperature,
                max_tokens=self.protocol.max_tokens,
                stop=self.protocol.stop_strings,
                seed=call_seed(self.seed, purpose),
                bound=form,
                stage=self._stage(stage, kept),
                on_delta=on_delta if self.deltas and self.listen is not None else None,
            )
            self.tell(CallStarted, purpose=purpose, request=request, model=self.cast[agent].name)
            completion = await self.cast[agent].complete(request)
            if completion.text.strip() and self.marker != "text":
                # A custom model may return only reasoning. With marker "text" the reply is taken as it is.
                completion = with_empty_outcome(completion, request.max_tokens)
            self.tell(CallFinished, purpose=purpose, completion=completion)
            retries += max(0, completion.attempts - 1)
            if completion.outcome != "too_long" or self.protocol.overflow == "fail":
                break
            if (shortened := self._shorten(kept, truncated, droppable)) is None:
                break
            kept, truncated = shortened
        self.usage[stage] = usage_with_call(self.usage.get(stage, StageUsage()), completion, retries)
        if debater is not None and stage != "reflect":
            of_turn = replace(completion, paid=False, seconds=0.0)
            self.turn_usage[agent] = usage_with_call(self.turn_usage.get(agent, StageUsage()), of_turn, 0)
        place, model, read = (round_n, stage, agent), self.cast[agent].name, completion.usage.prompt_tokens
        self._prompts.append((place, model, request.messages, read))
        error = completion.error or (None if completion.outcome == "ok" else completion.outcome)
        text = writable(without_reasoning(completion.text))
        request = request.in_form(bound=bool(completion.bound))
        bound = read_bound(text, request.bound.schema) if request.bound and completion.outcome == "ok" else None
        reply = Called(
            text=text if bound is None else bound.text,
            error=error and writable(error),
            truncated=None if truncated == Truncation() else truncated,
            max_tokens=completion.max_tokens,
            cut=completion.finish_reason.casefold() in TRUNCATED,
            bound=request.bound is not None,
        )
        if self.simulate is not None:  # reading would take most of the time of a simulated debate
            return StageReply(reply, NO_CONTEXT, simulated=self.simulate(stage, agent, round_n, kept))
        return StageReply(reply, self._context(request, agent, kept), bound)

    def _context(self, request: ChatRequest, agent: str, values: Mapping[str, Any]) -> ParseContext:
        """What the parsers need of a request, from the values of its stage."""
        prepared = [text for text in (values.get("prepared") or {}).values() if text]
        own = [*prepared, *(text for name in ("own", "critique") if (text := values.get(name)))]
        spoken: list[Spoken] = [s for name in ("peers", "history", "stances") for s in values.get(name, ())]
        own += [one.text for one in spoken if one.own]
        others = [one.text for one in spoken if not one.own]
        answers = [one.answer for one in spoken if one.answer is not None]
        passages = [part for n in values.get("knowledge", ()) for part in self._line(n)[1:]]
        texts = [*own, *others, *filter(None, [values.get("digest")])]
        question = self.question
        evidence = (question.question, *question.choices, *passages, *answers)
        is_debater = "debater" in values
        return ParseContext(
            request="\n\n".join(message.content for message in request.messages),
            material=(*evidence, *texts, *map(quoted, texts)),
            evidence=evidence,
            others=tuple(filter(str.strip, others)) if is_debater else (),
            own="\n".join(own),
            speaker=agent if is_debater else "",
            speakers=tuple(debater.name for debater in self.debaters),
            question=question.question,
        )

    def usage_by_stage(self) -> dict[str, StageUsage]:
        """The usage, with the distinct tokens. In a fixed order: that of the calls depends on the servers."""
        usage, seen = dict(self.usage), dict[str, dict[tuple[Message, ...], None]]()
        for (_, stage, _), model, messages, tokens in sorted(self._prompts, key=lambda each: each[0]):
            earlier = seen.setdefault(model, {})
            length = sum(len(message.content) for message in messages)
            shared = max((shared_length(messages, each) for each in earlier), default=0)
            usage[stage] += StageUsage(distinct_tokens=round(tokens * (1 - shared / length)) if length else 0)
            earlier[messages] = None
        return usage

    def add_passages(self, passages: Sequence[Passage], agent: str, round_n: int, query: str) -> tuple[int, ...]:
        """Add the passages that a search found to the pool; return the pool numbers of all of them, new or not."""
        pool = list(self.pool.passages)
        numbers = {key: n for n, passage in enumerate(pool) for key in _keys(passage)}
        ids = []
        for passage in passages:
            keys = _keys(passage)
            n = next((numbers[key] for key in keys if key in numbers), len(pool))
            if n == len(pool):
                pool.append(passage)
                self.search_entries[n] = _entry(n, passage, asked_by=agent, query=query, round=round_n)
                numbers |= dict.fromkeys(keys, n)
            ids.append(n)
        self.pool = replace(self.pool, passages=tuple(pool))
        return tuple(dict.fromkeys(ids))

    def pool_entries(self) -> tuple[PoolEntry, ...]:
        """Where every passage of the pool came from."""
        return tuple(self.search_entries.get(n) or _entry(n, p) for n, p in enumerate(self.pool.passages))

    def _messages(
        self,
        stage: str,
        round_n: int,
        values: Mapping[str, Any],
        prompt: str | None,
        as_chat: bool,
        *,
        bound: bool = False,
    ) -> tuple[Message, ...]:
        shown = {**self.shared, "round": round_n, "bound": bound, **values}
        if "knowledge" in values:
            shown["knowledge"] = [self._line(n) for n in values["knowledge"]]
        chat: tuple[Message, ...] = ()
        if as_chat and values.get("history"):
            chat = tuple(map(as_message, values["history"]))
            shown |= {"history": (), "own": None}
        messages: tuple[Message, ...] = self.prompts.render(stage, self.task, shown, prompt=prompt, chat=chat)
        first = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
        if messages[first:] and messages[first].role == "assistant":
            # Many chat templates refuse a first message of the assistant.
            question = Message(role="user", content=self.question.question)
            messages = (*messages[:first], question, *messages[first:])
        return messages

    def _stage(self, name: str, values: Mapping[str, Any]) -> Stage:
        """The values of a call that the messages show, for stand-ins."""
        others = next((values[key] for key in ("history", "peers", "stances") if values.get(key)), ())
        return Stage(
            name=name,
            question=self.shared["question"],
            task=self.task,
            marker=self.marker,
            persona=values.get("persona", ""),
            passages=tuple(map(self._line, values.get("knowledge", ()))),
            own=values.get("own"),
            others=tuple(spoken for spoken in others if not spoken.own),
            max_selected=values.get("max_selected", 0),
            allow_search=values.get("allow_search", False),
            asks_confidence=self.weighs and name in ("speak", "reply"),
            decides=self.decides,
        )

    def visible_passages(self, debater: Debater) -> list[int]:
        """The numbers of the passages that a debater may see."""
        protocol, size = self.protocol, len(self.pool.passages)
        match protocol.select:
            case "none":
                return []
            case "one_each":
                place = self.debaters.index(debater)
                return [place] if place < size else []
            case "views":
                place = self.debaters.index(debater)
                return [(place + n) % size for n in range(ceil(protocol.view_share * size))]
        sources = (protocol.per_debater_sources or {}).get(debater.name)
        return [n for n, p in enumerate(self.pool.passages) if sources is None or p.source in sources]

    def searchable(self, numbers: Iterable[int]) -> dict[int, str]:
        """Pool number -> the text in which answers and quotes are looked up. Sentences end at its line breaks."""
        return {n: "\n".join((self.pool.passages[n].title, self.pool.passages[n].text)) for n in numbers}

    def citable_numbers(self, turn: Turn) -> list[int]:
        """The numbers of the passages that a debater reads in its turn: those it chose and found, or else all.

        None of an agent outside the cast that chose and found nothing.
        """
        if turn.selection is None:
            debater = next((debater for debater in self.debaters if debater.name == turn.agent), None)
            return self.visible_passages(debater) if debater else []
        return sorted({*turn.selection.ids, *(turn.search.ids if turn.search else ())})

    def _line(self, n: int) -> ShownPassage:
        """A pool passage without line breaks: a passage is one line of a prompt."""
        if n not in self._lines:
            passage = self.pool.passages[n]
            title, text = (" ".join(part.split()) for part in (passage.title, passage.text))
            self._lines[n] = ShownPassage(n, title, text)
        return self._lines[n]

    def _shorten(
        self, values: dict[str, Any], truncated: Truncation, droppable: int
    ) -> tuple[dict[str, Any], Truncation] | None:
        """Drop some of the oldest stances or, if none may go, the lowest-ranked passages; None if none is left."""
        left = droppable - truncated.stances
        name = next((name for name in ("history", "peers", "stances") if values.get(name)), None)
        if name is not None and left > 0:
            count = min(left, -(-len(values[name]) // _SHARE))
            kept = {name: values[name][count:]}
            if values.get("groups"):
                kept["groups"] = groups_without(values["groups"], values[name][:count])
            return {**values, **kept}, replace(truncated, stances=truncated.stances + count)
        numbers: Sequence[int] = values.get("knowledge", ())
        if not numbers:
            return None
        by_rank = sorted(numbers, key=lambda n: (self.pool.passages[n].rank, n))
        count = -(-len(numbers) // _SHARE)
        dropped = by_rank[-count:]
        remaining = [n for n in numbers if n not in dropped]
        return {**values, "knowledge": remaining}, replace(truncated, passages=(*truncated.passages, *dropped))


class StageReply(NamedTuple):
    """What came back from a call."""

    called: Called
    context: ParseContext
    """What the parsers need of the request."""
    bound: BoundReply | None = None
    """The values of a reply that keeps to the schema of its request; None for free text."""
    simulated: Mapping[str, Any] | None = None
    """What a reply of a simulated debate says, whatever its text."""

    def record(self, kind: type[Record], parsed: Parsed[Any] | None = None, **values: Any) -> Record:
        """The record of the call: what came back, ``values`` and, if it was read, status and rule."""
        fields = fields_of(self.called)
        if parsed is not None:
            cut = self.called.cut and parsed.status == "unmarked"
            fields |= {"status": "cut" if cut else parsed.status, "rule": parsed.rule}
        return kind(**{**fields, **values, **(self.simulated or {})})


def _keys(passage: Passage) -> list[str]:
    return [f"key {passage.source} {passage.key}", *sorted(passage.dedup_keys)]


def _entry(n: int, passage: Passage, **origin: Any) -> PoolEntry:
    where: dict[str, Any] = {"source": passage.source, "key": passage.key, "title": passage.title}
    return PoolEntry(n=n, **where, **origin)


def usage_with_call(total: StageUsage, completion: Completion, retries: int) -> StageUsage:
    """The usage with one more call."""
    failed, seconds, tokens = completion.outcome != "ok", completion.seconds, fields_of(completion.usage)
    how = {"paid": completion.paid, "failed": failed, "retries": retries, "bound": bool(completion.bound)}
    return total + StageUsage(calls=1, seconds=seconds, **how, **tokens)
