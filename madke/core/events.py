"""What a debate tells while it goes on, and a run: frozen records for whoever listens.

A listener is called synchronously, where the event happens: never two at once, and in the order in which things happen.
Calls of a round that go on at the same time interleave; ``purpose`` says which is which.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.knowledge import KnowledgePool, SourceCounts
from madke.core.transcript import Round, Search, Selection, Stance, Transcript, Verdict

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened."""

    question: str
    """The question's id."""
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
    """A round begins; one whose stances are given, too."""

    n: int
    """1-based."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStarted(Event):
    """A model is about to be asked. A prompt that it finds too long is shortened and asked again, as another call."""

    purpose: Purpose
    request: ChatRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDelta(Event):
    """Part of a reply, from a model that streams, where ``debate`` was asked for ``deltas``.

    The parts are what the model sends, hidden reasoning in the text included. An attempt that is repeated begins anew.
    """

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
    """The round, 1-based."""
    agent: str
    """The debater."""


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
    """The judge's verdict; also the one that needs no call, where fewer than two debaters are left."""

    n: int
    """The round."""
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
    """As it was asked for; None for what the name stands for."""
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolProgress(Event):
    """Of the runner: how many questions have their pools, of all that lacked one."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolsReady(Event):
    """Of the runner: all pools are there."""

    found: Mapping[str, SourceCounts]
    """Source name -> what it came back with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress(Event):
    """Of the runner: its counters. ``at`` is seconds since the run began in this process."""

    question: str = ""
    """The question that has just ended; empty where that is not the reason to tell."""
    done: int
    """Questions, each repeat counted, that ended in this process."""
    total: int
    """All there are, with those that were resumed."""
    resumed: int = 0
    """Those that had ended before this process started."""
    failed: int = 0
    """The part of ``done`` that failed."""
    calls: int = 0
    """Calls that ended in this process; those that a store answered are not counted."""
    failed_calls: int = 0
    too_long: int = 0
    """Prompts that a model found too long."""
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """The part of ``prompt_tokens`` that servers' prefix caches held."""
    completion_tokens: int = 0
    cost: float | None = None
    """At the prices of the run; None without prices."""
    in_flight: int = 0
    """Calls under way."""


def heedless(listen: Listener) -> Listener:
    """The listener, but nothing that it raises reaches the caller: each kind of event logs it once, as a bug.

    A runner makes one for all its debates, so that each kind is logged once a run.
    """
    return listen if isinstance(listen, _Heedless) else _Heedless(listen)


class _Heedless:
    def __init__(self, listen: Listener) -> None:
        self._listen = listen
        self._logged: set[type[Event]] = set()

    def __call__(self, event: Event) -> None:
        try:
            self._listen(event)
        except Exception:
            if type(event) not in self._logged:
                self._logged.add(type(event))
                _log.exception("a listener failed at %s; this is a bug in it", type(event).__name__)
