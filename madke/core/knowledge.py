"""Retrieved passages, pools of them, and the interface of sources."""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One retrieved text with its provenance."""

    source: str
    key: str
    """Its id inside that source (a corpus id, a URL)."""
    title: str
    text: str
    score: float
    """Comparable only within one source and query."""
    rank: int
    """0-based, within the source's result."""
    url: str | None = None
    retrieved_at: str | None = None
    """ISO 8601, UTC; set for sources whose results change over time."""
    date: str | None = None
    """When it was published, as the source writes it."""

    @property
    def dedup_keys(self) -> set[str]:
        """The passage's words without punctuation, and its URL. Passages that share a key are duplicates."""
        words = " ".join(re.findall(r"\w+", self.text.casefold()))
        return {f"text {words or self.text}"} | ({f"url {self.url}"} if self.url else set())


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits:
    """What one source returned for one query: passages in rank order, or the reason for a failure."""

    passages: tuple[Passage, ...] = ()
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KnowledgePool:
    """The numbered passages of one question: ``passages[n]`` has the number ``n`` in every prompt and report."""

    passages: tuple[Passage, ...] = ()
    partial: Mapping[str, str] = field(default_factory=dict)
    """Source name -> why it failed for this question."""


EMPTY_POOL = KnowledgePool()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCounts:
    """How one source answered, counted in questions."""

    asked: int = 0
    found: int = 0
    """Questions with at least one passage."""
    failed: int = 0
    reason: str | None = None
    """Reason of the first failure."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            asked=self.asked + other.asked,
            found=self.found + other.found,
            failed=self.failed + other.failed,
            reason=self.reason or other.reason,
        )


class Source(Protocol):
    """Anything that turns queries into ranked passages.

    ``search`` may be a coroutine function. A source may also have ``fingerprint: str``, which changes when its content
    does, and ``aclose()``.
    """

    name: str
    description: str
    """The index or service behind it; written into pool files."""

    def search(self, queries: Sequence[str], k: int) -> list[Hits] | Awaitable[list[Hits]]:
        """The best ``k`` passages for each query, in their order; ``Hits(error=...)`` for one that fails."""
