"""The calls of an audit: a dozen and a few. Stages go through the templates, roles and parsers of debates."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from madke.audit.questions import AuditQuestion, audit_questions, long_passages
from madke.core.chat import BoundForm, ChatModel, ChatRequest, Completion, Message, Purpose, takes_schemas
from madke.core.errors import CallError
from madke.core.knowledge import KnowledgePool
from madke.core.schema import Schema, SchemaField
from madke.core.transcript import Final, Round, Stance, Turn
from madke.engine.parse import marked, read_bound
from madke.engine.reading import View, view
from madke.engine.roles import Roles
from madke.engine.scene import Scene
from madke.engine.settings import Reads
from madke.engine.variant import Variant
from madke.models.chat_models import close
from madke.tasks import get_task

PLANNED = 15
"""Calls of a whole audit."""
MAX_TOKENS = 256
"""Of a call of a stage. A reply that needs more is counted as cut off."""
CALL_SECONDS = 120.0

_FEW_TOKENS = 32
SYSTEM_WORD = "Plover"
_WRITE = (
    Message(role="system", content=f"Begin every reply with the word {SYSTEM_WORD}."),
    Message(role="user", content="Write three short sentences about a walk in the rain."),
)
_SCHEMA = Schema(name="verdict", fields=(SchemaField(name="verdict", words=("same", "different")),))
_COMPARE = (Message(role="user", content='Do "Orla Venn" and "the engineer Orla Venn" name the same person?'),)


Probe = Literal["select", "speak", "reply", "judge", "summarize", "system", "schema", "long"]
"""What a call is for: a stage of the ``madke`` protocol, or a property of the endpoint."""

Case = Literal["", "own_right", "own_wrong", "same", "different"]
"""Own stance right and the peer's wrong, or the reverse; two answers that are the same or not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeCall:
    """One call, and what was read from its reply."""

    probe: Probe
    case: Case = ""
    request: ChatRequest
    completion: Completion
    began: float
    """Seconds, of a monotonic clock; like ``ended``."""
    ended: float
    is_readable: bool = False
    """Whether the parser of the stage found a value."""
    is_echo: bool = False
    """Whether the parser took the answer for text of the prompt."""
    is_right: bool = False


class Unreachable(Exception):
    """The first calls of an audit failed."""


@dataclass(kw_only=True)
class Audit:
    """The audit of one model. :attr:`calls` grows call by call, so that an interrupted audit keeps its results."""

    model: ChatModel
    variant: Variant
    """The protocol ``madke``."""
    tell: Callable[[int, str], None] = lambda done, what: None
    """Is called before each call with the number of finished ones, and what the call is for."""
    call_seconds: float = CALL_SECONDS
    calls: list[ProbeCall] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        # Short calls. Without schemas: the audit asks for one on its own.
        self.variant = self.variant.with_settings({"max_tokens": MAX_TOKENS, "structured": "off"})

    @property
    def planned(self) -> int:
        """The number of calls of this model's whole audit: a model that takes no schemas is asked for none."""
        return PLANNED if takes_schemas(self.model) else PLANNED - 1

    async def run(self) -> None:
        """Make all calls, one after the other. Stops if the first two fail."""
        try:
            first, second, third = audit_questions()[:3]
            for gold_last in (False, True):
                await self._select(first, gold_last=gold_last)
                await self._speak(first, gold_last=gold_last)
            for own_right in (True, False):
                await self._reply(second, own_right=own_right)
            for item in (first, second):
                await self._judge(item, same=True)
                await self._judge(item, same=False)
            for right_first in (True, False):
                await self._summarize(third, right_first=right_first)
            await self._plain("system", _WRITE)
            if takes_schemas(self.model):
                await self._plain("schema", _COMPARE, schema=_SCHEMA)
                self._read(is_readable=read_bound(self.calls[-1].completion.text, _SCHEMA) is not None)
            await self._long(first)
        except Unreachable:
            return
        finally:
            await close(self.model)

    async def _select(self, item: AuditQuestion, *, gold_last: bool) -> None:
        stage = self._stage("select", "", item, item.pool(gold_last=gold_last))
        selection, _ = await Roles(stage.scene).select(stage.scene.debaters[0], 1, View())
        gold = len(stage.scene.pool.passages) - 1 if gold_last else 0
        self._read(is_readable=selection.status == "ok", is_right=gold in selection.ids)

    async def _speak(self, item: AuditQuestion, *, gold_last: bool) -> None:
        stage = self._stage("speak", "", item, item.pool(gold_last=gold_last))
        numbers = range(len(stage.scene.pool.passages))
        self._read_answer(stage, item, await Roles(stage.scene).speak(stage.scene.debaters[0], 1, numbers, View()))

    async def _reply(self, item: AuditQuestion, *, own_right: bool) -> None:
        stage = self._stage("reply", "own_right" if own_right else "own_wrong", item, item.pool())
        scene, debater = stage.scene, stage.scene.debaters[0]
        rounds = self._round(stage, _stances(item, *(("right", "wrong") if own_right else ("wrong", "right"))))
        names = [each.name for each in scene.protocol.cast]
        seen = view(Reads(), debater.name, names, rounds, (), names, scene.same)
        self._read_answer(stage, item, await Roles(scene).speak(debater, 2, range(len(scene.pool.passages)), seen))

    async def _judge(self, item: AuditQuestion, *, same: bool) -> None:
        stage = self._stage("judge", "same" if same else "different", item)
        rounds = self._round(stage, _stances(item, "right", "right_in_other_words" if same else "wrong"))
        verdict = await Roles(stage.scene).judge(rounds)
        self._read(is_readable=verdict.consensus is not None, is_right=verdict.consensus is same)

    async def _summarize(self, item: AuditQuestion, *, right_first: bool) -> None:
        stage = self._stage("summarize", "", item)
        stances = _stances(item, *(("right", "wrong") if right_first else ("wrong", "right")))
        final = await Roles(stage.scene).summarize(self._round(stage, stances))
        self._read_answer(stage, item, final)

    def _stage(self, probe: Probe, case: Case, item: AuditQuestion, pool: KnowledgePool | None = None) -> "_Stage":
        """A debate of its own for one call: the engine's, with this audit's model in every role."""
        question, variant, pool = item.asked(), self.variant, pool or KnowledgePool()
        recorder = _Recorder(self, probe, case)
        scene = Scene(
            question,
            variant.protocol,
            dict.fromkeys(variant.protocol.roles, recorder),
            pool,
            task=get_task(question.task),
            prompts=variant,
            repeat=len(self.calls),
            seed=0,
        )
        return _Stage(scene=scene, recorder=recorder)

    def _round(self, stage: "_Stage", stances: list[tuple[str, str]]) -> list[Round]:
        """A finished first round in which the debaters said this, and what a reply may quote of it."""
        protocol = stage.scene.protocol
        turns = []
        for debater, (answer, reason) in zip(protocol.cast, stances, strict=False):
            text = f"{reason} The answer is {marked(answer, protocol.marker)}."
            turns.append(Turn(agent=debater.name, stance=Stance(text=text, answer=answer)))
        return [Round(n=1, order=tuple(turn.agent for turn in turns), turns=tuple(turns))]

    def _read_answer(self, stage: "_Stage", item: AuditQuestion, found: Stance | Final) -> None:
        is_right = found.answer is not None and stage.scene.same(found.answer, item.right)
        self._read(is_readable=found.answer is not None, is_echo=found.status == "echoed", is_right=is_right)

    def _read(self, **read: Any) -> None:
        self.calls[-1] = replace(self.calls[-1], **read)

    async def _long(self, item: AuditQuestion) -> None:
        """A prompt as long as those of debates with full pools."""
        stage = self._stage("long", "", item, item.pool(more=long_passages()))
        stage.recorder.max_tokens = _FEW_TOKENS
        await Roles(stage.scene).select(stage.scene.debaters[0], 1, View())

    async def _plain(self, probe: Probe, messages: tuple[Message, ...], schema: Schema | None = None) -> None:
        request = ChatRequest(
            messages=messages,
            purpose=Purpose(question=probe, stage=probe, agent="audit", round=1),
            temperature=0.0,
            max_tokens=MAX_TOKENS // 2,
            seed=0,
            bound=BoundForm(schema=schema, task=messages[-1].content, required=True) if schema else None,
        )
        await _Recorder(self, probe, "").complete(request)


@dataclass(kw_only=True)
class _Stage:
    scene: Scene
    recorder: "_Recorder"


class _Recorder:
    """The audited model for one call: adds the call to the audit, and turns errors into failed completions."""

    def __init__(self, audit: Audit, probe: Probe, case: Case) -> None:
        self.name = audit.model.name
        self.max_tokens: int | None = None
        self._audit, self._probe, self._case = audit, probe, case
        self._model = audit.model

    async def complete(self, request: ChatRequest) -> Completion:
        """Make the call, in a limited time; once more if it fails for a passing reason."""
        audit = self._audit
        audit.tell(len(audit.calls), self._probe)
        began = time.monotonic()
        request = replace(request, max_tokens=self.max_tokens or request.max_tokens)
        try:
            async with asyncio.timeout(audit.call_seconds):
                completion = await self._attempted(request)
        except TimeoutError:
            completion = _failed(f"no whole reply within {audit.call_seconds:g} seconds")
        except CallError as error:
            completion = _failed(error.reason)
        call = ProbeCall(
            probe=self._probe,
            case=self._case,
            request=request,
            completion=completion,
            began=began,
            ended=time.monotonic(),
        )
        audit.calls.append(call)
        if len(audit.calls) == 2 and all(call.completion.outcome == "failed" for call in audit.calls):
            raise Unreachable
        return completion

    async def _attempted(self, request: ChatRequest) -> Completion:
        try:
            return await self._model.complete(request)
        except CallError as error:
            if not error.retryable or error.timed_out:
                raise
        return await self._model.complete(request)


def _failed(reason: str) -> Completion:
    return Completion(outcome="failed", error=reason, finish_reason="error")


def _stances(item: AuditQuestion, *kinds: str) -> list[tuple[str, str]]:
    """Answer and reason of stances: ``right``, ``wrong`` or ``right_in_other_words``."""
    return [(getattr(item, kind), item.wrong_reason if kind == "wrong" else item.right_reason) for kind in kinds]
