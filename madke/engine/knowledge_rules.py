"""What a protocol says about retrieved knowledge."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_Count = Annotated[int, Field(ge=1, strict=True)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class Knowledge(BaseModel):
    """What of the retrieved knowledge the debaters get."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: Annotated[tuple[str, ...], Field(min_length=1)] = ("wiki", "google")
    """Names of the sources that a pool is merged from, in this order (Wang et al., Eq. 1)."""
    per_source: _Count | dict[str, _Count] = 5
    """Passages kept of each source, after duplicates are removed: one number for all, or source -> number."""
    fusion: Literal["none", "rrf", "weighted"] = "none"
    """``none``: the sources' passages stand one source after the other (Eq. 1). ``rrf`` and ``weighted``: they become
    one ranking, by reciprocal ranks or by scores; a passage that several sources found stands there once, as the
    first of them gave it."""
    weights: dict[str, _Weight] | None = None
    """``rrf`` and ``weighted``: source -> how much its ranking counts; who is not named counts 1."""
    most: _Count | None = None
    """``rrf`` and ``weighted``: passages kept of the one ranking; None keeps all that ``per_source`` lets in."""
    select: Literal["adaptive", "all", "one_each", "none"] = "adaptive"
    """``adaptive``: each debater chooses before every turn (Eq. 2). ``all``: everyone gets the whole pool.
    ``one_each``: the first debater gets passage 0 alone, the second passage 1, and so on; a question with fewer
    passages has fewer debaters. ``none``: the pool is kept in the transcript, but nobody sees it."""
    max_selected: int = Field(default=3, ge=1, strict=True)
    """How many passages one adaptive selection may choose (Prompt 3.1)."""
    per_debater_sources: dict[str, tuple[str, ...]] | None = None
    """Debater -> the sources it may see; who is not named sees all. Numbers stay those of the shared pool."""
    requery: bool = False
    """A debater may ask for one search with each selection. What it finds joins the pool, with its provenance."""

    def count(self, source: str) -> int:
        """How many passages of a source are kept."""
        return self.per_source if isinstance(self.per_source, int) else self.per_source[source]

    @property
    def most_passages(self) -> int:
        """How many passages a pool has at most, before debaters search."""
        let_in = sum(map(self.count, self.sources))
        return let_in if self.most is None else min(let_in, self.most)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError("knowledge.sources names one source twice")
        if isinstance(self.per_source, dict) and (missing := [s for s in self.sources if s not in self.per_source]):
            raise ValueError(f"knowledge.per_source says nothing about source {missing[0]!r}")
        for name in ("weights", "most"):
            if self.fusion == "none" and getattr(self, name) is not None:
                raise ValueError(f"knowledge.{name} needs knowledge.fusion = rrf or weighted")
        if strange := [source for source in self.weights or {} if source not in self.sources]:
            raise ValueError(f"knowledge.weights: {strange[0]!r} is not among the sources")
        if self.requery and self.select != "adaptive":
            raise ValueError("knowledge.requery needs knowledge.select = adaptive: a search is asked for there")
        return self
