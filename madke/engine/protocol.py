"""The declarative description of a debate. A variant's ``protocol.yaml`` is one of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Debater(_Strict):
    """One debater, where they are not all alike."""

    name: str
    """How the transcript and the other debaters call it."""
    persona: str = ""
    """A sentence or two about who it is, for its system prompt."""
    model: str | None = None
    """A model name (``openai/...``); None takes the run's."""
    temperature: float | None = Field(default=None, ge=0)
    """None takes the protocol's."""


class Knowledge(_Strict):
    """What of the retrieved knowledge the debaters get."""

    sources: tuple[str, ...] = ("wiki", "google")
    """Names of the sources that a pool is merged from, in this order (Wang et al., Eq. 1)."""
    per_source: int = Field(default=5, ge=1)
    """Passages kept of each source, after duplicates are removed."""
    select: Literal["adaptive", "all", "none"] = "adaptive"
    """``adaptive``: each debater chooses before every turn (Eq. 2). ``all``: everyone gets the whole pool. ``none``:
    the pool is kept in the transcript, but nobody sees it."""
    max_selected: int = Field(default=3, ge=1)
    """How many passages one adaptive selection may choose (Prompt 3.1)."""


class Talk(_Strict):
    """When debaters speak. Simultaneous turns are independent; sequential ones follow each other."""

    first: Literal["simultaneous", "sequential"] = "simultaneous"
    later: Literal["simultaneous", "sequential"] = "simultaneous"


class Sees(_Strict):
    """What a debater reads from the second round on (under sequential talk with ``latest``: from the second turn)."""

    peers: Literal["last_round", "latest", "none"] = "last_round"
    """``last_round``: the others' stances of the round before (Eq. 4). ``latest``: the newest stance of each other
    debater, this round's where it has spoken already; needs sequential talk."""
    own: Literal["last_round", "none"] = "last_round"
    """The debater's own stance of the round before."""
    anonymous: bool = False
    """Show peers without their names."""


class Protocol(_Strict):
    """One debate protocol. Unknown keys are refused; the defaults are MADKE's reference settings."""

    source: str
    """The paper or code that the variant follows."""
    debaters: Annotated[int, Field(ge=1)] | tuple[Debater, ...] = 2
    """A count, or the list of them (Wang et al., section 4.4: 2)."""
    knowledge: Knowledge | None = Knowledge()
    """None, or ``none``, debates without a pool."""
    rounds: int = Field(default=3, ge=1)
    """At most this many (section 4.4: 3)."""
    talk: Talk = Talk()
    sees: Sees = Sees()
    temperature: float = Field(default=0.5, ge=0)
    """Sampling temperature of every role (section 4.4: 0.5)."""
    max_tokens: int = Field(default=1024, ge=1)
    """Completion tokens per call. Not stated in the paper."""
    stop_strings: tuple[str, ...] = ()
    """Strings that end a completion."""
    stop: Literal["never", "judge", "agreement"] = "judge"
    """When the debate ends before its last round: when the judge finds consensus (Algorithm 1, line 14), when all
    parsed answers agree under the task's matcher, or never."""
    finish: Literal["summarizer", "majority", "only"] = "summarizer"
    """How the answer is taken from the last round: a summarizer (Eq. 6), the answer most debaters hold (ties: the
    earliest debater's), or the only debater's."""

    @field_validator("knowledge", mode="before")
    @classmethod
    def _none_is_none(cls, value: Any) -> Any:
        return None if value == "none" else value

    @field_validator("debaters")
    @classmethod
    def _some_distinct(cls, value: int | tuple[Debater, ...]) -> int | tuple[Debater, ...]:
        if isinstance(value, tuple):
            names = [debater.name for debater in value]
            if not names or len(set(names)) < len(names):
                raise ValueError("debaters must be a count or a list of at least one, with distinct names")
            if reserved := set(names) & {"judge", "summarizer"}:
                raise ValueError(f"a debater cannot be called {reserved.pop()!r}")
        return value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.sees.peers == "latest" and "sequential" not in (self.talk.first, self.talk.later):
            raise ValueError("sees.peers = latest needs talk.first or talk.later = sequential")
        if self.talk.first == "sequential" and self.sees.peers == "last_round":
            raise ValueError("talk.first = sequential needs sees.peers = latest: in round 1 no round was before")
        if self.finish == "only" and len(self.cast) != 1:
            raise ValueError(f"finish = only needs exactly one debater, found {len(self.cast)}")
        if self.stop != "never" and len(self.cast) < 2:
            raise ValueError(f"stop = {self.stop} needs at least two debaters: one cannot agree with itself")
        return self

    @property
    def cast(self) -> tuple[Debater, ...]:
        """The debaters, named ``Debater 1``, ``Debater 2``, ... where only a count is given."""
        if isinstance(self.debaters, int):
            return tuple(Debater(name=f"Debater {number}") for number in range(1, self.debaters + 1))
        return self.debaters

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of everybody who may be called: the debaters, then the judge and the summarizer if they play."""
        names = [debater.name for debater in self.cast]
        names += ["judge"] if self.stop == "judge" else []
        names += ["summarizer"] if self.finish == "summarizer" else []
        return tuple(names)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that need a template, in the order in which they happen."""
        stages = ["select"] if self.knowledge and self.knowledge.select == "adaptive" else []
        stages += ["speak"]
        stages += ["reply"] if self.rounds > 1 or self.talk.first == "sequential" else []
        stages += ["judge"] if self.stop == "judge" else []
        stages += ["summarize"] if self.finish == "summarizer" else []
        return tuple(stages)
