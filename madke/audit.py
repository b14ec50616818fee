"""The audit of one model: a few short calls through the templates, roles and parsers of debates, and what they show.

:class:`Audit` makes the calls; :func:`findings_of` counts, each figure as k of n; :func:`advice` is one sentence.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.core.chat import BoundForm, ChatModel, ChatRequest, Completion, Message, Purpose, takes_schemas
from madke.core.errors import CallError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.schema import Schema, SchemaField
from madke.core.transcript import Final, Round, Stance, Turn
from madke.engine.parse import TRUNCATED, marked, read_bound
from madke.engine.reading import View, view
from madke.engine.scene import Roles, Scene
from madke.engine.settings import Reads
from madke.engine.variant import Variant
from madke.models.chat_models import close
from madke.tasks import get_task


class _Text(BaseModel, extra="forbid", frozen=True):
    title: str
    text: str


class AuditQuestion(BaseModel, extra="forbid", frozen=True):
    """One question with its passages and two stances on it."""

    question: str
    right: str
    wrong: str
    right_in_other_words: str
    right_reason: str
    wrong_reason: str
    passages: tuple[_Text, ...] = Field(min_length=2)
    """The first holds the right answer."""

    def pool(self, *, gold_last: bool = False, more: tuple[Passage, ...] = ()) -> KnowledgePool:
        """Its passages, the one with the right answer first or last, and ``more`` after them."""
        texts = (*self.passages[1:], self.passages[0]) if gold_last else self.passages
        own = (
            Passage(source="audit", key=str(n), title=each.title, text=each.text, score=1.0, rank=n)
            for n, each in enumerate(texts)
        )
        return KnowledgePool(passages=(*own, *more))

    def stances(self, *kinds: str) -> list[tuple[str, str]]:
        """Answer and reason of stances: ``right``, ``wrong`` or ``right_in_other_words``."""
        return [(getattr(self, kind), self.wrong_reason if kind == "wrong" else self.right_reason) for kind in kinds]


class _File(BaseModel, extra="forbid", frozen=True):
    questions: tuple[AuditQuestion, ...] = Field(min_length=3)


@cache
def audit_questions() -> tuple[AuditQuestion, ...]:
    """The shipped questions."""
    return read_yaml(asset("eval", "samples", "audit.yaml"), _File).questions


def _long_passages() -> tuple[Passage, ...]:
    """25 passages of the sample corpus, together some 3,000 tokens."""
    with asset("indexes", "sample", "passages.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(25), file, strict=False)]
    return tuple(
        Passage(source="sample", key=row["id"], title=row["title"], text=row["text"], score=0.5, rank=n)
        for n, row in enumerate(rows)
    )


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
    seconds: float
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
        scene = self._scene("select", "", item, item.pool(gold_last=gold_last))
        selection, _ = await Roles(scene).select(scene.debaters[0], 1, View())
        gold = len(scene.pool.passages) - 1 if gold_last else 0
        self._read(is_readable=selection.status == "ok", is_right=gold in selection.ids)

    async def _speak(self, item: AuditQuestion, *, gold_last: bool) -> None:
        scene = self._scene("speak", "", item, item.pool(gold_last=gold_last))
        numbers = range(len(scene.pool.passages))
        self._read_answer(scene, item, await Roles(scene).speak(scene.debaters[0], 1, numbers, View()))

    async def _reply(self, item: AuditQuestion, *, own_right: bool) -> None:
        scene = self._scene("reply", "own_right" if own_right else "own_wrong", item, item.pool())
        debater, names = scene.debaters[0], [each.name for each in scene.protocol.cast]
        rounds = _round(scene, item.stances(*(("right", "wrong") if own_right else ("wrong", "right"))))
        seen = view(Reads(), debater.name, names, rounds, (), names, scene.same)
        self._read_answer(scene, item, await Roles(scene).speak(debater, 2, range(len(scene.pool.passages)), seen))

    async def _judge(self, item: AuditQuestion, *, same: bool) -> None:
        scene = self._scene("judge", "same" if same else "different", item)
        stances = item.stances("right", "right_in_other_words" if same else "wrong")
        verdict = await Roles(scene).judge(_round(scene, stances))
        self._read(is_readable=verdict.consensus is not None, is_right=verdict.consensus is same)

    async def _summarize(self, item: AuditQuestion, *, right_first: bool) -> None:
        scene = self._scene("summarize", "", item)
        stances = item.stances(*(("right", "wrong") if right_first else ("wrong", "right")))
        self._read_answer(scene, item, await Roles(scene).summarize(_round(scene, stances)))

    async def _long(self, item: AuditQuestion) -> None:
        """A prompt as long as those of debates with full pools."""
        scene = self._scene("long", "", item, item.pool(more=_long_passages()), max_tokens=_FEW_TOKENS)
        await Roles(scene).select(scene.debaters[0], 1, View())

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

    def _scene(
        self, probe: Probe, case: Case, item: AuditQuestion, pool: KnowledgePool = EMPTY_POOL, max_tokens: int = 0
    ) -> Scene:
        """A debate of its own for one call: the engine's, with this audit's model in every role."""
        question = Question(id=item.question, question=item.question, answers=(item.right,))
        protocol = self.variant.protocol
        cast = dict.fromkeys(protocol.roles, _Recorder(self, probe, case, max_tokens))
        task, repeat = get_task(question.task), len(self.calls)
        return Scene(question, protocol, cast, pool, task=task, prompts=self.variant, repeat=repeat, seed=0)

    def _read_answer(self, scene: Scene, item: AuditQuestion, found: Stance | Final) -> None:
        is_right = found.answer is not None and scene.same(found.answer, item.right)
        self._read(is_readable=found.answer is not None, is_echo=found.status == "echoed", is_right=is_right)

    def _read(self, **read: Any) -> None:
        self.calls[-1] = replace(self.calls[-1], **read)


def _round(scene: Scene, stances: list[tuple[str, str]]) -> list[Round]:
    """A finished first round in which the debaters gave these answers for these reasons."""
    turns = []
    for debater, (answer, reason) in zip(scene.protocol.cast, stances, strict=False):
        text = f"{reason} The answer is {marked(answer, scene.protocol.marker)}."
        turns.append(Turn(agent=debater.name, stance=Stance(text=text, answer=answer)))
    return [Round(n=1, order=tuple(turn.agent for turn in turns), turns=tuple(turns))]


class _Recorder:
    """The audited model for one call: adds the call to the audit, and turns errors into failed completions."""

    def __init__(self, audit: Audit, probe: Probe, case: Case, max_tokens: int = 0) -> None:
        self.name = audit.model.name
        self._audit, self._probe, self._case, self._max_tokens = audit, probe, case, max_tokens

    async def complete(self, request: ChatRequest) -> Completion:
        """Make the call, in a limited time; once more if it fails for a passing reason."""
        audit = self._audit
        audit.tell(len(audit.calls), self._probe)
        began = time.monotonic()
        request = replace(request, max_tokens=self._max_tokens or request.max_tokens)
        try:
            async with asyncio.timeout(audit.call_seconds):
                try:
                    completion = await audit.model.complete(request)
                except CallError as error:
                    if not error.retryable or error.timed_out:
                        raise
                    completion = await audit.model.complete(request)
        except TimeoutError:
            completion = _failed(f"no whole reply within {audit.call_seconds:g} seconds")
        except CallError as error:
            completion = _failed(error.reason)
        seconds = time.monotonic() - began
        call = ProbeCall(probe=self._probe, case=self._case, request=request, completion=completion, seconds=seconds)
        audit.calls.append(call)
        if len(audit.calls) == 2 and all(call.completion.outcome == "failed" for call in audit.calls):
            raise Unreachable
        return completion


def _failed(reason: str) -> Completion:
    return Completion(outcome="failed", error=reason, finish_reason="error")


FINDINGS_FORMAT = 2
"""Of the JSON record; grows when a field changes its meaning."""

STAGES = ("select", "speak", "reply", "judge", "summarize")
_CHARACTERS = 4
"""Of a token in English prose."""
_CUT = 2 / 3
"""A server that counts fewer than this share of the expected tokens has cut the prompt."""
_SHOWN_ERRORS = 3
_READS = 0.75
"""Least share of readable replies of a stage that is good enough."""
_HALF = 0.5
_SLOW = 5.0
"""New tokens a second below which a debate takes many minutes."""
_MOST_CLAUSES = 2


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

    format: int = FINDINGS_FORMAT
    model: str
    calls: int
    complete: bool
    """Whether all calls of the audit were made."""
    failed: int
    """Failed calls. A refused schema is not counted."""
    errors: tuple[str, ...]
    """The first different reasons of failed calls."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    form: dict[str, Share]
    """Stage -> replies that its parser reads."""
    given_back: Share
    """Answers that are the prompt's own words."""
    cut_off: Share
    """Replies that reached the limit of new tokens."""
    selected: Share
    """Selections with the passage that has the answer."""
    answered: Share
    """Right answers to a question whose passages hold the answer."""
    stayed_right: Share
    """Replies that keep a right answer against a wrong peer."""
    became_right: Share
    """Replies that take a right answer from a peer and leave their own wrong one."""
    same_found: Share
    """Verdicts on the same answer in other words that are right."""
    different_found: Share
    """Verdicts on different answers that are right."""
    summary_right: Share
    """Summaries that report the right answer, which has the better reason."""
    prompts_cut: Share
    """Calls for which the server counted fewer than two thirds of the expected prompt tokens."""
    longest_prompt: int
    """The largest prompt, in tokens by the server's count."""
    schemas: Share
    """Replies that fit the requested JSON schema."""
    system: Share
    """Replies that follow an instruction of the system message."""
    speed: float | None
    """New tokens a second, of one call after the other."""


def findings_of(model: str, calls: Sequence[ProbeCall], *, planned: int) -> Findings:
    """Count what the calls show; ``planned`` is the number of calls of a whole audit."""
    # A reply of only hidden reasoning is one that says nothing.
    answered = [call for call in calls if call.completion.outcome in ("ok", "empty")]
    stages = [call for call in answered if call.probe in STAGES]
    failures = [call for call in calls if call not in answered and call.probe != "schema"]
    errors = dict.fromkeys(call.completion.error or call.completion.outcome for call in failures)
    usage = [call.completion.usage for call in calls]
    counted = [call for call in answered if not call.completion.usage.estimated]
    new, seconds = sum(each.completion_tokens for each in usage), sum(call.seconds for call in calls)

    def right(probe: str, case: str = "") -> Share:
        return _share(call.is_right for call in stages if call.probe == probe and call.case == case)

    return Findings(
        model=model,
        calls=len(calls),
        complete=len(calls) >= planned,
        failed=len(failures),
        errors=tuple(errors)[:_SHOWN_ERRORS],
        prompt_tokens=sum(each.prompt_tokens for each in usage),
        completion_tokens=new,
        seconds=seconds,
        form={stage: _share(call.is_readable for call in stages if call.probe == stage) for stage in STAGES},
        given_back=_share(call.is_echo for call in stages if call.probe in ("speak", "reply", "summarize")),
        cut_off=_share(call.completion.finish_reason.casefold() in TRUNCATED for call in stages),
        selected=right("select"),
        answered=right("speak"),
        stayed_right=right("reply", "own_right"),
        became_right=right("reply", "own_wrong"),
        same_found=right("judge", "same"),
        different_found=right("judge", "different"),
        summary_right=right("summarize"),
        prompts_cut=_share(_is_cut(call) for call in counted),
        longest_prompt=max((call.completion.usage.prompt_tokens for call in counted), default=0),
        schemas=_share(call.is_readable for call in calls if call.probe == "schema"),
        system=_share(
            call.completion.text.casefold().lstrip('*"').startswith(SYSTEM_WORD.casefold())
            for call in answered
            if call.probe == "system"
        ),
        speed=new / seconds if new and seconds > 0 else None,
    )


def _is_cut(call: ProbeCall) -> bool:
    sent = sum(len(message.content) for message in call.request.messages)
    return call.completion.usage.prompt_tokens < _CUT * sent / _CHARACTERS


def _share(values: Iterable[bool]) -> Share:
    found = list(values)
    return Share(k=sum(found), n=len(found))


def _below(share: Share, limit: float) -> bool:
    return share.value < limit  # False for a share that was not measured.


def _reads(found: Findings, *stages: str) -> bool:
    return not any(_below(found.form[stage], _READS) for stage in stages)


def _judges_wrongly(found: Findings) -> bool:
    """Whether verdicts that can be read are right in half of the cases or fewer."""
    right, read = found.same_found.k + found.different_found.k, found.form["judge"].k
    return read > 1 and right <= _HALF * read


ALONE: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.calls == 0, "nothing was measured"),
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
        lambda f: _below(f.stayed_right, _HALF) and f.became_right.k > 0,
        "do not trust its agreement, because it follows whoever speaks",
    ),
    (
        lambda f: _below(f.became_right, _HALF) and f.stayed_right.k > 0,
        "expect nothing from later rounds, because it keeps its first answer",
    ),
    (
        lambda f: _below(f.system, _HALF),
        "set dialect: {system: false} for it in models.yaml, because it ignores system messages",
    ),
    (lambda f: f.speed is not None and f.speed < _SLOW, "ask few questions, because it is slow"),
)
"""Rules whose clauses are joined, at most two."""


def advice(found: Findings) -> str:
    """One sentence: what to do with the model. The most important rules come first."""
    alone = [clause for holds, clause in ALONE if holds(found)][:1]
    good = "use it in all roles" if found.complete else "nothing speaks against it so far"
    clauses = alone or [clause for holds, clause in CLAUSES if holds(found)][:_MOST_CLAUSES] or [good]
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."
