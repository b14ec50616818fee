"""The ``debate`` call of the package ``lemmas`` 0.4.0 on madke's engine: change the import, get the same results."""

from __future__ import annotations

import inspect
import operator
import time
import typing
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from madke._util.concurrency import gather
from madke.adapters import AsyncCompleteFn, ChatMessages, CompleteFn
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.question import Question
from madke.core.transcript import StageUsage, Transcript
from madke.engine.protocol import hold_debate as engine_debate
from madke.engine.scene import Scene
from madke.engine.settings import NON_DEBATERS, Debater, Reads
from madke.engine.steps import overlaps
from madke.engine.variant import Variant, load_variant
from madke.models.prices import estimated_usage
from madke.tasks import get_task

__all__ = ["DebateResult", "DebateRound", "Tracer", "adebate", "debate"]


@dataclass
class DebateRound:
    """All drafts of one round; independent in round 0."""

    round_index: int
    drafts: dict[str, str]
    """Label -> draft, stripped but otherwise verbatim."""


@dataclass
class DebateResult:
    """The result of a debate."""

    final: str
    winner_label: str
    rounds: list[DebateRound] = field(default_factory=list)
    judgment: str = ""
    """The judge's reply, or a note that there was no judge."""
    usage: Mapping[str, StageUsage] = field(default_factory=dict)
    """Not in the package: stage (``speak``, ``reply``, ``pick``) -> calls and tokens; estimates, unless
    :mod:`madke.adapters` made the function."""
    transcript: Transcript | None = field(default=None, repr=False)
    """Not in the package: the engine's record. Its ``final`` has no winner if the verdict cannot be parsed."""


class Tracer(typing.Protocol):
    """Receives the start and end of the debate and of each completion in it."""

    def start_span(self, name: str, **attrs: Any) -> Any:
        """Start a span; the return value is passed to :meth:`end_span`."""

    def end_span(self, span: Any, **attrs: Any) -> None:
        """End a span, also after an exception."""


AnyCompleteFn = CompleteFn | AsyncCompleteFn


def debate(
    query: str,
    agents: Sequence[tuple[str, CompleteFn]] | CompleteFn,
    rounds: int = 2,
    n_agents_if_single: int = 3,
    personas: Sequence[str] | None = None,
    judge: CompleteFn | None = None,
    tracer: Tracer | None = None,
) -> DebateResult:
    """Debate a question between completion functions, as ``lemmas.debate`` 0.4.0 does.

    Each agent drafts an answer. In every further round it reads the others' last drafts and writes a new one. The judge
    picks a draft; without a judge, the draft whose words overlap most with the others wins. k agents and R rounds take
    k (R + 1) calls, plus one for the judge, all made in the caller's thread, one after another.

    The call keeps the package's contract, even where madke's own debates differ: of two agents with the same label only
    the later one's drafts count; an empty draft stays in the debate; a verdict without a label picks the first agent; a
    label also matches inside a word.

    Args:
        query: The question.
        agents: (label, completion function) pairs; or one function, which plays ``n_agents_if_single`` agents called
            ``AGENT_A``, ``AGENT_B``, ... A function takes a list of messages (``{"role": ..., "content": ...}``) and
            returns a text; None is an empty text.
        rounds: Number of revision rounds after the first drafts; negative numbers count as 0.
        n_agents_if_single: Number of agents that a single function plays.
        personas: A text for each agent, placed at the start of its prompts. None: five built-in personas, in turn.
        judge: A completion function that names the label of the best draft. None: convergence.
        tracer: Notified when the debate and each of its calls start and end.

    Raises:
        ValueError: There is no agent, or the number of personas differs from the number of agents.
        TypeError: A function is asynchronous; use :func:`adebate`.
        Exception: Any exception of a completion function, unchanged; no further calls are made.
    """
    session = _Debate(query, _seats(agents, n_agents_if_single, personas), rounds, judge, tracer)
    try:
        session.run().send(None)  # No call waits: without an event loop, functions may run their own.
    except StopIteration as done:
        result: DebateResult = done.value
        return result
    except RuntimeError:
        if session.stopped is not None:
            raise session.stopped from None
        raise
    raise AssertionError("a synchronous function does not wait")


async def adebate(
    query: str,
    agents: Sequence[tuple[str, AnyCompleteFn]] | AnyCompleteFn,
    rounds: int = 2,
    n_agents_if_single: int = 3,
    personas: Sequence[str] | None = None,
    judge: AnyCompleteFn | None = None,
    tracer: Tracer | None = None,
) -> DebateResult:
    """:func:`debate` for asynchronous completion functions; the drafts of one round are written concurrently.

    A synchronous function blocks the event loop. The first exception of a function cancels the calls in flight and is
    raised. The package has no such call.
    """
    seats = _seats(agents, n_agents_if_single, personas)
    return await _Debate(query, seats, rounds, judge, tracer, is_async=True).run()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seat:
    label: str
    name: str
    """Its unique name in the engine: the label, numbered if another agent has it or it is reserved."""
    persona: str
    complete: Callable[[ChatMessages], Any]
    heard: bool
    """Whether its drafts count: no later agent has the same label."""


def _seats(agents: Any, n_if_single: int, personas: Sequence[str] | None) -> tuple[_Seat, ...]:
    if callable(agents):
        agents = [(f"AGENT_{chr(ord('A') + n)}", agents) for n in range(n_if_single)]
    if not agents:
        raise ValueError("debate: at least one agent required")
    if personas is not None and len(personas) != len(agents):
        raise ValueError("personas length must match number of agents")
    labels = [str(label) for label, _ in agents]
    names: list[str] = []
    for label in reversed(labels):  # so that the agent whose drafts count under a label gets it as its name
        name, n = label, 1
        while name in names or name.casefold() in NON_DEBATERS or (n > 1 and name in labels):
            n += 1
            name = f"{label}_{n}"
        names.insert(0, name)
    return tuple(
        _Seat(
            label=label,
            name=names[n],
            # An empty persona is still a persona: the templates must not treat it as missing.
            persona="" if personas is None else str(personas[n]) or " ",
            complete=complete,
            heard=str(label) not in labels[n + 1 :],
        )
        for n, (label, complete) in enumerate(agents)
    )


@cache
def _variant() -> Variant:
    return load_variant("lemmas").with_settings({"marker": "text", "structured": "off"})


@dataclass(slots=True)
class _Debate:
    query: str
    seats: tuple[_Seat, ...]
    rounds: int
    judge: Callable[[ChatMessages], Any] | None
    tracer: Tracer | None
    is_async: bool = False
    stopped: StopIteration | None = None
    """The exception of a function that a coroutine cannot raise."""

    async def run(self) -> DebateResult:
        with _span(self.tracer, "lemmas.debate", query=self.query, n_agents=len(self.seats), rounds=self.rounds):
            return await self._result()

    async def _result(self) -> DebateResult:
        cast = {seat.name: _Caller(self, seat.complete, seat) for seat in self.seats}
        judge = None if self.judge is None else _Caller(self, self.judge)
        protocol, seats = _variant().protocol, self.seats
        settings = {
            **dict(protocol),
            "debaters": tuple(Debater(name=seat.name, persona=seat.persona) for seat in seats),
            "rounds": max(0, operator.index(self.rounds)) + 1,
            "reads": Reads(
                own="none",
                topology=tuple(tuple(seat.label != other.label and other.heard for other in seats) for seat in seats),
            ),
            "end": "overlap" if judge is None else "pick",
        }
        scene = Scene(
            Question(id="debate", question=str(self.query)),
            type(protocol).model_construct(**settings),  # not validated: labels may be any texts
            cast if judge is None else {**cast, "judge": judge},
            task=get_task("short_answer"),
            prompts=_variant(),
            gather=gather if self.is_async else _in_turn,
        )
        transcript = await engine_debate(scene)
        replies = {seat.label: cast[seat.name].replies for seat in seats}
        rounds = [
            DebateRound(n, {label: drafts[n] for label, drafts in replies.items()})
            for n in range(len(transcript.rounds))
        ]
        drafts = rounds[-1].drafts
        if judge is None:
            scores = dict(zip(drafts, overlaps(list(drafts.values())), strict=True))
            judgment, winner = "(convergence-based, no judge)", max(scores, key=scores.__getitem__)
        else:
            judgment, winner = judge.replies[0], self.winner(judge.replies[0])
        return DebateResult(drafts[winner], winner, rounds, judgment, transcript.usage, transcript)

    def winner(self, verdict: str) -> str:
        """The label that starts the verdict, followed by a colon; else the first that occurs in it; else the first."""
        labels, text = [seat.label for seat in self.seats], verdict.upper()
        started = [label for label in labels if text.startswith(f"{label.upper()}:")]
        return [*started, *(label for label in labels if label.upper() in text), *labels][0]


@contextmanager
def _span(tracer: Tracer | None, name: str, **attrs: Any) -> Iterator[dict[str, Any]]:
    """Trace the block; the entries of the yielded mapping become attributes of the end of the span."""
    results: dict[str, Any] = {}
    opened = tracer.start_span(name, **attrs) if tracer is not None else None
    try:
        yield results
    finally:
        if tracer is not None:
            tracer.end_span(opened, **results)


@dataclass(slots=True)
class _Caller:
    """A ChatModel over a completion function."""

    debate: _Debate
    function: Callable[[ChatMessages], Any]
    seat: _Seat | None = None
    """None: the judge."""
    name: str = "function"
    replies: list[str] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Completion:
        """Call the function. An empty reply is valid; an exception of the function ends the debate."""
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        round_n, start = request.purpose.round, time.perf_counter()
        attrs = {"agent": self.seat.label, "round": round_n - 1} if self.seat else {}
        what = "judge" if self.seat is None else "draft" if round_n == 1 else "revise"
        with _span(self.debate.tracer, f"lemmas.debate.{what}", **attrs) as results:
            reply = await self._reply(messages)
            text = (reply or "").strip()
            self.replies.append(text)
            results.update({"draft_len": len(text)} if self.seat else {"winner": self.debate.winner(text)})
        counted, heard = getattr(reply, "usage", None), self.seat is None or self.seat.heard
        usage = counted if isinstance(counted, Usage) else estimated_usage(request.messages, text)
        return Completion(text=text if heard else "", usage=usage, seconds=time.perf_counter() - start)

    async def _reply(self, messages: ChatMessages) -> Any:
        try:
            reply = self.function(messages)
        except StopIteration as error:
            self.debate.stopped = error
            raise
        if not inspect.isawaitable(reply):
            return reply
        if self.debate.is_async:
            return await reply
        if inspect.iscoroutine(reply):
            reply.close()
        raise TypeError("debate: an agent is asynchronous; await madke.adebate(...) with it")


async def _in_turn(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    return [await coroutine for coroutine in coroutines]
