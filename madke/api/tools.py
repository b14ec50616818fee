"""Functions around runs: scores, comparisons, pools and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke.api.batch import Run
from madke.core.knowledge import SourceCounts
from madke.indexing.build import build_index
from madke.runs.job import Data, Sources, questions_of, source_specs
from madke.runs.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from madke.report.comparison import Comparison
    from madke.scoring.scores import Scores

__all__ = ["build_index", "build_pools", "compare", "score"]


def score(run: Run | str | Path, *, grader: str | None = None, scorers: Mapping[str, str] | None = None) -> Scores:
    """Score a run and write its ``metrics.json``.

    Args:
        run: A run, or its directory.
        grader: A model that grades answers, by name.
        scorers: Name -> command of external scorers.

    Raises:
        UserError: It is not a run, or a grader or scorer failed.
    """
    from madke.scoring.scored import score_run

    return score_run(_path(run), grader=grader, scorers=scorers or {})


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare two or more runs over the questions that all of them hold, with paired tests.

    Raises:
        UserError: One is not a run, or they share no question.
    """
    from madke.report.comparison import compare_runs

    return compare_runs([_path(run) for run in runs])


def build_pools(
    questions: Data,
    out: str | Path,
    *,
    sources: Sources = "wiki,google",
    dataset: str | None = None,
    ids: str | None = None,
    limit: int | None = None,
    sample_seed: int | None = None,
    k: int = 10,
    query: str = "none",
    rerank: str | Mapping[str, Any] | None = None,
    model: str = "offline",
    options: RunOptions = DEFAULTS,
) -> dict[str, SourceCounts]:
    """Retrieve a pool of passages for every question, and write a pool file.

    ``questions``, ``dataset``, ``ids``, ``limit`` and ``sample_seed`` are as for :func:`madke.run`, ``sources`` as for
    :func:`madke.stream`; each source returns up to ``k`` passages. ``query`` and ``rerank`` are as in a protocol's
    ``knowledge``; ``model`` is the model of the role ``retriever``.

    Returns:
        Source name -> for how many questions it found passages, or failed.

    Raises:
        UserError: A source cannot be opened, or the file cannot be written.
    """
    from madke.engine.protocol import Knowledge
    from madke.knowledge.named import open_source
    from madke.runs.pool_stages import build_pool_file

    records = questions_of(questions, dataset=dataset, task=None, ids=ids, limit=limit, sample_seed=sample_seed)
    specs, own = source_specs(sources, ())
    opened = [open_source(name, own.get(name, spec)) for name, spec in specs.items()]
    knowledge = Knowledge.model_validate({"sources": tuple(specs), "query": query, "rerank": rerank})
    return build_pool_file(records, opened, k, Path(out), knowledge, model=model, options=options)


def _path(run: Run | str | Path) -> Path:
    return run.path if isinstance(run, Run) else Path(run)
