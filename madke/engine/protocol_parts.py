"""The parts of a protocol: the mappings inside a ``protocol.yaml``, and what names debaters and stages may have."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, field_validator, model_validator

NON_DEBATERS = ("judge", "summarizer")
RETRIEVER = "retriever"
"""The role that writes queries and orders passages before the debate."""
STAGES = ("select", "speak", "reply", "reflect", "digest", "judge", "extract", "pick", "summarize")
"""The built-in stages; ``prepare`` names further ones."""
MAX_DEBATERS = 200

_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f:\u2028\u2029]{1,80}")
RESERVED = {*NON_DEBATERS, "you", "anotheragent"}
"""Keys of names that no debater can have: of other roles, and those by which prompts call debaters without names."""
Count = Annotated[int, Field(ge=1, strict=True)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Topology = str | tuple[tuple[bool, ...], ...]


def is_debater_name(name: str) -> bool:
    """Whether a text can name a debater: one line with a letter or digit and no colon, which ends names in prompts."""
    return bool(_NAME.fullmatch(name) and role_key(name))


def role_key(role: str) -> str:
    """The key by which role names are compared: letters and digits, without case."""
    return re.sub(r"[\W_]+", "", role.casefold())


class StopRule(NamedTuple):
    """What is known of a stop rule before a debate. The rule itself is the function of its name in ``ending``."""

    earliest: int | None
    """The first round after which it can end a debate; None: it ends none early."""
    compares_answers: bool = False
    """Whether it compares answers, so that they cannot be texts."""


STOP_RULES: Mapping[str, StopRule] = {
    "never": StopRule(None),
    "judge": StopRule(1),
    "agreement": StopRule(1, compares_answers=True),
    "agreement_then_judge": StopRule(1, compares_answers=True),
    "satisfied": StopRule(1),
    "stability": StopRule(2, compares_answers=True),
    "budget": StopRule(1),
}
"""``Protocol.stop`` -> its rule."""


class FinishRule(NamedTuple):
    """What is known of a finish rule before a debate. The rule itself is the function of its name in ``ending``."""

    compares_answers: bool
    """Whether it compares answers, or extracts a short one, so that they cannot be texts."""


FINISH_RULES: Mapping[str, FinishRule] = {
    "summarizer": FinishRule(compares_answers=False),
    "majority": FinishRule(compares_answers=True),
    "agreed_or_summarizer": FinishRule(compares_answers=True),
    "judge_extract": FinishRule(compares_answers=True),
    "judge_pick": FinishRule(compares_answers=False),
    "convergence": FinishRule(compares_answers=False),
    "rerank": FinishRule(compares_answers=False),
    "weighted": FinishRule(compares_answers=True),
    "only": FinishRule(compares_answers=False),
}
"""``Protocol.finish`` -> its rule."""


class Rerank(BaseModel, frozen=True, extra="forbid", serialize_by_alias=True):
    """A second ranking of retrieved passages by a model that reads them together with the question."""

    model: Annotated[str, Field(min_length=1)]
    """``hf/NAME_OR_PATH``: a cross-encoder in this process. ``llm``: one call of the role ``retriever`` orders all.
    Otherwise an endpoint with ``/rerank``: a name in ``models.yaml``, or ``NAME@URL``."""
    candidates: Count = Field(default=100, alias="from")  # "from" is a keyword of Python.
    """How many passages of each source are ranked, after duplicates are removed."""
    keep: Count | None = None
    """How many passages the pool keeps, over all sources. None: the sum of ``per_source``."""


class Knowledge(BaseModel, frozen=True, extra="forbid"):
    """Which retrieved passages the debaters get."""

    sources: Annotated[tuple[str, ...], Field(min_length=1)] = ("wiki", "google")
    """Names of the sources whose passages form the pool, in this order (Wang et al., Eq. 1)."""
    per_source: Count | dict[str, Count] = 5
    """Passages kept from each source, after duplicates are removed: one number for all, or source -> number."""
    query: Annotated[Literal["none", "rewrite", "decompose"], Field(exclude_if=lambda value: value == "none")] = "none"
    """``rewrite``: the role ``retriever`` also words the question as a search query. ``decompose``: it also asks for
    single facts. The question itself is always searched; the rankings are joined by reciprocal ranks."""
    rerank: Annotated[Rerank | None, Field(exclude_if=lambda value: value is None)] = None
    """A second ranking, over all sources together. ``rerank: MODEL`` is short for ``rerank: {model: MODEL}``."""
    fusion: Literal["none", "rrf", "weighted"] = "none"
    """``none``: the sources' passages one source after another (Eq. 1). ``rrf``, ``weighted``: one ranking, by
    reciprocal ranks or by scores; a passage of several sources is listed once, as the first of them returned it."""
    weights: dict[str, _Weight] | None = None
    """``rrf`` and ``weighted``: source -> weight of its ranking; the default is 1."""
    max_passages: Count | None = None
    """``rrf`` and ``weighted``: passages kept from the merged ranking; None keeps all."""
    select: Literal["adaptive", "all", "one_each", "views", "none"] = "adaptive"
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

    @field_validator("rerank", mode="before")
    @classmethod
    def _short_rerank(cls, value: Any) -> Any:
        return None if value == "none" else {"model": value} if isinstance(value, str) else value

    @property
    def needs_retriever(self) -> bool:
        """Whether a chat model takes part in the retrieval."""
        return self.query != "none" or (self.rerank is not None and self.rerank.model == "llm")

    @property
    def staged(self) -> bool:
        """Whether pools need more than a search with the question."""
        return self.query != "none" or self.rerank is not None

    def count(self, source: str) -> int:
        """How many passages of a source are kept without a reranker."""
        return self.per_source if isinstance(self.per_source, int) else self.per_source[source]

    @property
    def pool_limit(self) -> int:
        """The largest number of passages that a pool can hold before debaters search."""
        kept = sum(map(self.count, self.sources))
        if self.rerank is not None:
            return self.rerank.keep or kept
        return kept if self.max_passages is None else min(kept, self.max_passages)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError("knowledge.sources names a source twice")
        if isinstance(self.per_source, dict) and (missing := [s for s in self.sources if s not in self.per_source]):
            raise ValueError(f"knowledge.per_source has no number for source {missing[0]!r}")
        for name in ("weights", "max_passages"):
            if self.fusion == "none" and getattr(self, name) is not None:
                raise ValueError(f"knowledge.{name} needs knowledge.fusion = rrf or weighted")
        if unknown := [source for source in self.weights or {} if source not in self.sources]:
            raise ValueError(f"knowledge.weights: {unknown[0]!r} is not among the sources")
        if self.fusion != "none" and self.rerank is not None:
            raise ValueError("knowledge.rerank makes one ranking over all sources; leave out knowledge.fusion")
        if self.allow_search and self.select != "adaptive":
            raise ValueError("knowledge.allow_search needs knowledge.select = adaptive: selections request the search")
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


class Talk(BaseModel, frozen=True, extra="forbid"):
    """When debaters speak."""

    first: Literal["simultaneous", "sequential"] = "simultaneous"
    later: Literal["simultaneous", "sequential", "simultaneous_with_summary"] = "simultaneous"
    """``simultaneous_with_summary``: debaters read a summary of the debate instead of each other (ChatEval)."""
    groups: Annotated[tuple[Count, ...] | None, Field(min_length=1, exclude_if=lambda value: value is None)] = None
    """How many debaters speak in each round, each of them in one round only: with ``[3, 3, 1]`` the first three, the
    next three, the last. If nobody reads anybody, the groups are samples of one vote. None: all speak in each round."""


class Sees(BaseModel, frozen=True, extra="forbid"):
    """What a debater reads from the second round on (with sequential talk: from the second turn on)."""

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
    form: Literal["text", "chat"] = "text"
    """``chat``: the history as chat messages, the reader's own turns as ``assistant``, the others' as ``user``."""


class Order(BaseModel, frozen=True, extra="forbid"):
    """The order in which a debater reads the others, and in which they speak if talk is sequential (Zhang et al.)."""

    by: Literal["fixed", "random", "truth_first", "truth_last", "madc"] = "fixed"
    """``random``: shuffled in every round, seeded. ``truth_first``, ``truth_last``: by the gold answers, for analysis
    only. ``madc``: ascending path consistency (Eq. 2)."""
    score: Literal["global", "per_reader"] = "global"
    """``madc``: one order for all (Algorithm 1), or one per reader that ignores its own answer (the released code)."""
    decay: float = Field(default=1.0, gt=0, le=1)
    """``madc``: multiplies a debater's score for each earlier round in which it was read last (power decay)."""
    rotate_personas: bool = False
    """Personas move to the next debater in every round (dynamic role switching)."""


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
