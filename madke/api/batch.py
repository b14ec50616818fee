"""Batch runs: :func:`run` and :func:`arun`, the :class:`Run` that they return, and functions around runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from madke._util.concurrency import finished
from madke.core.errors import UserError, suggesting
from madke.core.events import Listener
from madke.core.knowledge import SourceCounts
from madke.core.registry import Scope
from madke.core.transcript import Transcript
from madke.data.formats import DatasetReader
from madke.engine.protocol_parts import Knowledge
from madke.knowledge.named import open_source, use_files
from madke.pools.pool_file import pool_records, sources_in
from madke.runs.directory import RunDirectory, read_transcripts
from madke.runs.job import (
    NOTHING,
    Data,
    Job,
    Model,
    Models,
    Sources,
    make_job,
    name_of_dataset,
    questions_of,
    source_specs,
)
from madke.runs.meter import Meter
from madke.runs.options import DEFAULTS, RunOptions
from madke.runs.runner import execute
from madke.runs.spec import RunSpec, read_spec
from madke.tasks.base import Task
from madke.variants import Variant

if TYPE_CHECKING:
    from madke.report.comparison import Comparison
    from madke.scoring.scores import Scores

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Run:
    """A run directory with its scores, transcripts and report. :func:`run` returns one; ``Run(Path("DIR"))`` opens one.

    ``run.failures`` counts the reasons why questions failed; ``transcript.final.error`` is the reason for one question.
    """

    path: Path
    meter: Meter | None = None
    """Counters of the run in this process; None for a run that was only opened."""
    scope: Scope = field(default_factory=Scope, compare=False)
    """The objects that the run was given, such as its task."""

    def __repr__(self) -> str:
        counts = ""
        if (meter := self.meter) is not None:
            counts = f", {meter.resumed + meter.done} of {meter.total} questions done, {meter.failed} failed"
        return f"Run({str(self.path)!r}{counts})"

    @property
    def spec(self) -> RunSpec:
        """The specification of the run, from ``run.json``."""
        return read_spec(self.path)

    @property
    def scores(self) -> Mapping[str, Any]:
        """Metric -> estimate: ``value``, ``low`` and ``high`` (a 95 % interval), ``n`` questions."""
        scores = self._scored
        own = {"correct": scores.correct} if scores.correct is not None else {}
        return {**own, **scores.metrics}

    @property
    def failures(self) -> Mapping[str, int]:
        """Why questions failed: reason -> number of questions, the most common first."""
        return self._scored.failures

    def transcripts(self) -> Iterator[Transcript]:
        """The debates, in the order in which they finished."""
        return read_transcripts(self.path)

    def table(self) -> str:
        """The scores as a plain-text table."""
        from madke._util.terminal import as_text
        from madke.report.score_tables import score_table

        return as_text(score_table([(self.path.name or str(self.path), self._scored)]))

    def report(self, file: str | Path) -> Path:
        """Write the report page; returns the file."""
        from madke.report.html import write_report

        with self.scope.active():
            write_report([self.path], file, scores=[self._scored])
        return Path(file)

    @cached_property
    def _scored(self) -> Scores:
        from madke.scoring.scored import score_run

        with self.scope.active():
            return score_run(self.path)


@suggesting
def run(questions: Data, **arguments: Any) -> Run:
    """Debate every question; see :func:`arun` for the arguments. Also works inside a running event loop.

    Outside one, Ctrl-C waits for the calls in flight, so that no paid call is lost.
    """
    return finished(arun(questions, **{"signals": True, **arguments}))


@suggesting
async def arun(
    questions: Data,
    *,
    protocol: str | Path | Variant = "madke",
    model: Models = "offline",
    sources: Sources | None = None,
    task: str | Task | None = None,
    out: str | Path | None = None,
    options: RunOptions = DEFAULTS,
    settings: Mapping[str, Any] = NOTHING,
    cast: Mapping[str, Model] = NOTHING,
    prompts: Path | None = None,
    pools: Path | None = None,
    first_round: Path | None = None,
    answer_scorer: str | None = None,
    dataset: str | DatasetReader | None = None,
    ids: str | None = None,
    limit: int | None = None,
    sample_seed: int | None = None,
    seed: int | None = 0,
    repeats: int = 1,
    listen: Listener | None = None,
    signals: bool = False,
) -> Run:
    """Debate every question and write transcripts and calls into a directory. The same call again resumes the run.

    Args:
        questions: A file as for ``madke run``, or a list of :class:`madke.Question`, mappings of its fields, or texts.
        protocol: A protocol's name, its folder, or a loaded variant.
        model: See :func:`madke.stream`.
        sources: See :func:`madke.stream`.
        task: The answer format of questions that name none: a name, or a :class:`madke.Task`.
        out: The run directory. None: a temporary one that exists as long as the returned object.
        options: How to run it: concurrency, limits, prices, endpoint, replay.
        settings: Protocol field -> value, as for ``--set``.
        cast: Role -> model; overrides ``model``.
        prompts: A folder of your own protocols, searched first.
        pools: A pool file. None: pools are built into ``out``. Without ``sources``, all sources of the file are used if
            it lacks one of the protocol's.
        first_round: Given first-round stances: a file of them, or a run.
        answer_scorer: The command of an answer scorer, for ``finish: rerank``.
        dataset: The published dataset whose format the file has, or a function from a path to questions. Default: a
            question file of your own.
        ids: Only the questions of this list: a file of ids, or the name of a shipped list.
        limit: Maximum number of questions: the first ones, or with ``sample_seed`` a random sample.
        sample_seed: Seed of that sample.
        seed: Sampling seed; each call derives its own. None: the server chooses.
        repeats: Number of debates per question.
        listen: Receives every event of every debate, and :class:`madke.events.RunProgress`.
        signals: Whether SIGINT, SIGTERM and SIGHUP (in the main thread) end the run with :class:`KeyboardInterrupt`
            after the calls in flight have finished.

    Raises:
        UserError: An input is missing or invalid, or the directory holds another run.
    """
    use_files(options.sources_file, options.models_file)
    job = make_job(
        questions,
        protocol=protocol,
        prompts=prompts,
        settings=settings,
        model=model,
        cast=cast,
        sources=sources,
        task=task,
        dataset=dataset,
        ids=ids,
        limit=limit,
        sample_seed=sample_seed,
        pools=pools,
        first_round=first_round,
        answer_scorer=answer_scorer,
        seed=seed,
        repeats=repeats,
    )
    check_pools(job, pools)
    path = Path(mkdtemp(prefix="madke-run-") if out is None else out)
    try:
        with RunDirectory(path, replay=options.replay) as directory:
            meter = await execute(job, directory, options, pools=pools, listen=listen, signals=signals)
    finally:
        await asyncio.to_thread(job.close)
    made = Run(path, meter, job.scope)
    if out is None:
        finalize(made, rmtree, path, ignore_errors=True)
    return made


def check_pools(job: Job, pools: Path | None) -> None:
    """Refuse a pool file or source specifications that the run would not use."""
    knowledge = job.protocol.knowledge
    if pools is None:
        return
    if knowledge is None:
        raise UserError("--pools is given, but the protocol has no knowledge; add --sources or remove --pools")
    with_spec = [name for name, spec in job.spec.source_specs.items() if spec is not None]
    if with_spec and not knowledge.allow_search:
        name = with_spec[0]
        raise UserError(f"--sources {name}=...: with a pool file no source is searched; write --sources {name}")
    held = sources_in(record for _, record in pool_records(pools))
    used = job.spec.source_specs
    unused = [name for name in held if name not in used]
    if unused and all(name in held for name in used):  # a missing source is an error of its own
        names = ", ".join(unused), ",".join(used)
        _log.warning("%s: not used: passages of %s (sources of this run: %s)", pools, *names)


run.__signature__ = signature(arun)  # type: ignore[attr-defined]


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

    with _objects_of([run]):
        return score_run(_path(run), grader=grader, scorers=scorers or {})


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare two or more runs over the questions that all of them hold, with paired tests.

    Raises:
        UserError: One is not a run, or they share no question.
    """
    from madke.report.comparison import compare_runs

    with _objects_of(runs):
        return compare_runs([_path(run) for run in runs])


def build_pools(
    questions: Data,
    out: str | Path,
    *,
    sources: Sources = "wiki,google",
    dataset: str | DatasetReader | None = None,
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
    from madke.runs.pool_stages import build_pool_file

    with Scope().active():
        name = name_of_dataset(dataset)
        records = questions_of(questions, dataset=name, task=None, ids=ids, limit=limit, sample_seed=sample_seed)
    specs, own = source_specs(sources, ())
    opened = [open_source(name, own.get(name, spec)) for name, spec in specs.items()]
    knowledge = Knowledge.model_validate({"sources": tuple(specs), "query": query, "rerank": rerank})
    return build_pool_file(records, opened, k, Path(out), knowledge, model=model, options=options)


@contextmanager
def _objects_of(runs: Iterable[Run | str | Path]) -> Iterator[None]:
    with ExitStack() as active:
        for each in runs:
            if isinstance(each, Run):
                active.enter_context(each.scope.active())
        yield


def _path(run: Run | str | Path) -> Path:
    return run.path if isinstance(run, Run) else Path(run)
