"""The record of one call of an audit."""

from dataclasses import dataclass
from typing import Literal

from madke.core.chat import ChatRequest, Completion

Probe = Literal["select", "speak", "reply", "judge", "summarize", "alone", "together", "schema", "siblings", "long"]
"""What a call is for: a stage of the ``madke`` protocol, or a property of the endpoint."""

Case = Literal[
    "", "gold_first", "gold_last", "own_right", "own_wrong", "same", "different", "right_first", "right_last"
]
"""Gold passage shown first or last; own stance right and the peer's wrong, or the reverse; answers that are the same or
not; stance with the right answer read first or last."""

PROBED_STAGES: tuple[Probe, ...] = ("select", "speak", "reply", "judge", "summarize")


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
    first_token: float | None = None
    """Seconds until the first part of a streamed reply; None if the reply was not streamed."""
    shown: tuple[str, ...] = ()
    """Texts of the prompt that a reply may quote: question, passages, stances."""
    readable: bool = False
    """Whether the parser of the stage found a value."""
    answer: str | None = None
    """The answer of a stance or a summary."""
    echoed: bool = False
    """The parser took the answer for text of the prompt."""
    right: bool = False
    reported: Literal[1, 2] | None = None
    """Of a summary: which of the two answers that it read it reports; None: neither."""
