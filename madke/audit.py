"""The audit of one model: a few short calls through the templates, roles and parsers of debates, and what they show.

:class:`Audit` makes the calls; :func:`findings_of` counts, each figure as k of n; :func:`advice` is one sentence.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.core.chat import (
    BoundForm,
    ChatModel,
    ChatRequest,
    Completion,
    Message,
    Purpose,
    Schema,
    SchemaField,
    takes_schemas,
)
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Turn
from madke.engine.parse.answer import marked
from madke.engine.parse.decisions import read_bound
from madke.engine.parse.reply import TRUNCATED
from madke.engine.reading import View, view
from madke.engine.scene import Scene
from madke.engine.settings import Debater, Reads
from madke.engine.steps import Debate
from madke.engine.variant import Variant
from madke.models.chat_models import close
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline, RetryPolicy
from madke.tasks import get_task


class AuditQuestion(BaseModel, extra="forbid", frozen=True):
    """One question with its passages, of which the first holds the right answer, and two stances on it."""

    question: str
    right: str
    wrong: str
    right_in_other_words: str
    right_reason: str
    wrong_reason: str
    passages: tuple[Mapping[str, str], ...]
    """``title`` and ``text`` of each."""


class _File(BaseModel, extra="forbid", frozen=True):
    questions: tuple[AuditQuestion, ...] = Field(min_length=3)


@cache
def audit_questions() -> tuple[AuditQuestion, ...]:
    """The shipped questions."""
    return read_yaml(asset("eval", "samples", "audit.yaml"), _File).questions


def _pool(texts: Iterable[Mapping[str, str]]) -> KnowledgePool:
    passages = (
        Passage(source="audit", key=str(n), title=each["title"], text=each["text"], score=1.0, rank=n)
        for n, each in enumerate(texts)
    )
    return KnowledgePool(passages=tuple(passages))


def _long_pool(item: AuditQuestion) -> KnowledgePool:
    """The passages of a question, and 25 of the sample corpus, together some 3,000 tokens."""
    with asset("indexes", "sample", "passages.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(25), file, strict=False)]
    return _pool([*item.passages, *rows])


MAX_TOKENS = 256
"""Of a call of a stage. A reply that needs more is counted as cut off."""
_ONE_RETRY = RetryPolicy(
    attempts=2, rejections=2, timeouts=1, empties=0, only_reasoning=0, first_wait=0.0, total_wait=60.0
)

SYSTEM_WORD = "Plover"
_WRITE = (
    Message(role="system", content=f"Begin every reply with the word {SYSTEM_WORD}."),
    Message(role="user", content="Write three short sentences about a walk in the rain."),
)
_SCHEMA = Schema(name="verdict", fields=(SchemaField(name="verdict", words=("same", "different")),))
_COMPARE = (Message(role="user", content='Do "Orla Venn" and "the engineer Orla Venn" name the same person?'),)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeCall:
    """One call, and what was read from its reply."""

    probe: str
    """A stage of the ``madke`` protocol, or ``system``, ``schema``, ``long``: properties of the endpoint."""
    case: str
    """``own_right``, ``own_wrong``: the own stance and the reverse of the peer's; ``same``, ``different``: answers.
    For other probes: their name."""
    prompt: int
    """Characters of the prompt."""
    completion: Completion
    seconds: float
    is_readable: bool = False
    """Whether the parser of the stage found a value."""
    is_echo: bool = False
    """Whether the parser took the answer for text of the prompt."""
    is_right: bool = False


@dataclass(kw_only=True)
class Audit:
    """The audit of one model."""

    model: ChatModel
    variant: Variant
    """The protocol ``madke``."""
    tell: Callable[[int, str], None] = lambda done, what: None
    """Is called before each call with the number of finished ones, and what the call is for."""
    call_seconds: float = 120.0
    """Time of one call, with its repetition."""
    calls: list[ProbeCall] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        # Short calls. Without schemas: the audit asks for one on its own.
        self.variant = self.variant.with_settings({"max_tokens": MAX_TOKENS, "structured": "off"})

    async def run(self) -> None:
        """Make all calls, one after the other. Stops if those of the first passages fail."""
        first, second, third = audit_questions()[:3]
        try:
            for gold in (0, len(first.passages) - 1):
                texts = [*first.passages[1:]]
                texts.insert(gold, first.passages[0])
                scene, debate, debater = self._scene("select", first, _pool(texts))
                selection, _ = await debate.select(debater, 1, View())
                self._read(is_readable=selection.status == "ok", is_right=gold in selection.ids)
                scene, debate, debater = self._scene("speak", first, _pool(texts))
                self._read_answer(scene, first, await debate.speak(debater, 1, range(len(texts)), View()))
                if all(call.completion.outcome == "failed" for call in self.calls):
                    return
            for case, answers in (("own_right", ("right", "wrong")), ("own_wrong", ("wrong", "right"))):
                scene, debate, debater = self._scene("reply", second, _pool(second.passages), case)
                names = [each.name for each in scene.protocol.cast]
                seen = view(Reads(), debater.name, names, _round(scene, second, *answers), (), names, scene.same)
                numbers = range(len(second.passages))
                self._read_answer(scene, second, await debate.speak(debater, 2, numbers, seen))
            for item in (first, second):
                for case, other in (("same", "right_in_other_words"), ("different", "wrong")):
                    scene, debate, _ = self._scene("judge", item, case=case)
                    debate.past = _round(scene, item, "right", other)
                    verdict = await debate.judge()
                    is_right = verdict.consensus is (case == "same")
                    self._read(is_readable=verdict.consensus is not None, is_right=is_right)
            for answers in (("right", "wrong"), ("wrong", "right")):
                scene, debate, _ = self._scene("summarize", third)
                debate.past = _round(scene, third, *answers)
                self._read_answer(scene, third, await debate.summarize())
            await self._plain("system", _WRITE)
            if takes_schemas(self.model):
                await self._plain("schema", _COMPARE, schema=_SCHEMA)
                reply = self.calls[-1].completion
                self._read(is_readable=reply.bound is not False and read_bound(reply.text, _SCHEMA) is not None)
            # A prompt as long as those of debates with full pools.
            _, debate, debater = self._scene("long", first, _long_pool(first), max_tokens=32)
            await debate.select(debater, 1, View())
        finally:
            await close(self.model)

    async def _plain(self, probe: str, messages: tuple[Message, ...], schema: Schema | None = None) -> None:
        request = ChatRequest(
            messages=messages,
            purpose=Purpose(question=probe, stage=probe, agent="audit", round=1),
            temperature=0.0,
            max_tokens=MAX_TOKENS // 2,
            seed=0,
            bound=BoundForm(schema=schema, task=messages[-1].content) if schema else None,
        )
        await _Recorder(self, probe).complete(request)

    def _scene(
        self, probe: str, item: AuditQuestion, pool: KnowledgePool = EMPTY_POOL, case: str = "", max_tokens: int = 0
    ) -> tuple[Scene, Debate, Debater]:
        """A debate of its own for one call: the engine's, with this audit's model in every role."""
        question = Question(id=item.question, question=item.question, answers=(item.right,))
        protocol = self.variant.protocol
        cast = dict.fromkeys(protocol.roles, _Recorder(self, probe, case, max_tokens))
        task, repeat = get_task(question.task), len(self.calls)
        scene = Scene(question, protocol, cast, pool, task=task, prompts=self.variant, repeat=repeat, seed=0)
        return scene, Debate(scene), scene.debaters[0]

    def _read_answer(self, scene: Scene, item: AuditQuestion, reply: Stance | Final) -> None:
        is_right = reply.answer is not None and scene.same(reply.answer, item.right)
        self._read(is_readable=reply.answer is not None, is_echo=reply.status == "echoed", is_right=is_right)

    def _read(self, **read: Any) -> None:
        self.calls[-1] = replace(self.calls[-1], **read)


def _round(scene: Scene, item: AuditQuestion, *kinds: str) -> list[Round]:
    """A finished first round in which the debaters gave these answers: ``right``, ``wrong``, ..."""
    turns = []
    for debater, kind in zip(scene.protocol.cast, kinds, strict=False):
        answer, reason = getattr(item, kind), item.wrong_reason if kind == "wrong" else item.right_reason
        text = f"{reason} The answer is {marked(answer, scene.protocol.marker)}."
        turns.append(Turn(agent=debater.name, stance=Stance(text=text, answer=answer)))
    return [Round(n=1, order=tuple(turn.agent for turn in turns), turns=tuple(turns))]


class _Recorder:
    """The audited model for one call, which it adds to the audit."""

    def __init__(self, audit: Audit, probe: str, case: str = "", max_tokens: int = 0) -> None:
        self.name = audit.model.name
        self._audit, self._probe, self._case, self._max_tokens = audit, probe, case or probe, max_tokens

    async def complete(self, request: ChatRequest) -> Completion:
        """Make the call, in a limited time; once more if it fails for a passing reason."""
        audit = self._audit
        audit.tell(len(audit.calls), self._probe)
        began = time.monotonic()
        request = replace(request, max_tokens=self._max_tokens or request.max_tokens)
        try:
            async with asyncio.timeout(audit.call_seconds):
                completion = await CallPipeline(limits=Limits(1), retries=_ONE_RETRY).call(audit.model, request)
        except TimeoutError:
            late = f"no whole reply within {audit.call_seconds:g} seconds"
            completion = Completion(outcome="failed", error=late, finish_reason="error")
        call = ProbeCall(
            probe=self._probe,
            case=self._case,
            prompt=sum(len(message.content) for message in request.messages),
            completion=completion,
            seconds=time.monotonic() - began,
        )
        audit.calls.append(call)
        return completion


STAGES = ("select", "speak", "reply", "judge", "summarize")
_CHARACTERS_PER_TOKEN = 4
"""Of a token in English prose."""
_MIN_COUNTED = 2 / 3
"""A server that counts fewer than this share of the expected tokens has cut the prompt."""
_MIN_READABLE = 0.75
"""Least share of readable replies of a stage that is good enough."""
_HALF = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """k of n."""

    k: int = 0
    n: int = 0

    @property
    def value(self) -> float:
        """The quotient; NaN for n = 0, which is neither above nor below any limit."""
        return self.k / self.n if self.n else float("nan")


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """The record of an audit, as ``madke doctor --model NAME --json`` prints it. A share of none was not measured."""

    model: str
    calls: int
    failed: int
    """Failed calls. A refused schema is not counted."""
    errors: tuple[str, ...]
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    form: dict[str, Share]
    """Stage -> replies that its parser reads."""
    right: dict[str, Share]
    """Case -> right replies: ``select``, ``speak`` (the passage with the answer, and the answer to it), ``own_right``,
    ``own_wrong`` (a right answer is kept against a wrong peer; taken from a right peer), ``same``, ``different``
    (verdicts on the same answer in other words; on different answers), ``summarize`` (of a disagreement)."""
    given_back: Share
    """Answers that are the prompt's own words."""
    cut_off: Share
    """Replies that reached the limit of new tokens."""
    prompts_cut: Share
    """Calls for which the server counted fewer than two thirds of the expected prompt tokens."""
    schemas: Share
    system: Share
    """Replies that follow an instruction of the system message."""
    speed: float | None
    """New tokens a second, of one call after the other."""


CASES = ("select", "speak", "own_right", "own_wrong", "same", "different", "summarize")


def findings_of(model: str, audit: Audit) -> Findings:
    """Count what the calls of an audit show."""
    calls = audit.calls
    # A reply of only hidden reasoning is one that says nothing.
    answered = [call for call in calls if call.completion.outcome in ("ok", "empty")]
    stages = [call for call in answered if call.probe in STAGES]
    failures = [call for call in calls if call not in answered and call.probe != "schema"]
    usage = [call.completion.usage for call in calls]
    new, seconds = sum(each.completion_tokens for each in usage), sum(call.seconds for call in calls)
    return Findings(
        model=model,
        calls=len(calls),
        failed=len(failures),
        errors=tuple(dict.fromkeys(call.completion.error or call.completion.outcome for call in failures)),
        prompt_tokens=sum(each.prompt_tokens for each in usage),
        completion_tokens=new,
        seconds=seconds,
        form={stage: _share(call.is_readable for call in stages if call.probe == stage) for stage in STAGES},
        right={case: _share(call.is_right for call in stages if call.case == case) for case in CASES},
        given_back=_share(call.is_echo for call in stages if call.probe in ("speak", "reply", "summarize")),
        cut_off=_share(call.completion.finish_reason.casefold() in TRUNCATED for call in stages),
        prompts_cut=_share(
            call.completion.usage.prompt_tokens < _MIN_COUNTED * call.prompt / _CHARACTERS_PER_TOKEN
            for call in answered
            if not call.completion.usage.estimated
        ),
        schemas=_share(call.is_readable for call in calls if call.probe == "schema"),
        system=_share(
            call.completion.text.casefold().lstrip('*"').startswith(SYSTEM_WORD.casefold())
            for call in answered
            if call.probe == "system"
        ),
        speed=new / seconds if new and seconds > 0 else None,
    )


def _share(values: Iterable[bool]) -> Share:
    items = list(values)
    return Share(k=sum(items), n=len(items))


def _reads(findings: Findings, *stages: str) -> bool:
    return not any(findings.form[stage].value < _MIN_READABLE for stage in stages)


def _judges_wrongly(findings: Findings) -> bool:
    right, read = findings.right["same"].k + findings.right["different"].k, findings.form["judge"].k
    return read > 1 and right <= _HALF * read


ALONE: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.failed == f.calls, "it cannot be used: every call failed; see the error above"),
    (lambda f: 2 * f.failed >= f.calls, "it is not reliable enough: at least half of the calls failed"),
    (
        lambda f: f.prompts_cut.k > 0,
        "raise the server's context window first, because it cuts long prompts without an error",
    ),
    (
        lambda f: f.cut_off.value >= _HALF,
        "give it more tokens or take another model: at least half of its replies were cut off",
    ),
)
"""Rules whose sentence stands alone, because nothing else counts before it is dealt with."""

CLAUSES: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.given_back.k > 1, "do not debate with these prompts, because it gives them back"),
    (lambda f: not _reads(f, "speak", "reply"), "do not use it as a debater, because its answers cannot be read"),
    (lambda f: f.schemas.k > 0 and not _reads(f, "select", "judge"), "selects and judges with schemas only"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "select"), "give it all passages with --set select=all"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "judge"), "take another judge, because its verdicts cannot be read"),
    (_judges_wrongly, "this model cannot judge; use agreement (--set early_stop=agreement)"),
    (lambda f: not _reads(f, "summarize"), "take another summarizer, because its summaries cannot be read"),
    (
        lambda f: f.right["own_right"].value < _HALF and f.right["own_wrong"].k > 0,
        "do not trust its agreement, because it follows whoever speaks",
    ),
    (
        lambda f: f.right["own_wrong"].value < _HALF and f.right["own_right"].k > 0,
        "expect nothing from later rounds, because it keeps its first answer",
    ),
    (
        lambda f: f.system.value < _HALF,
        "set dialect: {system: false} for it in models.yaml, because it ignores system messages",
    ),
)
"""Rules whose clauses are joined, at most two."""


def advice(findings: Findings) -> str:
    """One sentence: what to do with the model. The most important rules come first."""
    alone = [clause for holds, clause in ALONE if holds(findings)][:1]
    clauses = alone or [clause for holds, clause in CLAUSES if holds(findings)][:2] or ["use it in all roles"]
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."
