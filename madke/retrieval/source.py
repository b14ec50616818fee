"""Query built-in and user-defined sources, whose ``search`` is a plain function or a coroutine, alone or fused."""

import asyncio
import inspect
import logging
import threading
from collections import ChainMap
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage, Source
from madke.core.registry import import_object
from madke.retrieval.indexes.index_folder import StoredPassage
from madke.retrieval.ranking import MIN_DEPTH, Method, fuse

_log = logging.getLogger(__name__)

T = TypeVar("T")


def search_source(source: Source, queries: Sequence[str], k: int) -> list[Hits]:
    """Call the source's ``search``; a coroutine runs in another event loop, and the calling thread waits for it."""
    return _result(source.search(queries, k))


def ask_source(source: Source, queries: Sequence[str], k: int) -> list[Hits]:
    """The source's result for each query; an exception (except UserError) or a wrong count fails all of them."""
    try:
        rankings = [_with_source(hits, source.name) for hits in search_source(source, queries, k)]
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - a bug in a user's source loses its passages, not the batch
        return [Hits(error=f"{type(error).__name__}: {error}")] * len(queries)
    if len(rankings) != len(queries):
        return [Hits(error=f"search returned {len(rankings)} results for {len(queries)} queries")] * len(queries)
    return rankings


def served_by(source: Source) -> str:
    """What serves the source: its description, plus its fingerprint if the description does not contain it."""
    fingerprint = getattr(source, "fingerprint", None)
    if fingerprint is None:
        _no_fingerprint(source.name, source.description)
        return source.description
    return source.description if fingerprint in source.description else f"{source.description} ({fingerprint})"


def close_sources(sources: Iterable[Source]) -> None:
    """Close the sources that have ``aclose``."""
    for source in sources:
        if aclose := getattr(source, "aclose", None):
            _result(aclose())


class NamedSource:
    """A source under the name that it has in a run; one search at a time, since it need not be thread-safe."""

    def __init__(self, source: Source, name: str) -> None:
        self.name = name
        self.description = self.fingerprint = served_by(source)
        self._source = source
        self._searching = threading.Lock()

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The source's results; each passage's ``source`` is this name."""
        with self._searching:
            return [_with_source(hits, self.name) for hits in search_source(self._source, queries, k)]

    def aclose(self) -> None:
        """Close the source."""
        close_sources([self._source])


def own_source(code: str, name: str) -> Source:
    """The source that ``module:object`` is, or that it returns when called without arguments; UserError if none."""
    failed = "imported"
    try:
        value = import_object(code)
        if callable(value) and not _is_source(value):
            failed = "created"
            value = value()
    except UserError:
        raise
    except Exception as error:  # the user's code
        raise UserError(f"source {code!r} cannot be {failed}: {type(error).__name__}: {error}") from error
    if not _is_source(value):
        raise UserError(f"source {code!r}: expected an object with name, description and search, found {value!r}")
    return NamedSource(value, name)


def _is_source(value: Any) -> bool:
    # A class also has the attribute search, but only an instance is a source.
    return not isinstance(value, type) and all(hasattr(value, part) for part in ("name", "description", "search"))


def _with_source(hits: Hits, name: str) -> Hits:
    if not isinstance(hits, Hits):
        raise TypeError(f"search returned a {type(hits).__name__} for a query; expected madke.Hits")
    if all(passage.source == name for passage in hits.passages):
        return hits
    return replace(hits, passages=tuple(replace(passage, source=name) for passage in hits.passages))


@cache
def _no_fingerprint(name: str, description: str) -> None:
    _log.warning("source %s (%s) has no fingerprint: a run cannot detect that it changed", name, description)


def _result(value: T | Awaitable[T]) -> T:
    if not inspect.isawaitable(value):
        return value

    async def awaited() -> T:
        return await value

    future = asyncio.run_coroutine_threadsafe(awaited(), source_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def source_loop() -> asyncio.AbstractEventLoop:
    """One loop, in its own thread, for all searches: a source's connections belong to the loop that opened them."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="madke-sources", daemon=True).start()
    return loop


def hits_of(source: str, passages: Iterable[tuple[StoredPassage, float]]) -> Hits:
    """The passages with their scores, in order of rank."""
    return Hits(
        passages=tuple(
            Passage(source=source, key=key, title=title, text=text, score=score, rank=rank)
            for rank, ((key, title, text), score) in enumerate(passages)
        )
    )


class HybridSource:
    """The fusion (see :func:`madke.retrieval.ranking.fuse`) of the results of several sources.

    Two passages are the same if both their keys and their words are equal: sources over one corpus agree on both, and
    different corpora may use the same keys. A query that fails in one source fails here: half a fusion would be
    another retriever.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        name: str,
        fusion: Method = "weighted",
        weights: Sequence[float] | None = None,
    ) -> None:
        self.name = name
        method = "rank fusion" if fusion == "rrf" else "weighted sum"
        shown = [f"{weight:g} x " for weight in weights] if weights else [""] * len(sources)
        self.description = self.fingerprint = f"{method} of " + " and ".join(
            f"{times}{served_by(source)}" for times, source in zip(shown, sources, strict=True)
        )
        self._sources = tuple(sources)
        self._fusion = fusion
        self._weights = weights

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The top ``k`` passages for each query; ties go to the earlier source."""
        rankings = [search_source(source, queries, max(k, MIN_DEPTH)) for source in self._sources]
        return [self._fuse(hits, k) for hits in zip(*rankings, strict=True)]

    def aclose(self) -> None:
        """Close the parts."""
        close_sources(self._sources)

    def _fuse(self, rankings: Sequence[Hits], k: int) -> Hits:
        errors = [hits.error for hits in rankings if hits.error is not None]
        if errors:
            return Hits(error="; ".join(errors))
        by_identity = [{_identity(passage): passage for passage in hits.passages} for hits in rankings]
        passages = ChainMap(*by_identity)  # of the first source that found it
        by_score = [{identity: passage.score for identity, passage in one.items()} for one in by_identity]
        best = list(fuse(by_score, self._fusion, self._weights).items())[:k]
        fused = (
            replace(passages[identity], source=self.name, score=score, rank=rank)
            for rank, (identity, score) in enumerate(best)
        )
        return Hits(passages=tuple(fused))


def _identity(passage: Passage) -> tuple[str, str]:
    return passage.key, " ".join(passage.text.split())
