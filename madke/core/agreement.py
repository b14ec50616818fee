"""How a debate ended: who agrees, who does not, and which passages say so."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

QuoteStatus = Literal["found", "approximate", "misattributed", "stitched", "not_found", "too_short"]
"""What looking a quote up gave.

``found``: the passage that it names has it. ``approximate``: that passage has it with another spelling.
``misattributed``: only another passage has it. ``stitched``: its parts stand in several places. ``not_found``: no
passage has it. ``too_short``: too few characters to look up.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """A quote in a stance, looked up in the pool."""

    text: str
    agent: str
    round: int
    passage: int | None
    """The pool number that the stance names; None: it names none."""
    status: QuoteStatus
    found_in: tuple[int, ...] = ()
    """Pool numbers of the passages that have it, or parts of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """One of the answers of the last round."""

    answer: str
    """In the words of its first supporter."""
    supporters: tuple[str, ...]
    passages: tuple[int, ...] = ()
    """Pool numbers that its supporters chose or, if they do not choose, that they name or were shown."""
    containing: tuple[int, ...] | None = None
    """Those of ``passages`` that contain the answer by the task's matcher. None: it cannot be looked up, such as yes,
    the label of a claim, or the result of a calculation; or the passages are not at hand."""
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A debater that changed its answer."""

    agent: str
    round: int
    """The round of the new answer."""
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """The end of a debate: its last answers, who supports them, and what was looked up.

    Samples of one vote (:attr:`madke.engine.protocol.Protocol.samples`) count as one round.
    """

    outcome: Literal["consensus", "split", "single"]
    """``single``: fewer than two debaters spoke, so there was nobody to agree with."""
    by: Literal["judge", "matcher", "vote"]
    """What told: the judge's verdict, the task's matcher, or a vote that decided between different answers."""
    same: bool
    """Whether all answers of the last round are the same under the task's matcher, whatever a judge found."""
    positions: tuple[Position, ...] = ()
    """The position of the final answer first, then by number of supporters."""
    silent: tuple[str, ...] = ()
    """Debaters whose last reply holds no readable answer."""
    dissent: tuple[str, ...] = ()
    """Debaters whose last answer is not the final one."""
    changes: tuple[Change, ...] = ()
    cited: tuple[int, ...] = ()
    """Pool numbers that may be cited for the final answer: they contain it, or a quote of its supporters."""
    checked: Annotated[bool, Field(exclude_if=lambda value: value)] = True
    """Whether anything could be looked up for the final answer. If not, no citation says nothing about it."""

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The quotes of all positions."""
        return tuple(quote for position in self.positions for quote in position.quotes)
