"""Build a pool file with its query stages and rerankings, outside a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from madke.core.knowledge import Source, SourceCounts
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.knowledge.pools import build_pools
from madke.llm import CallStore, close, open_model, read_models
from madke.runs.cast import has_endpoint
from madke.runs.options import DEFAULTS, RunOptions
from madke.runs.pool_stages import StageBuild, priced_models
from madke.runs.run_pools import depth
from madke.runs.runner import account


def calls_beside(out: Path) -> Path:
    """The call store of a pool file."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.calls.sqlite")


def build_pool_file(
    questions: Sequence[Question],
    sources: Sequence[Source],
    k: int,
    out: Path,
    knowledge: Knowledge,
    *,
    model: str = "offline",
    options: RunOptions = DEFAULTS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    on_stage: Callable[[int, int], None] = lambda done, total: None,
    signals: bool = False,
    **searching: Any,
) -> dict[str, SourceCounts]:
    """As :func:`madke.knowledge.pools.build_pools`, with the query stage and the reranker of ``knowledge``.

    Their calls are in :func:`calls_beside`, so the same call again makes no finished one again.

    Raises:
        UserError: A source, a model or a price is missing.
        Unfinished: A limit is reached, or the calls of a model all fail; ``out`` is then not written.
    """
    k = max(k, depth(knowledge))
    if not knowledge.staged:
        return build_pools(questions, sources, k, out, progress=progress, **searching)
    own = account(options)
    retriever = model if knowledge.needs_retriever else None
    own.budget.check([*filter(None, [retriever]), *priced_models([knowledge])])
    at = options.base_url if retriever and has_endpoint(retriever) else None
    opened = open_model(retriever, base_url=at, models=read_models(options.models_file)) if retriever else None
    found = out.with_name(f".{out.name}.found")
    counts = build_pools(questions, sources, k, found, progress=progress, **searching)
    build = StageBuild(wanted=(knowledge,), retriever=opened, sources=sources, k=k, options=options)
    seconds = None if own.until is None else own.until - time.monotonic()

    async def write() -> None:
        try:
            with CallStore(calls_beside(out)) as store:
                done = partial(on_stage, total=len(questions))  # type: ignore[call-arg]
                await build.write(
                    found, out, budget=own.budget, store=store, seconds=seconds, signals=signals, progress=done
                )
        finally:
            found.unlink()
            if opened is not None:
                await close(opened)

    asyncio.run(write())
    return counts
