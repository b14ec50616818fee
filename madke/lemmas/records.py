"""What the call returns, in the package's shape: plain, mutable records with positional fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from madke.core.transcript import StageUsage, Transcript


@dataclass
class DebateRound:
    """All drafts of one round."""

    round_index: int
    """0 for the independent drafts, 1 for the first revision, ..."""
    drafts: dict[str, str]
    """Label -> draft, verbatim but for white space around it."""


@dataclass
class DebateResult:
    """What a debate came to."""

    final: str
    """The winner's last draft."""
    winner_label: str
    rounds: list[DebateRound] = field(default_factory=list)
    judgment: str = ""
    """The judge's words, or a note that there was none."""
    usage: Mapping[str, StageUsage] = field(default_factory=dict)
    """Stage (``speak``, ``reply``, ``pick``) -> calls and tokens. Not in the package. Tokens are the provider's where
    :mod:`madke.adapters` made the function, else estimates, marked so."""
    transcript: Transcript | None = field(default=None, repr=False)
    """The engine's record of the debate. Not in the package. Its ``final`` is what the engine makes of the last round
    by its own rules, in which a verdict that cannot be read picks nobody."""


class Tracer(Protocol):
    """Whoever is told of the call and of each completion in it."""

    def start_span(self, name: str, **attrs: Any) -> Any:
        """Something begins; what is returned is handed to :meth:`end_span`."""

    def end_span(self, span: Any, **attrs: Any) -> None:
        """It ended, well or with an exception."""
