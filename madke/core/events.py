"""What a debate tells while it goes on, and a run: frozen records for whoever listens.

A listener is called synchronously, where the event happens: one at a time, in order. Calls of a round interleave;
``purpose`` says which is which.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.knowledge import KnowledgePool, SourceCounts
from madke.core.transcript import Round, Search, Selection, Stance, Transcript, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened."""

    question: str
    """Its id."""
    repeat: int = 0
    at: float = 0.0
    """Seconds since the debate began, by the caller's clock; 0 without one."""


Listener = Callable[[Event], None]
"""Whoever hears events. It changes nothing; what it raises is logged as a bug and goes no further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DebateStarted(Event):
    """A debate begins."""

    pool: KnowledgePool
    """Numbered as prompts show it; empty where the protocol has no knowledge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundStarted(Event):
    """A round begins, 1-based ``n``."""

    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStarted(Event):
    """A model is about to be asked. A prompt that is too long is shortened and asked again, as another call."""

    purpose: Purpose
    request: ChatRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDelta(Event):
    """Part of a reply as a model streams it, where ``deltas`` were asked for. A repeated attempt begins anew."""

    purpose: Purpose
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFinished(Event):
    """A call has ended, well or not; see ``completion.outcome``."""

    purpose: Purpose
    completion: Completion


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn(Event):
    n: int
    agent: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionMade(_Turn):
    """A debater chose knowledge, or its call for that failed."""

    selection: Selection


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchMade(_Turn):
    """A search that a debater asked for was answered; what it found is in the pool."""

    search: Search


@dataclass(frozen=True, kw_only=True, slots=True)
class StanceGiven(_Turn):
    """A debater spoke, or failed to; or its stance was given from outside."""

    stance: Stance


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictGiven(Event):
    """The judge's verdict on round ``n``; without a call where fewer than two debaters are left."""

    n: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundEnded(Event):
    """A round is over, with all that followed its turns."""

    round: Round


@dataclass(frozen=True, kw_only=True, slots=True)
class DebateFinished(Event):
    """The last event of a debate that was not cancelled."""

    transcript: Transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolReady(Event):
    """Of the runner: a question's pool was retrieved, or read."""

    pool: KnowledgePool


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOpened(Event):
    """Of the runner: a source can be asked."""

    name: str
    spec: str | None
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolProgress(Event):
    """Of the runner: how many of the questions without a pool have one now."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolsReady(Event):
    """Of the runner: all pools are there; source name -> what it found."""

    found: Mapping[str, SourceCounts]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress(Event):
    """Of the runner: its counters, of this process. ``at`` is seconds since the run began in it."""

    question: str = ""
    """The question that has just ended, if one has."""
    done: int
    """Questions that ended, each repeat counted."""
    total: int
    """With those that were resumed."""
    resumed: int = 0
    failed: int = 0
    """Of ``done``."""
    calls: int = 0
    """Calls that ended and that no store answered."""
    failed_calls: int = 0
    too_long: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    in_flight: int = 0


def heedless(listen: Listener) -> Listener:
    """The listener, but nothing that it raises reaches the caller: each kind of event logs it once, as a bug."""
    logged: set[type[Event]] = set()

    def hear(event: Event) -> None:
        try:
            listen(event)
        except Exception:
            if type(event) not in logged:
                logged.add(type(event))
                log = logging.getLogger(__name__)
                log.exception("a listener failed at %s; this is a bug in it", type(event).__name__)

    return hear
