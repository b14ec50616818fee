"""The records in which a protocol's settings are written, and what names debaters and stages may have."""

import re
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from madke.engine.parse.answer import Marker

NON_DEBATERS = ("judge", "summarizer")
STAGES = ("select", "speak", "reply", "reflect", "digest", "judge", "extract", "pick", "summarize")
"""The built-in stages; a debater's ``prepare`` and remarks of other roles name further ones."""
MAX_DEBATERS = 200

_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f:\u2028\u2029]{1,80}")
RESERVED = {*NON_DEBATERS, "you", "anotheragent"}
"""Keys of names that no debater can have: of other roles, and those by which prompts call debaters without names."""
Count = Annotated[int, Field(ge=1, strict=True)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Topology = str | tuple[tuple[bool, ...], ...]
AgreementShare = Annotated[float, Field(gt=0.5, le=1)]
Sizes = Annotated[tuple[Count, ...], Field(min_length=1)]

Talk = Literal["simultaneous", "sequential", "sequential_later"]
"""``simultaneous``: the turns of a round do not read each other. ``sequential``: one after another, each reads those
before it. ``sequential_later``: so from round 2 on."""
JudgeAsked = Literal["always", "in_doubt"]
"""When the judge is asked. ``in_doubt``: not where the task's matcher finds all answers the same, values that differ
(two numbers, yes and no), or a missing answer."""


def is_debater_name(name: str) -> bool:
    """Whether a text can name a debater: one line with a letter or digit and no colon, which ends names in prompts."""
    return bool(_NAME.fullmatch(name) and role_key(name))


def role_key(role: str) -> str:
    """The key by which role names are compared: letters and digits, without case."""
    return re.sub(r"[\W_]+", "", role.casefold())


class Knowledge(BaseModel, frozen=True, extra="forbid"):
    """How a question's pool is made, and which of its passages a debater gets."""

    sources: tuple[str, ...] = ()
    """Names of the sources whose passages form the pool, in this order (Wang et al., Eq. 1). None: there is no pool."""
    per_source: Count | dict[str, Count] = 5
    """Passages kept from each source, after duplicates are removed: one number for all, or source -> number."""
    fusion: Literal["none", "rrf", "weighted"] = "none"
    """``none``: the sources' passages one source after another (Eq. 1). ``rrf``, ``weighted``: one ranking, by
    reciprocal ranks or by scores; a passage of several sources is listed once, as the first of them returned it."""
    weights: dict[str, _Weight] | None = None
    """``rrf`` and ``weighted``: source -> weight of its ranking; the default is 1."""
    max_passages: Count | None = None
    """``rrf`` and ``weighted``: passages kept from the merged ranking; None keeps all."""
    select: Literal["adaptive", "all", "one_each", "views", "none"] = "all"
    """``adaptive``: each debater chooses before every turn (Eq. 2). ``all``: every debater gets the whole pool.
    ``one_each``: the first debater gets only passage 0, the second passage 1, ...; a question with fewer passages has
    fewer debaters. ``views``: the first debater reads on from passage 0, the second from passage 1, ..., after the last
    passage from passage 0 again, and as many as ``view_share`` says. ``none``: the pool is recorded in the transcript,
    but no debater sees it."""
    view_share: Annotated[float, Field(gt=0, le=1, exclude_if=lambda value: value == 0.6)] = 0.6
    """``select: views``: the share of the pool in one view, rounded up. 1: the whole pool, in another order."""
    max_selected: Count = 3
    """Passages that one adaptive selection may choose (Prompt 3.1)."""
    per_debater_sources: dict[str, tuple[str, ...]] | None = None
    """Debater -> the sources it may see; the other debaters see all. Passages keep their pool numbers."""
    allow_search: bool = False
    """A debater may request one search with each selection. The passages found are added to the pool."""

    @field_validator("sources", mode="before")
    @classmethod
    def _no_sources(cls, value: Any) -> Any:
        return () if value is None or value == "none" else value

    def count(self, source: str) -> int:
        """How many passages of a source are kept."""
        return self.per_source if isinstance(self.per_source, int) else self.per_source[source]

    @property
    def pool_limit(self) -> int:
        """The largest number of passages that a pool can hold before debaters search."""
        kept = sum(map(self.count, self.sources))
        return kept if self.max_passages is None else min(kept, self.max_passages)

    @model_validator(mode="after")
    def _pool_makes_sense(self) -> Self:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError("sources names a source twice")
        if isinstance(self.per_source, dict) and (missing := [s for s in self.sources if s not in self.per_source]):
            raise ValueError(f"per_source has no number for source {missing[0]!r}")
        for name in ("weights", "max_passages"):
            if self.fusion == "none" and getattr(self, name) is not None:
                raise ValueError(f"{name} needs fusion = rrf or weighted")
        if unknown := [source for source in self.weights or {} if source not in self.sources]:
            raise ValueError(f"weights: {unknown[0]!r} is not among the sources")
        if self.allow_search and self.select != "adaptive":
            raise ValueError("allow_search needs select = adaptive: selections request the search")
        for source in (source for sources in (self.per_debater_sources or {}).values() for source in sources):
            if source not in self.sources:
                raise ValueError(f"per_debater_sources: {source!r} is not among the sources")
        return self


class Debater(BaseModel, frozen=True, extra="forbid"):
    """One debater with settings of its own."""

    name: str
    prompt: str | None = Field(default=None, pattern=r"^[\w-]+$")
    """Its templates are ``<stage>.<prompt>.j2`` where the folder has them, else ``<stage>.j2``."""
    persona: str = ""
    """One or two sentences about who it is, for its system prompt."""
    model: str | None = None
    """A model name (``openai/...``); None: the run's model."""
    temperature: Temperature | None = None
    """None: the protocol's temperature."""
    prepare: tuple[str, ...] = ()
    """Stages called once before its first turn; templates get their texts as ``prepared.<stage>``."""


class Settings(Knowledge, frozen=True, extra="forbid"):
    """The parameters of every debate: its cast, its pool, and how its calls are made. Unknown names are refused."""

    source: str = ""
    """The paper or code that the protocol follows."""
    debaters: Annotated[int, Field(ge=1, le=MAX_DEBATERS, strict=True)] | tuple[Debater, ...] = 2
    """A count, or a list (Wang et al., section 4.4: 2)."""
    marker: Marker = "plain"
    """How replies state the answer. ``plain``: "The answer is X." ``brackets``, ``parentheses``, ``boxed``: ``[X]``,
    ``(X)``, ``\\boxed{X}`` in that sentence. ``alone``: the answer and nothing else. ``text``: free text."""
    examples: Annotated[int, Field(ge=0, le=8)] = 0
    """The number of the task's worked examples that a first stance sees, as earlier turns of the chat."""
    temperature: Temperature = 0.5
    """Sampling temperature of every role (section 4.4: 0.5)."""
    max_tokens: Count = 1024
    """Completion tokens per call. Not stated in the paper."""
    stop_strings: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts at which a reply ends."""
    cite: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether debaters with passages are asked to quote the one that shows their answer. Tasks may ask for it too."""
    structured: Annotated[
        Literal["auto", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML reads off as false
        Field(exclude_if=lambda value: value == "auto"),
    ] = "auto"
    """Whether selections, verdicts and final answers are asked for with a JSON schema. ``auto``: where the endpoint
    takes one. ``off``: never."""
    overflow: Literal["fail", "drop"] = "fail"
    """For a prompt that is too long for the model. ``fail``: the call fails. ``drop``: the oldest stances of others,
    then the lowest-ranked passages are left out until it fits, and this is recorded. Judge and summarizer always get
    the last round's stances."""
    first_round_given: bool = False
    """The first round's stances are given as input."""
    early_stop: Annotated[
        Literal["never", "judge", "agreement", "majority", "stability", "budget"] | None,
        Field(exclude_if=lambda value: value is None),
    ] = None
    """What ends the rounds early, instead of what the protocol itself does. ``never``: all rounds. ``judge``: the judge
    finds the debate settled. ``agreement``: all answers are the same. ``majority``: more than half are.
    ``stability``: no answer has changed. ``budget``: ``token_budget`` is used up."""
    token_budget: Annotated[int | None, Field(ge=1, exclude_if=lambda value: value is None)] = None
    """``early_stop: budget``: prompt and completion tokens of one question."""

    @field_validator("debaters")
    @classmethod
    def _valid_names(cls, value: int | tuple[Debater, ...]) -> int | tuple[Debater, ...]:
        if isinstance(value, tuple):
            if not 1 <= len(value) <= MAX_DEBATERS:
                raise ValueError(f"debaters must be a count or a list of 1 to {MAX_DEBATERS} debaters")
            names = [debater.name for debater in value]
            if wrong := [name for name in names if not is_debater_name(name)]:
                raise ValueError(f"a debater's name must be one line with a letter or digit and no colon: {wrong[0]!r}")
            keys = [role_key(name) for name in names]
            if len(set(keys)) < len(keys):
                raise ValueError("debaters must have distinct names; case, spaces, hyphens and underscores are ignored")
            if reserved := set(keys) & RESERVED:
                raise ValueError(f"a debater cannot have the reserved name {reserved.pop()!r}")
        return value

    @model_validator(mode="after")
    def _debates_make_sense(self) -> Self:
        if (self.early_stop == "budget") != (self.token_budget is not None):
            raise ValueError("early_stop = budget and token_budget must be set together; one of them is missing")
        if self.cite and self.marker == "alone":
            raise ValueError("cite = true does not work with marker = alone: its replies hold only the answer")
        names = [debater.name for debater in self.cast]
        for stage in (stage for debater in self.cast for stage in debater.prepare if stage in STAGES):
            raise ValueError(f"debaters.prepare: {stage!r} is the name of a built-in stage; choose another name")
        if self.sources and self.select == "one_each" and len(names) < self.pool_limit:
            problem = f"a debater for each of up to {self.pool_limit} passages, found {len(names)}"
            raise ValueError(f"select = one_each needs {problem}")
        for name in (name for name in self.per_debater_sources or {} if name not in names):
            raise ValueError(f"per_debater_sources: there is no debater {name!r}")
        return self

    @property
    def knowledge(self) -> Knowledge | None:
        """How the pool is made, and who gets what of it; None without one."""
        return self if self.sources else None

    @property
    def cast(self) -> tuple[Debater, ...]:
        """The debaters, named ``Debater 1``, ``Debater 2``, ... if only a count is given."""
        return _numbered_debaters(self.debaters) if isinstance(self.debaters, int) else self.debaters

    @property
    def needs_search(self) -> bool:
        """Whether debaters may search, so that a pool alone is not enough."""
        return bool(self.sources) and self.allow_search


@cache
def _numbered_debaters(count: int) -> tuple[Debater, ...]:
    # Cached: every call of every debate needs the cast.
    return tuple(Debater(name=f"Debater {number}") for number in range(1, count + 1))


class Reads(BaseModel, frozen=True, extra="forbid"):
    """What a debater reads in its turn, as soon as somebody has spoken."""

    peers: Literal["last_round", "latest", "history", "answers", "none"] = "last_round"
    """``last_round``: the others' stances of the previous round (Eq. 4). ``latest``: the newest stance of each, from
    this round if it has spoken. ``history``: all, in order of time. ``answers``: only the previous round's answers."""
    own: Literal["last", "history", "none"] = "last"
    """The debater's own newest stance, or all of its own. Selection always sees its newest (Eq. 2)."""
    topology: Topology = "full"
    """Which debaters a debater may read: ``full`` (all), ``ring`` (the one before it and the one after it, in a
    circle), ``star`` (the first reads all, the others only the first), ``sparse(k)`` (the next k, in a circle), or a
    matrix of 1 and 0, a row per reader. A ring in one direction is ``sparse(1)``, or for three debaters the matrix
    ``[[0, 1, 0], [0, 0, 1], [1, 0, 0]]``: the first reads the second, and so on."""
    anonymous: bool = False
    """Whether peers are shown without names."""
    grouped: bool = False
    """Whether peers are also grouped by answer, for the templates' ``groups``."""
    chat: bool = False
    """Whether the history is shown as chat messages, the reader's own turns as ``assistant``, the others' as
    ``user``."""

    @property
    def nothing(self) -> bool:
        """Whether a turn depends on no earlier one."""
        return (self.peers, self.own) == ("none", "none")

    @model_validator(mode="after")
    def _chat_shows_all(self) -> Self:
        if self.chat and (self.peers, self.own) != ("history", "history"):
            raise ValueError("reads.chat needs reads.peers and reads.own = history")
        return self


class Order(BaseModel, frozen=True, extra="forbid"):
    """The order in which a debater reads the others, and in which they speak if talk is sequential (Zhang et al.)."""

    by: Literal["fixed", "random", "truth_first", "truth_last", "madc"] = "fixed"
    """``random``: shuffled in every round, seeded. ``truth_first``, ``truth_last``: by the gold answers, for analysis
    only. ``madc``: ascending path consistency (Eq. 2). ``order: madc`` is short for ``order: {by: madc}``."""
    score: Literal["global", "per_reader"] = "global"
    """``madc``: one order for all (Algorithm 1), or one per reader that ignores its own answer (the released code)."""
    decay: float = Field(default=1.0, gt=0, le=1)
    """``madc``: multiplies a debater's score for each earlier round in which it was read last (power decay)."""
    rotate_personas: bool = False
    """Personas move to the next debater in every round (dynamic role switching)."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"by": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _madc_alone_scores(self) -> Self:
        if self.by != "madc" and (self.decay, self.score) != (1, "global"):
            raise ValueError("order.decay and order.score need order.by = madc")
        if self.score == "per_reader" and self.decay != 1:
            raise ValueError("order.decay needs order.score = global")
        return self


def readable_by(topology: Topology, here: int, n: int) -> set[int] | None:
    """Indexes (0 .. n - 1) of the debaters that debater ``here`` may read; None if the topology does not fit n."""
    if not isinstance(topology, str):
        square = len(topology) == n and all(len(row) == n for row in topology)
        return {place for place, reads in enumerate(topology[here]) if reads} if square else None
    if topology == "ring":
        return {(here - 1) % n, (here + 1) % n}
    if topology == "full" or (topology == "star" and here == 0):
        return set(range(n))
    sparse = re.fullmatch(r"sparse\((\d{1,3})\)", topology)
    if sparse and int(sparse[1]):
        return {(here + step) % n for step in range(1, int(sparse[1]) + 1)}
    return {0} if topology == "star" else None
