"""Build a pool file with its query stages and rerankings, outside a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from madke.concurrency import finished
from madke.core.knowledge import Source, SourceCounts
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.knowledge.pools import build_pools
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
    if not knowledge.staged:
        return build_pools(questions, sources, k, out, progress=progress, **searching)
    k = max(k, depth(knowledge))
    own = replace(account(options), calls=calls_beside(out))
    retriever = model if knowledge.needs_retriever else None
    own.budget.check([*filter(None, [retriever]), *priced_models([knowledge])])
    found = out.with_name(f".{out.name}.found")
    build = StageBuild(wanted=(knowledge,), retriever=retriever, sources=sources, k=k, options=options)

    counts: dict[str, SourceCounts] = {}
    work = build.write(
        found,
        out,
        own,
        signals=signals,
        progress=lambda done: on_stage(done, len(questions)),
        search=lambda: counts.update(build_pools(questions, sources, k, found, progress=progress, **searching)),
    )
    try:
        finished(work)
    finally:
        found.unlink(missing_ok=True)
    return counts
