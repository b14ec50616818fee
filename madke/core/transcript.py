"""The complete record of one question's debate. All scores and reports are computed from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter

ParseStatus = Literal["ok", "abstained", "unmarked", "echoed", "contradictory", "cut", "failed"]
"""What was read from a reply.

``ok``: a value. ``abstained``: the reply declines to give one. ``unmarked``: its text holds no value. ``echoed``: it
only gives back its request: rules, examples, the question. ``contradictory``: its conclusions differ. ``cut``: it was
stopped at ``max_tokens`` before a value. ``failed``: the call failed.
"""

DebateOutcome = Literal["ok", "abstained", "failed", "deferred"]
"""How a debate ended. ``deferred``: there is an answer, but it is left to a person."""

UNREAD_STATUSES: tuple[ParseStatus, ...] = ("unmarked", "echoed", "contradictory", "cut")
"""The readings of replies that say something, but nothing that can be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncation:
    """What was left out of a prompt that was too long for the model."""

    stances: int = 0
    """How many earlier stances; the oldest are dropped first."""
    passages: tuple[int, ...] = ()
    """Pool numbers; the lowest-ranked are dropped first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Called:
    """The reply of a call: what every record of a call has."""

    text: str = ""
    error: str | None = None
    truncated: Truncation | None = None
    max_tokens: Annotated[int | None, Field(exclude_if=lambda value: value is None)] = None
    """The limit of the reply, if the model's context window left less than the protocol's ``max_tokens``."""
    cut: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """The reply was stopped at ``max_tokens``."""
    bound: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """The reply was asked for with a JSON schema. If it fits the schema, ``text`` shows its values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Called):
    """The pool numbers a debater chose before speaking (Wang et al., Eq. 2)."""

    ids: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    """Numbers that it named beyond the limit."""
    status: ParseStatus = "ok"
    rule: str = ""
    """The parser rule that matched; ``no_found``: the debater declined all knowledge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A search that a debater requested with its selection."""

    query: str
    ids: tuple[int, ...] = ()
    """Pool numbers of the passages found, including those that the pool held before."""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stance(Called):
    """What a debater said in a round, and the answer read from it (Eq. 3 and 4)."""

    stage: str = "speak"
    """``speak`` if it had read no stance yet, else ``reply``."""
    answer: str | None = None
    status: ParseStatus = "ok"
    rule: str = ""
    confidence: float | None = None
    """0 .. 1; None if it is not asked for or cannot be read."""
    copied: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """All its sentences are copied from others' stances. Its answer counts like any other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflection(Called):
    """A debater's review of its own stance."""

    satisfied: bool | None
    """None: the reply could not be read."""
    status: Annotated[ParseStatus, Field(exclude_if=lambda value: value == "ok")] = "ok"
    rule: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageUsage:
    """Calls and tokens of one stage of one question."""

    calls: int = 0
    paid: int = 0
    """Calls of this run itself; the others were answered by another run's calls in a shared call store."""
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: int = 0
    """Calls whose token counts are estimates."""
    server_cut: Annotated[int, Field(exclude_if=lambda value: not value)] = 0
    """Calls whose prompt the server cut without an error."""
    not_utf8: Annotated[int, Field(exclude_if=lambda value: not value)] = 0
    """Calls whose reply held bytes that are not UTF-8."""
    bound: Annotated[int, Field(exclude_if=lambda value: not value)] = 0
    """Calls whose reply was asked for with a JSON schema."""
    distinct_tokens: Annotated[int, Field(exclude_if=lambda value: not value)] = 0
    """Of ``prompt_tokens``: those that no other prompt of the debate began with, in the order of rounds, stages and
    debaters. A server that keeps what it has read need not compute or bill the others."""
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt plus completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one debater did in one round."""

    agent: str
    stance: Stance
    selection: Selection | None = None
    search: Search | None = None
    reads: tuple[str, ...] = ()
    """Whose stances it read, in the order shown. ``stance.truncated`` counts those dropped from the start."""
    reflection: Reflection | None = None
    usage: Annotated[StageUsage | None, Field(exclude_if=lambda value: value is None)] = None
    """Calls and tokens of its stages in this round (before round 1 also of its preparation), without who paid and how
    long they took. None: its stance was given, or an older version wrote the transcript."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(Called):
    """What the judge found after a round (Eq. 5; Liang et al., Eq. 1)."""

    consensus: bool | None
    """Whether the debate is settled. None: no verdict could be read, or fewer than two debaters were left."""
    side: str | None = None
    """The debater that the judge supports."""
    answer: str | None = None
    reason: str = ""
    status: Annotated[ParseStatus, Field(exclude_if=lambda value: value == "ok")] = "ok"
    rule: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest(Called):
    """The summarizer's summary of the debate so far, which the next round reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark(Called):
    """What a role that is no debater said of a round: debaters read it, and it has no answer and no vote."""

    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CitationCheck:
    """What code changed in the citations of a summary: pool numbers."""

    removed: tuple[int, ...] = ()
    """No debater cites them for such a sentence."""
    restored: tuple[int, ...] = ()
    """A sentence repeats one of a debater without its citation."""
    lost: tuple[int, ...] = ()
    """Debaters cite them, and no sentence of the summary does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Final(Called):
    """The final answer and where it comes from (Eq. 6 for a summarizer)."""

    by: str
    """How it came about (``majority``, ``only``, ...), or the role that gave it: ``summarizer``, ``judge``."""
    answer: str | None = None
    status: ParseStatus = "ok"
    rule: str = ""
    agent: str | None = None
    """Whose answer it is, if the rule picks one debater."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """What the rule compares: debater -> overlap or quality, or answer -> weight."""
    tie: bool = False
    """Several answers had equal support, or a summarized debate ended with different answers."""
    citations: Annotated[CitationCheck | None, Field(exclude_if=lambda value: value is None)] = None
    """Of a summary that is a text with citations; ``text`` and ``answer`` are those after the check."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """All turns of a round, and the calls after them that the protocol asks for."""

    n: int
    order: tuple[str, ...]
    """The order in which debaters read each other, and in which they spoke if talk was sequential."""
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    scores: Mapping[str, float] = field(default_factory=dict)
    """Debater -> path consistency with decay (Zhang et al., Eq. 2), if the order is ``madc``."""
    remarks: Annotated[tuple[Remark, ...], Field(exclude_if=lambda value: not value)] = ()
    """What roles outside the cast said after the turns."""
    verdict: Verdict | None = None
    digest: Digest | None = None
    extracted: Final | None = None


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

    Samples of one vote (:attr:`madke.engine.protocol.Trace.samples`) count as one round.
    """

    outcome: Literal["consensus", "split", "single"]
    """``single``: fewer than two debaters spoke; one alone is no consensus."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolEntry:
    """Where pool number ``n`` came from."""

    n: int
    source: str
    key: str
    title: str
    asked_by: str | None = None
    """The debater whose search found it; None: retrieved for the question."""
    query: str | None = None
    round: int | None = None


def reading(reply: Selection | Stance | Reflection | Verdict | Final) -> ParseStatus:
    """What was read from a reply, also in transcripts of older versions.

    They call everything that holds no value ``abstained``, and verdicts and reviews have no status. Their rule tells.
    """
    if reply.error is not None:
        return "failed"
    if isinstance(reply, Verdict) and reply.status == "ok":
        return "unmarked" if reply.consensus is None and reply.rule != "too_few" else "ok"
    if isinstance(reply, Reflection) and reply.status == "ok":
        return "unmarked" if reply.satisfied is None else "ok"
    return "unmarked" if reply.status == "abstained" and reply.rule not in _DECLINES else reply.status


_DECLINES = ("declined", "given")


def outcome(final: ParseStatus) -> Literal["ok", "abstained", "failed"]:
    """How a debate ended, from the reading of its final text."""
    return "ok" if final == "ok" else "failed" if final == "failed" else "abstained"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deferral:
    """Why an answer is left to a person."""

    reason: str
    answer: str | None
    """What the debate would have answered."""
    score: float
    """Of the calibration; below its threshold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """One line of ``transcripts.jsonl``."""

    id: str
    question: str
    task: str
    answers: tuple[str, ...]
    status: DebateOutcome
    """``ok``: there is an answer. ``abstained``: there is none; ``final.status`` says why, and only if it is
    ``abstained`` too did the debate decline to answer. ``failed``: calls failed; run again. ``deferred``: the answer is
    in ``deferral``, for a person."""
    answer: str | None
    stop_reason: str
    rounds: Annotated[tuple[Round, ...], Field(min_length=1)]
    final: Final
    choices: tuple[str, ...] = ()
    instructions: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    degraded: bool = False
    """A call failed during the debate."""
    oracle: bool = False
    """The reading order used the gold answers: an analysis, not a prediction."""
    repeat: int = 0
    first_round_given: bool = False
    prepared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Debater -> stage -> text."""
    pool: tuple[PoolEntry, ...] = ()
    pool_partial: Mapping[str, str] = field(default_factory=dict)
    """Source -> why it failed."""
    usage: Mapping[str, StageUsage] = field(default_factory=dict)
    agreement: Annotated[Agreement | None, Field(exclude_if=lambda value: value is None)] = None
    """Who agrees, and what the passages say. None: nobody spoke in the last round, or an older version wrote this."""

    deferral: Annotated[Deferral | None, Field(exclude_if=lambda value: value is None)] = None
    """Set if ``status`` is ``deferred``."""

    @property
    def reading(self) -> ParseStatus | Literal["deferred"]:
        """``status``, but if there is no answer, how its final text was read. Only ``abstained`` is an abstention."""
        # Without a rule, the final answer was not read from a text.
        return reading(self.final) if self.status == "abstained" and self.final.rule else self.status

    @property
    def total(self) -> StageUsage:
        """The calls and tokens of all stages."""
        return sum(self.usage.values(), StageUsage())

    @property
    def dataset(self) -> str | None:
        """The question's dataset, if its metadata names one."""
        name = self.metadata.get("dataset")
        return name if isinstance(name, str) else None

    @property
    def consensus(self) -> bool | None:
        """The judge's last verdict; None if there was none."""
        verdict = self.rounds[-1].verdict if self.rounds else None
        return verdict.consensus if verdict else None


@cache
def _adapter() -> TypeAdapter[Transcript]:
    return TypeAdapter(Transcript)


def to_json(transcript: Transcript, *, exclude_defaults: bool = False) -> bytes:
    """The transcript as one line of JSON, without the newline."""
    return _adapter().dump_json(transcript, exclude_defaults=exclude_defaults)


def from_json(line: bytes | str) -> Transcript:
    """The transcript in one JSON line; raises :class:`pydantic.ValidationError` if the line holds none."""
    return _adapter().validate_json(line)
