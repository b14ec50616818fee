"""Debates as spans with the names of OpenTelemetry's GenAI conventions (0.1.0, all in development there).

A workflow span (the debate) holds retrieval spans (one per source) and agent spans (one per role and round); an agent
span holds its chat spans and its own searches. This module is pure; :mod:`madke.export.otel` sends spans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from typing import Literal

from madke.core.chat import Completion, Message, Purpose
from madke.core.transcript import Transcript, Turn
from madke.endpoints.model_names import MODEL_KINDS, kind_of, split_address
from madke.scoring.scores import RETRIEVAL_STAGES

SpanValue = str | int | float | bool | Sequence[str]

SPAN_ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "invoke_workflow": (
        *("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id", "error.type"),
        *("madke.run", "madke.question.id", "madke.repeat", "madke.status", "madke.stop_reason", "madke.rounds"),
        *("madke.calls", "madke.input_tokens", "madke.output_tokens", "madke.question", "madke.answer"),
    ),
    "retrieval": (
        *("gen_ai.operation.name", "gen_ai.data_source.id", "gen_ai.retrieval.query.text", "error.type"),
        "madke.passages",
    ),
    "invoke_agent": (
        *("gen_ai.operation.name", "gen_ai.agent.name", "error.type"),
        *("madke.round", "madke.answer.status", "madke.answer"),
    ),
    "chat": (
        *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.finish_reasons"),
        *("gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.output_tokens"),
        *("gen_ai.usage.reasoning.output_tokens", "gen_ai.input.messages", "gen_ai.output.messages", "error.type"),
        *("madke.stage", "madke.round", "madke.sample", "madke.attempts", "madke.paid", "madke.usage.estimated"),
    ),
}
"""Operation -> the attributes that its spans may have. docs/interop.md explains each."""

TEXT_ATTRIBUTES = (
    *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.query.text"),
    *("madke.question", "madke.answer"),
)
"""Attributes that hold text of questions, prompts or replies; set only on request."""

_PROVIDERS = {"openai": "openai", "azure": "azure.ai.openai"}
_SECOND = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedCall:
    """One call of a debate, in seconds since the debate began."""

    purpose: Purpose
    completion: Completion
    model: str = ""
    """Empty if it is not known."""
    messages: tuple[Message, ...] = ()
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSpan:
    """One span; ids are lower-case hexadecimal, times are nanoseconds of Unix time."""

    name: str
    trace: str
    id: str
    parent: str = ""
    """Empty for the workflow."""
    kind: Literal["internal", "client"] = "internal"
    start: int
    end: int
    attributes: Mapping[str, SpanValue] = field(default_factory=dict)
    error: str | None = None
    """None: no error. The message may be empty."""


def laid_out(calls: Iterable[TimedCall], debaters: Iterable[str]) -> list[TimedCall]:
    """Calls with start and end, from their durations and order alone: a call store holds no times.

    Rounds follow each other, after the calls that the pool took. In a round, debaters begin together, and each makes
    its calls one after the other; other roles wait for all calls before theirs.
    """

    def place(call: TimedCall) -> int:
        return 0 if call.purpose.stage in RETRIEVAL_STAGES else call.purpose.round

    talkers, timed, now = set(debaters), list[TimedCall](), 0.0
    for _, of_round in groupby(sorted(calls, key=place), place):
        ends: dict[str, float] = {}
        for call in of_round:
            agent = call.purpose.agent
            start = ends.get(agent, now) if agent in talkers else max(ends.values(), default=now)
            ends[agent] = start + call.completion.seconds
            timed.append(replace(call, start=start, end=ends[agent]))
        now = max(ends.values(), default=now)
    return timed


def debate_spans(
    transcript: Transcript, calls: Sequence[TimedCall], *, run: str, name: str, began: int, text: bool = False
) -> Iterator[TraceSpan]:
    """The spans of a debate, parents first. The same debate has the same ids each time.

    Args:
        transcript: The debate.
        calls: Its calls.
        run: Name of the run; may be empty.
        name: Name of the workflow, such as that of the protocol.
        began: When the debate began, in nanoseconds of Unix time.
        text: Whether spans hold questions, prompts, replies and error messages.
    """
    trace = _hash(32, run, transcript.id, transcript.repeat, began)
    spans = _Spans(transcript, calls, run=run, name=name, trace=trace, began=began)
    for span in spans.all():
        if text:
            yield span
            continue
        kept = {key: value for key, value in span.attributes.items() if key not in TEXT_ATTRIBUTES}
        yield replace(span, attributes=kept, error=span.error and "")


def _hash(length: int, *parts: object) -> str:
    return sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:length]


class _Spans:
    def __init__(
        self, transcript: Transcript, calls: Sequence[TimedCall], *, run: str, name: str, trace: str, began: int
    ) -> None:
        self.transcript, self.calls, self.run, self.name = transcript, calls, run, name
        self.trace, self.began = trace, began
        self.root = self._id("workflow")

    def all(self) -> Iterator[TraceSpan]:
        yield self._workflow()
        yield from self._retrievals()
        yield from self._agents()
        seen: dict[Purpose, int] = {}
        for call in self.calls:
            # A prompt that was too long is sent again, shortened, for the same purpose.
            seen[call.purpose] = seen.get(call.purpose, 0) + 1
            yield self._chat(call, seen[call.purpose])

    def _id(self, *parts: object) -> str:
        return _hash(16, self.trace, *parts)

    def _time(self, seconds: float) -> int:
        return self.began + round(seconds * _SECOND)

    def _workflow(self) -> TraceSpan:
        t = self.transcript
        failed = t.status == "failed"
        return TraceSpan(
            name=f"invoke_workflow {self.name}",
            trace=self.trace,
            id=self.root,
            start=self.began,
            end=self._time(max((call.end for call in self.calls), default=0.0)),
            attributes={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.agent.name": self.name,
                "gen_ai.conversation.id": self.trace,
                **({"error.type": "debate_failed"} if failed else {}),
                **({"madke.run": self.run} if self.run else {}),
                "madke.question.id": t.id,
                "madke.repeat": t.repeat,
                "madke.status": t.status,
                "madke.stop_reason": t.stop_reason,
                "madke.rounds": len(t.rounds),
                "madke.calls": t.total.calls,
                "madke.input_tokens": t.total.prompt_tokens,
                "madke.output_tokens": t.total.completion_tokens,
                "madke.question": t.question,
                **({} if t.answer is None else {"madke.answer": t.answer}),
            },
            error=(t.final.error or "") if failed else None,
        )

    def _retrievals(self) -> Iterator[TraceSpan]:
        """One per source of the pool. The pool is ready before the debate begins, so these spans take no time."""
        counts: dict[str, int] = dict.fromkeys(self.transcript.pool_partial, 0)
        for entry in self.transcript.pool:
            if entry.asked_by is None:
                counts[entry.source] = counts.get(entry.source, 0) + 1
        for source, count in counts.items():
            error = self.transcript.pool_partial.get(source)
            query = self.transcript.question
            yield self._retrieval(("source", source), self.root, 0.0, source, count, query, error)

    def _retrieval(
        self,
        parts: Sequence[object],
        parent: str,
        at: float,
        source: str | None,
        passages: int,
        query: str,
        error: str | None,
    ) -> TraceSpan:
        return TraceSpan(
            name=f"retrieval {source}" if source else "retrieval",
            trace=self.trace,
            id=self._id("retrieval", *parts),
            parent=parent,
            kind="client",
            start=self._time(at),
            end=self._time(at),
            attributes={
                "gen_ai.operation.name": "retrieval",
                **({"gen_ai.data_source.id": source} if source else {}),
                "gen_ai.retrieval.query.text": query,
                **({} if error is None else {"error.type": "search_failed"}),
                "madke.passages": passages,
            },
            error=error,
        )

    def _agents(self) -> Iterator[TraceSpan]:
        turns = {(each.n, turn.agent): turn for each in self.transcript.rounds for turn in each.turns}
        times: dict[tuple[int, str], list[TimedCall]] = {}
        for call in self.calls:
            times.setdefault((call.purpose.round, call.purpose.agent), []).append(call)
        ends = 0.0
        for round_n, agent in sorted({**times, **turns}, key=lambda place: place[0]):
            calls = times.get((round_n, agent), [])
            # A turn without a call of its own: its stance was given, or its calls are not known.
            start = min((call.start for call in calls), default=ends)
            ends = max((call.end for call in calls), default=start)
            turn = turns.get((round_n, agent))
            span = self._agent(round_n, agent, turn, start, ends)
            yield span
            if turn is not None and turn.search is not None:
                found = [entry for entry in self.transcript.pool if entry.n in turn.search.ids]
                sources = {entry.source for entry in found}
                source = sources.pop() if len(sources) == 1 else None
                search = turn.search
                place = ("search", round_n, agent)
                yield self._retrieval(place, span.id, start, source, len(search.ids), search.query, search.error)

    def _agent(self, round_n: int, agent: str, turn: Turn | None, start: float, end: float) -> TraceSpan:
        stance = None if turn is None else turn.stance
        failed = stance is not None and stance.status == "failed"
        return TraceSpan(
            name=f"invoke_agent {agent}",
            trace=self.trace,
            id=self._agent_id(round_n, agent),
            parent=self.root,
            start=self._time(start),
            end=self._time(end),
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "madke.round": round_n,
                **({"error.type": "call_failed"} if failed else {}),
                **({} if stance is None else {"madke.answer.status": stance.status}),
                **({} if stance is None or stance.answer is None else {"madke.answer": stance.answer}),
            },
            error=(stance.error or "") if stance is not None and failed else None,
        )

    def _agent_id(self, round_n: int, agent: str) -> str:
        return self._id("agent", round_n, agent)

    def _chat(self, call: TimedCall, nth: int) -> TraceSpan:
        purpose, reply = call.purpose, call.completion
        usage, failed = reply.usage, reply.outcome != "ok"
        model = split_address(call.model)[0]
        _, _, asked = model.partition("/")
        return TraceSpan(
            name=f"chat {asked or model}".rstrip(),
            trace=self.trace,
            id=self._id("chat", purpose.stage, purpose.agent, purpose.round, purpose.sample, nth),
            parent=self._agent_id(purpose.round, purpose.agent),
            kind="client",
            start=self._time(call.start),
            end=self._time(call.end),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _provider(model),
                **({"gen_ai.request.model": asked or model} if model else {}),
                "gen_ai.response.finish_reasons": [reply.finish_reason],
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
                "gen_ai.input.messages": _messages(call.messages),
                "gen_ai.output.messages": _reply(reply),
                **({"error.type": reply.outcome} if failed else {}),
                "madke.stage": purpose.stage,
                "madke.round": purpose.round,
                "madke.sample": purpose.sample,
                "madke.attempts": reply.attempts,
                "madke.paid": reply.paid,
                "madke.usage.estimated": usage.estimated,
            },
            error=(reply.error or "") if failed else None,
        )


def _provider(model: str) -> str:
    """The convention's name of a provider; for others, the kind in madke's name (``hf``, ``gguf``), or ``custom``."""
    kind = kind_of(model)
    return _PROVIDERS.get(kind, kind if kind in MODEL_KINDS else "custom")


def _messages(messages: Iterable[Message]) -> str:
    shown = [{"role": each.role, "parts": [{"type": "text", "content": each.content}]} for each in messages]
    return json.dumps(shown)


def _reply(reply: Completion) -> str:
    reasoning = [{"type": "reasoning", "content": reply.reasoning}] if reply.reasoning else []
    parts = [*reasoning, {"type": "text", "content": reply.text}]
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}])


def is_of_debate(purpose: Purpose, transcript: Transcript) -> bool:
    """Whether a stored call is one of those that the transcript counts; stores also hold searches and grades."""
    # Repeats read one pool, and each counts the calls that it took.
    shared = purpose.stage in RETRIEVAL_STAGES
    return purpose.stage in transcript.usage and (shared or purpose.repeat == transcript.repeat)
