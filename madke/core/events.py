"""Events that a debate and a run send to listeners while they run.

A listener is called synchronously, one event at a time, in order. The calls of a round interleave; ``purpose``
identifies each.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.knowledge import KnowledgePool, SourceCounts
from madke.core.transcript import Round, Search, Selection, Stance, Transcript, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Base class of all events."""

    question: str = ""
    """The question's id; empty for events of a whole run."""
    repeat: int = 0
    at: float = 0.0
    """Seconds since the debate began, by the caller's clock; 0 without a clock."""


Listener = Callable[[Event], None]
"""A function that receives events. It cannot change the debate; an exception in it is logged as a bug, not raised."""

Watch = Callable[[], AbstractContextManager[Listener]]
"""Opens a listener for some work."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DebateStarted(Event):
    """A debate begins."""

    pool: KnowledgePool
    """Numbered as in prompts; empty if the protocol has no knowledge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundStarted(Event):
    """A round begins, 1-based ``n``."""

    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStarted(Event):
    """A model call starts. A prompt that is too long is shortened and sent again, as another call."""

    purpose: Purpose
    request: ChatRequest
    model: str = ""
    """Name of the model that is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDelta(Event):
    """Part of a streamed reply in free text, if ``deltas`` were requested. A retry starts the reply again."""

    purpose: Purpose
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFinished(Event):
    """A call has ended; ``completion.outcome`` tells whether it succeeded."""

    purpose: Purpose
    completion: Completion


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn(Event):
    n: int
    agent: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionMade(_Turn):
    """A debater chose knowledge, or its selection call failed."""

    selection: Selection


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchMade(_Turn):
    """A debater's search has ended; the passages it found are in the pool."""

    search: Search


@dataclass(frozen=True, kw_only=True, slots=True)
class StanceGiven(_Turn):
    """A debater spoke or its call failed; or its stance was given from outside."""

    stance: Stance


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictGiven(Event):
    """The judge's verdict on round ``n``. With fewer than two debaters left, no call is made for it."""

    n: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundEnded(Event):
    """A round is over, including the calls after its turns."""

    round: Round


@dataclass(frozen=True, kw_only=True, slots=True)
class DebateFinished(Event):
    """The last event of a debate that was not cancelled."""

    transcript: Transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolReady(Event):
    """From the runner: a question's pool was retrieved or read from a file."""

    pool: KnowledgePool


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOpened(Event):
    """From the runner: a source is open for searches."""

    name: str
    spec: str | None
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolProgress(Event):
    """From the runner: how many of the ``total`` questions that need a pool have one now."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolsReady(Event):
    """From the runner: all pools are complete; source name -> its counts."""

    found: Mapping[str, SourceCounts]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress(Event):
    """From the runner: its counters in this process. ``at`` is seconds since this process started the run."""

    done: int
    """Questions that have ended; each repeat counts."""
    total: int
    """All questions of the run, including ``resumed``."""
    resumed: int = 0
    """Questions that earlier processes finished."""
    failed: int = 0
    """Questions of ``done`` that failed."""
    calls: int = 0
    """Calls that ended, without those answered by the call store."""
    failed_calls: int = 0
    too_long: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    in_flight: int = 0


def silent(event: Event) -> None:
    """A listener that does nothing."""


def never_raising(listen: Listener) -> Listener:
    """Wrap a listener so that it never raises: exceptions are logged as bugs, once for each kind of event."""
    logged: set[type[Event]] = set()

    def hear(event: Event) -> None:
        try:
            listen(event)
        except Exception:
            if type(event) not in logged:
                logged.add(type(event))
                log = logging.getLogger(__name__)
                log.exception("a listener failed on %s; this is a bug in the listener", type(event).__name__)

    return hear
