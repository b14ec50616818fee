"""The calls of an audit. Stages go through the templates, roles and parsers of debates."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from madke.audit.calls import Case, Probe, ProbeCall
from madke.audit.questions import AuditQuestion, audit_questions, long_passages
from madke.core.chat import BoundForm, ChatModel, ChatRequest, Completion, Message, Purpose, takes_schemas
from madke.core.errors import CallError
from madke.core.knowledge import KnowledgePool
from madke.core.schema import Schema, SchemaField
from madke.core.transcript import Final, Round, Stance, Turn
from madke.engine import roles
from madke.engine.parse import marked, read_bound
from madke.engine.scene import Scene
from madke.engine.view import View, view
from madke.llm import close
from madke.tasks import get_task
from madke.variants import Variant

PLANNED = 29
"""Calls of a whole audit."""
MAX_TOKENS = 256
"""Of a call of a stage. A reply that needs more is counted as cut off."""
CALL_SECONDS = 120.0

_FEW_TOKENS = 32
_SYSTEM_WORD = "Plover"
_WRITE = (
    Message(role="system", content=f"Begin every reply with the word {_SYSTEM_WORD}."),
    Message(role="user", content="Write three short sentences about a walk in the rain."),
)
_SCHEMA = Schema(name="verdict", fields=(SchemaField(name="verdict", words=("same", "different")),))
_COMPARE = (Message(role="user", content='Do "Orla Venn" and "the engineer Orla Venn" name the same person?'),)


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
        """Make all calls, one after the other but for those that measure concurrency. Stops if the first two fail."""
        try:
            await self._stages()
            await self._alone_and_together()
            await self._schema()
            await self._long()
        except Unreachable:
            return
        finally:
            await close(self.model)

    async def _stages(self) -> None:
        first, second, third = audit_questions()[:3]
        for item in (first, second):
            for gold_last in (False, True):
                await self._select(item, gold_last=gold_last)
                await self._speak(item, gold_last=gold_last)
        for item in (first, second):
            for own_right in (True, False):
                await self._reply(item, own_right=own_right)
        for item in (first, second):
            await self._judge(item, same=True)
            await self._judge(item, same=False)
        for item in (second, third):
            for right_first in (True, False):
                await self._summarize(item, right_first=right_first)

    async def _select(self, item: AuditQuestion, *, gold_last: bool) -> None:
        stage = self._stage("select", "gold_last" if gold_last else "gold_first", item, item.pool(gold_last=gold_last))
        selection, _ = await roles.select(stage.scene, stage.scene.protocol.cast[0], 1, View())
        gold = len(stage.scene.pool.passages) - 1 if gold_last else 0
        self._read(readable=selection.status == "ok", right=gold in selection.ids)

    async def _speak(self, item: AuditQuestion, *, gold_last: bool) -> None:
        stage = self._stage("speak", "gold_last" if gold_last else "gold_first", item, item.pool(gold_last=gold_last))
        numbers = range(len(stage.scene.pool.passages))
        self._read_answer(stage, item, await roles.speak(stage.scene, stage.scene.protocol.cast[0], 1, numbers, View()))

    async def _reply(self, item: AuditQuestion, *, own_right: bool) -> None:
        stage = self._stage("reply", "own_right" if own_right else "own_wrong", item, item.pool())
        scene, debater = stage.scene, stage.scene.protocol.cast[0]
        rounds = self._round(stage, _stances(item, *(("right", "wrong") if own_right else ("wrong", "right"))))
        names = [each.name for each in scene.protocol.cast]
        seen = view(scene.protocol, debater.name, rounds, (), names, scene.same)
        self._read_answer(stage, item, await roles.speak(scene, debater, 2, range(len(scene.pool.passages)), seen))

    async def _judge(self, item: AuditQuestion, *, same: bool) -> None:
        stage = self._stage("judge", "same" if same else "different", item)
        rounds = self._round(stage, _stances(item, "right", "right_in_other_words" if same else "wrong"))
        verdict = await roles.ask_judge(stage.scene, rounds)
        self._read(readable=verdict.consensus is not None, right=verdict.consensus is same)

    async def _summarize(self, item: AuditQuestion, *, right_first: bool) -> None:
        stage = self._stage("summarize", "right_first" if right_first else "right_last", item)
        stances = _stances(item, *(("right", "wrong") if right_first else ("wrong", "right")))
        final = await roles.summarize(stage.scene, self._round(stage, stances))
        self._read_answer(stage, item, final, answers=[answer for answer, _ in stances])

    def _stage(self, probe: Probe, case: Case, item: AuditQuestion, pool: KnowledgePool | None = None) -> "_Stage":
        """A debate of its own for one call: the engine's, with this audit's model in every role."""
        question, variant, pool = item.asked(), self.variant, pool or KnowledgePool()
        texts = [text for passage in pool.passages for text in (passage.title, passage.text)]
        recorder = _Recorder(self, probe, case, [question.question, *texts])
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
            stage.recorder.shown += [text, answer, reason]
            turns.append(Turn(agent=debater.name, stance=Stance(text=text, answer=answer)))
        return [Round(n=1, order=tuple(turn.agent for turn in turns), turns=tuple(turns))]

    def _read_answer(
        self, stage: "_Stage", item: AuditQuestion, found: Stance | Final, answers: Sequence[str] = ()
    ) -> None:
        answer, same = found.answer, stage.scene.same
        places = [place for place, each in enumerate(answers, start=1) if answer is not None and same(answer, each)]
        self._read(
            readable=answer is not None,
            answer=answer,
            echoed=found.status == "echoed",
            right=answer is not None and same(answer, item.right),
            reported=places[0] if len(places) == 1 else None,
        )

    def _read(self, **read: Any) -> None:
        self.calls[-1] = replace(self.calls[-1], **read)

    async def _alone_and_together(self) -> None:
        """One call, then four at once, two of them with one seed. They also measure seeds and system messages."""
        await self._plain("alone", _WRITE, seed=1, temperature=1.0)
        await asyncio.gather(*(self._plain("together", _WRITE, seed=seed, temperature=1.0) for seed in (1, 1, 2, 3)))

    async def _schema(self) -> None:
        """One request with a schema that only its ``response_format`` states. A refusal ends it."""
        if takes_schemas(self.model):
            await self._plain("schema", _COMPARE, schema=_SCHEMA)
            self._read(readable=read_bound(self.calls[-1].completion.text, _SCHEMA) is not None)

    async def _long(self) -> None:
        """Prompts as long as those of debates with full pools: two at once, and one after them, to see what is kept."""
        item = audit_questions()[0]

        async def ask(probe: Probe) -> None:
            stage = self._stage(probe, "", item, item.pool(more=long_passages()))
            stage.recorder.max_tokens = _FEW_TOKENS
            await roles.select(stage.scene, stage.scene.protocol.cast[0], 1, View())

        await asyncio.gather(ask("siblings"), ask("siblings"))
        await ask("long")

    async def _plain(
        self,
        probe: Literal["alone", "together", "schema"],
        messages: tuple[Message, ...],
        *,
        seed: int = 0,
        temperature: float = 0.0,
        schema: Schema | None = None,
    ) -> None:
        purpose = Purpose(question=probe, stage=probe, agent="audit", round=1, sample=len(self.calls))
        request = ChatRequest(
            messages=messages,
            purpose=purpose,
            temperature=temperature,
            max_tokens=MAX_TOKENS // 2,
            seed=seed,
            bound=BoundForm(schema=schema, task=messages[-1].content, required=True) if schema else None,
        )
        await _Recorder(self, probe, "", []).complete(request)


@dataclass(kw_only=True)
class _Stage:
    scene: Scene
    recorder: "_Recorder"


class _Recorder:
    """The audited model for one call: adds the call to the audit, and turns errors into failed completions."""

    def __init__(self, audit: Audit, probe: Probe, case: Case, shown: list[str]) -> None:
        self.name = audit.model.name
        self.shown = shown
        self.max_tokens: int | None = None
        self._audit, self._probe, self._case = audit, probe, case
        self._model = audit.model

    async def complete(self, request: ChatRequest) -> Completion:
        """Make the call, in a limited time; once more if it fails for a passing reason."""
        audit, first_token = self._audit, []
        audit.tell(len(audit.calls), self._probe)
        began = time.monotonic()
        request = replace(request, max_tokens=self.max_tokens or request.max_tokens)
        # Listening makes the client stream, which shows when the first token comes.
        listening = replace(request, on_delta=lambda text: first_token.append(time.monotonic() - began))
        try:
            async with asyncio.timeout(audit.call_seconds):
                completion = await self._attempted(listening)
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
            first_token=first_token[0] if first_token else None,
            shown=tuple(self.shown),
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
