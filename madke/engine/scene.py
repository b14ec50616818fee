"""What every call of one debate shares, and the one way in which a call is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict
from typing import Protocol as TypingProtocol

from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, call_seed, fields_of
from madke.core.events import CallDelta, CallFinished, CallStarted, Event, Listener
from madke.core.knowledge import Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import PoolEntry, StageUsage, Truncation
from madke.engine.parse import checked, without_reasoning
from madke.engine.protocol import Protocol
from madke.engine.view import Group, Spoken, without_tags
from madke.tasks.base import Task


class Prompts(TypingProtocol):
    """The templates of a variant. :class:`madke.variants.Variant` is one."""

    def render(
        self, stage: str, task: Task, values: Mapping[str, Any], *, prompt: str | None = None
    ) -> tuple[Message, ...]:
        """The messages of a stage, for a task and a debater's own ``prompt``, with the stage's values filled in."""


Cast = Mapping[str, ChatModel]
"""Which model plays each of :attr:`Protocol.roles`."""

Retrieve = Callable[[str, Purpose], Awaitable[Hits]]
"""Answers a debater's search: the query, and what the call is for."""

ScoreAnswers = Callable[[Question, Sequence[str]], Awaitable[Sequence[float]]]
"""Scores candidate answers without the golds; the highest is the best."""

_SHARE = 8
"""A prompt that is too long loses an eighth of its stances, or passages, at each attempt."""

_NOTHING_TRUNCATED = Truncation()


class Told(TypedDict):
    """What a call came to, as every record of one says it."""

    text: str
    error: str | None
    truncated: Truncation | None


@dataclass(kw_only=True, slots=True)
class Scene:
    """What every call of one debate shares, and the running account of what the calls used."""

    question: Question
    task: Task
    protocol: Protocol
    prompts: Prompts
    cast: Cast
    pool: KnowledgePool
    """Grows where debaters may search."""
    repeat: int = 0
    seed: int | None = None
    retrieve: Retrieve | None = None
    score_answers: ScoreAnswers | None = None
    listen: Listener | None = None
    """It must not raise."""
    deltas: bool = False
    clock: Callable[[], float]
    began: float = field(init=False)
    usage: dict[str, StageUsage] = field(default_factory=dict)
    prepared: dict[str, dict[str, str]] = field(default_factory=dict)
    """Debater -> stage -> text."""
    unprepared: dict[str, str] = field(default_factory=dict)
    """Debater -> why its preparation failed."""
    found: dict[int, PoolEntry] = field(default_factory=dict)
    """Pool numbers that debaters' searches added."""
    _shared: dict[str, Any] = field(init=False)
    _lines: dict[int, tuple[int, str, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._shared = {
            # Without golds and metadata: no template may show what is to be found out.
            "question": replace(self.question, answers=(), metadata={}),
            "rounds": self.protocol.rounds,
            "debaters": tuple(debater.name for debater in self.protocol.cast),
            "level": self.protocol.level,
        }

    def read(self, raw: str) -> str | None:
        """The task's reader for this question."""
        return self.task.read(raw, self.question)

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

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens so far."""
        return sum(used.prompt_tokens + used.completion_tokens for used in self.usage.values())

    async def call(
        self,
        stage: str,
        agent: str,
        round_n: int,
        values: Mapping[str, Any],
        *,
        prompt: str | None = None,
        temperature: float | None = None,
        droppable: int = 0,
    ) -> Told:
        """Make one call of a stage, answered by a cast member in a round (1-based).

        ``values`` are the stage's own: ``history``, ``peers`` or ``stances`` in the order of time or reading, of which
        the first ``droppable`` may be dropped where the prompt is too long; ``knowledge`` is pool numbers. ``prompt``
        and ``temperature`` are a debater's own.
        """
        purpose = self.purpose(stage, agent, round_n)
        kept, cut, retries = dict(values), _NOTHING_TRUNCATED, 0

        def on_delta(text: str) -> None:
            self.tell(CallDelta, purpose=purpose, text=text)

        while True:
            request = ChatRequest(
                messages=self._messages(stage, round_n, kept, prompt),
                purpose=purpose,
                temperature=self.protocol.temperature if temperature is None else temperature,
                max_tokens=self.protocol.max_tokens,
                stop=self.protocol.stop_strings,
                seed=call_seed(self.seed, purpose),
                on_delta=on_delta if self.deltas else None,
            )
            self.tell(CallStarted, purpose=purpose, request=request)
            completion = await self.cast[agent].complete(request)
            if completion.text.strip() and self.protocol.marker != "text":
                # A caller's own model may only reason, too. Where the whole reply is the answer, it is taken as it is.
                completion = checked(completion, request.max_tokens)
            self.tell(CallFinished, purpose=purpose, completion=completion)
            retries += max(0, completion.attempts - 1)
            if completion.outcome != "too_long" or self.protocol.overflow == "fail":
                break
            if (smaller := self._shortened(kept, cut, droppable)) is None:
                break
            kept, cut = smaller
        self.usage[stage] = _added(self.usage.get(stage, StageUsage()), completion, retries)
        error = completion.error or (None if completion.outcome == "ok" else completion.outcome)
        return {
            "text": _writable(without_reasoning(completion.text)),
            "error": error and _writable(error),
            "truncated": None if cut == _NOTHING_TRUNCATED else cut,
        }

    def add_passages(self, passages: Sequence[Passage], agent: str, round_n: int, query: str) -> tuple[int, ...]:
        """The pool numbers of passages that a search found; those the pool lacks are added to it."""
        pool = list(self.pool.passages)
        numbers = {mark: n for n, passage in enumerate(pool) for mark in _marks(passage)}
        ids = []
        for passage in passages:
            marks = _marks(passage)
            n = next((numbers[mark] for mark in marks if mark in numbers), len(pool))
            if n == len(pool):
                pool.append(passage)
                self.found[n] = _entry(n, passage, asked_by=agent, query=query, round=round_n)
                numbers |= dict.fromkeys(marks, n)
            ids.append(n)
        self.pool = replace(self.pool, passages=tuple(pool))
        return tuple(dict.fromkeys(ids))

    def pool_entries(self) -> tuple[PoolEntry, ...]:
        """Where every passage of the pool came from."""
        return tuple(self.found.get(n) or _entry(n, p) for n, p in enumerate(self.pool.passages))

    def _messages(self, stage: str, round_n: int, values: Mapping[str, Any], prompt: str | None) -> tuple[Message, ...]:
        shown = {**self._shared, "round": round_n, **values}
        if "knowledge" in values:
            shown["knowledge"] = [self._line(n) for n in values["knowledge"]]
        chat: Sequence[Spoken] = ()
        if self.protocol.sees.form == "chat" and "history" in values:
            chat, shown["history"] = values["history"], ()
        messages = self.prompts.render(stage, self.task, shown, prompt=prompt)
        return _with_chat(messages, chat, self.question.question) if chat else messages

    def _line(self, n: int) -> tuple[int, str, str]:
        """(number, title, text) of a pool passage. White space is folded: a passage is one line of a prompt."""
        if n not in self._lines:
            passage = self.pool.passages[n]
            title, text = (without_tags(" ".join(part.split())) for part in (passage.title, passage.text))
            self._lines[n] = (n, title, text)
        return self._lines[n]

    def _shortened(
        self, values: dict[str, Any], truncated: Truncation, droppable: int
    ) -> tuple[dict[str, Any], Truncation] | None:
        """The values without some of the oldest stances, or else lowest-ranked passages; None if none is left."""
        left = droppable - truncated.stances
        said = next((name for name in ("history", "peers", "stances") if values.get(name)), None)
        if said is not None and left > 0:
            less = min(left, -(-len(values[said]) // _SHARE))
            kept = {said: values[said][less:]}
            if values.get("groups"):
                kept["groups"] = _without(values["groups"], values[said][:less])
            return {**values, **kept}, replace(truncated, stances=truncated.stances + less)
        numbers: Sequence[int] = values.get("knowledge", ())
        if not numbers:
            return None
        by_rank = sorted(numbers, key=lambda n: (self.pool.passages[n].rank, n))
        less = -(-len(numbers) // _SHARE)
        dropped = by_rank[-less:]
        fewer = [n for n in numbers if n not in dropped]
        return {**values, "knowledge": fewer}, replace(truncated, passages=(*truncated.passages, *dropped))


def _without(groups: Sequence[Group], dropped: Sequence[Spoken]) -> tuple[Group, ...]:
    # By identity: anonymous peers who say the same are equal, and still two.
    gone = {id(spoken) for spoken in dropped}
    left = (replace(group, members=tuple(m for m in group.members if id(m) not in gone)) for group in groups)
    return tuple(group for group in left if group.members)


def _marks(passage: Passage) -> list[str]:
    return [f"key {passage.source} {passage.key}", *sorted(passage.dedup_keys)]


def _entry(n: int, passage: Passage, **asked: Any) -> PoolEntry:
    return PoolEntry(n=n, source=passage.source, key=passage.key, title=passage.title, **asked)


def _with_chat(messages: Sequence[Message], history: Sequence[Spoken], question: str) -> tuple[Message, ...]:
    """The history as chat messages before the last message: own turns as they were, the others' between tags."""
    said = [Message(role="assistant" if spoken.own else "user", content=_line(spoken)) for spoken in history]
    merged: list[Message] = []
    # Many chat templates refuse a chat that the assistant opens, and want the roles to alternate.
    if said[0].role == "assistant" and all(message.role == "system" for message in messages[:-1]):
        said.insert(0, Message(role="user", content=question))
    for message in (*messages[:-1], *said, messages[-1]):
        if merged and merged[-1].role == message.role:
            merged[-1] = replace(message, content=f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(message)
    return tuple(merged)


def _line(spoken: Spoken) -> str:
    # ``_shared/said.j2`` writes the same.
    quoted = f"{spoken.agent or 'One agent'}: <reply>{without_tags(spoken.text)}</reply>"
    return spoken.text if spoken.own else quoted


def _writable(text: str) -> str:
    """The text with ``?`` for half surrogate pairs, which models emit and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _added(total: StageUsage, completion: Completion, retries: int) -> StageUsage:
    failed = completion.outcome != "ok"
    calls = {"calls": 1, "paid": completion.paid, "failed": failed, "retries": retries, "seconds": completion.seconds}
    used = {**calls, **fields_of(completion.usage)}
    return StageUsage(**{name: getattr(total, name) + value for name, value in used.items()})
