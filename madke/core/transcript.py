"""The whole record of one question. Everything that is scored or shown is computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

ParseStatus = Literal["ok", "abstained", "failed"]
"""``ok``: a value was read. ``abstained``: text, but no value in it. ``failed``: the call failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The pool numbers a debater chose before speaking (Wang et al., Eq. 2)."""

    ids: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    """Numbers it named beyond the allowed count."""
    status: ParseStatus = "ok"
    rule: str = ""
    """The parser rule that fired; ``no_found`` when the debater declined all knowledge."""
    text: str = ""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stance:
    """What a debater said in a round, and the answer read from it (Eq. 3 and 4)."""

    stage: str = "speak"
    """``speak`` before it had read anybody, ``reply`` after; the stage its call is counted under."""
    text: str = ""
    answer: str | None = None
    status: ParseStatus = "ok"
    rule: str = ""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one debater did in one round. ``selection`` is None where it was not asked to choose."""

    agent: str
    stance: Stance
    selection: Selection | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the judge found after a round (Eq. 5)."""

    consensus: bool | None
    """None: no verdict could be read, or fewer than two debaters were left to compare."""
    text: str = ""
    rule: str = ""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """All turns of a round, in speaking order, and the verdict on them, if one was asked for."""

    n: int
    """1-based."""
    order: tuple[str, ...]
    turns: tuple[Turn, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Final:
    """How the answer was taken (Eq. 6 for a summarizer)."""

    by: str
    """The finish rule."""
    answer: str | None = None
    status: ParseStatus = "ok"
    text: str = ""
    rule: str = ""
    tie: bool = False
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageUsage:
    """Calls and tokens of one stage of one question."""

    calls: int = 0
    """Logical calls: what this debate consists of, wherever the replies came from."""
    paid: int = 0
    """Those that this run made; the rest were made by other runs that share its call store."""
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: int = 0
    """Calls whose token counts are our estimate."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolEntry:
    """Where pool number ``n`` came from."""

    n: int
    source: str
    key: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """One line of ``transcripts.jsonl``."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    status: ParseStatus
    """``ok``: there is an answer. ``abstained``: none could be read. ``failed``: calls failed; run again."""
    answer: str | None
    stop_reason: str
    rounds: tuple[Round, ...]
    final: Final
    choices: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    degraded: bool = False
    """Whether any call failed on the way."""
    repeat: int = 0
    pool: tuple[PoolEntry, ...] = ()
    pool_partial: Mapping[str, str] = field(default_factory=dict)
    """Source -> reason, for sources that failed when the pool was built."""
    usage: Mapping[str, StageUsage] = field(default_factory=dict)

    @property
    def consensus(self) -> bool | None:
        """The judge's last verdict; None where there was none."""
        verdict = self.rounds[-1].verdict if self.rounds else None
        return verdict.consensus if verdict else None


@cache
def _adapter() -> TypeAdapter[Transcript]:
    return TypeAdapter(Transcript)


def to_json(transcript: Transcript) -> bytes:
    """The transcript as one line of JSON, without the newline."""
    return _adapter().dump_json(transcript)


def from_json(line: bytes | str) -> Transcript:
    """The transcript of one JSON line.

    Raises:
        pydantic.ValidationError: The line is not a transcript.
    """
    return _adapter().validate_json(line)
