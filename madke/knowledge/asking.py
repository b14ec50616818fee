"""Asking sources, in this process or by workers, which open the sources for themselves."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Source
from madke.knowledge.sources import open_spec
from madke.knowledge.sources.spec import SourceSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSource:
    """A source as it travels to workers."""

    name: str
    spec: SourceSpec
    """What they open; without names and relative paths (:func:`madke.indexing.named.resolve`)."""
    description: str
    """What serves it where the pools are built, fingerprint included; for workers it must be the same."""


def ask(source: Source, queries: Sequence[str], k: int) -> list[Hits]:
    """The source's answer to each query; an unexpected exception, or a wrong number of answers, fails them all.

    Raises:
        UserError: The source cannot work at all.
    """
    try:
        hits = source.search(queries, k)
    except UserError:
        raise
    except Exception as error:  # a source is a plug-in: its bug costs its passages, not the batch
        return [Hits(error=f"{type(error).__name__}: {error}")] * len(queries)
    if len(hits) != len(queries):
        return [Hits(error=f"it answered {len(hits)} of {len(queries)} queries")] * len(queries)
    return hits


def ask_remotely(sources: Sequence[RemoteSource], k: int, queries: Sequence[str]) -> dict[str, list[Hits]]:
    """Source name -> its answer to each query, as :func:`ask` gives it. Sources stay open with the process.

    Raises:
        UserError: A source cannot be opened here, or is another one than where the pools are built; the message names
            this machine.
    """
    return {source.name: ask(_opened(source), queries, k) for source in sources}


@cache
def _opened(source: RemoteSource) -> Source:
    try:
        opened = open_spec(source.name, source.spec)
    except UserError as error:
        raise UserError(
            f"{error} (on {platform.node()}, where a worker runs; what sources are made of must be at the same path on "
            "every node)"
        ) from None
    if opened.description != source.description:
        raise UserError(
            f"source {source.name!r} is {opened.description} on {platform.node()}, where a worker runs, and "
            f"{source.description} here; they must be the same"
        )
    return opened
