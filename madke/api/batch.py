"""A batch: :func:`run` and :func:`arun`, and the :class:`Run` that they return."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import finalize

from madke.concurrency import finished
from madke.core.errors import UserError, suggesting
from madke.core.events import Listener
from madke.core.transcript import Transcript
from madke.knowledge.named import use_sources_file
from madke.runs.directory import RunDirectory, read_transcripts
from madke.runs.job import Data, Job, Model, Models, Sources, prepared
from madke.runs.meter import Meter
from madke.runs.options import USUAL, RunOptions
from madke.runs.run_json import read_spec
from madke.runs.runner import execute
from madke.runs.spec import RunSpec
from madke.tasks.base import Task
from madke.variants import Variant

if TYPE_CHECKING:
    from madke.scoring.scores import Scores

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, repr=False)
class Run:
    """A run directory, with what is computed from it. :func:`run` returns one; ``Run(Path("DIR"))`` opens one.

    ``run.failures`` says why questions failed; each one's ``transcript.final.error`` says it too.
    """

    path: Path
    meter: Meter | None = None
    """What this process did for it; None for a run that was only opened."""

    def __repr__(self) -> str:
        counts = ""
        if (meter := self.meter) is not None:
            counts = f", {meter.resumed + meter.done} of {meter.total} questions done, {meter.failed} failed"
        return f"Run({str(self.path)!r}{counts})"

    @property
    def spec(self) -> RunSpec:
        """What the run is."""
        return read_spec(self.path)

    @property
    def scores(self) -> Mapping[str, Any]:
        """Metric -> its estimate: ``value``, ``low`` and ``high`` (a 95 % interval), ``n`` questions."""
        scores = self._scored
        own = {"correct": scores.correct} if scores.correct is not None else {}
        return {**own, **scores.metrics}

    @property
    def failures(self) -> Mapping[str, int]:
        """Why questions failed: reason -> how many, the commonest first."""
        return self._scored.failures

    def transcripts(self) -> Iterator[Transcript]:
        """The debates, in the order in which they ended."""
        return read_transcripts(self.path)

    def table(self) -> str:
        """The scores as a table of plain text."""
        from madke.report.score_tables import score_table
        from madke.terminal import as_text

        return as_text(score_table([(self.path.name, self._scored)]))

    def report(self, file: str | Path) -> Path:
        """Write the report page; returns the file."""
        from madke.report.html import write_report

        write_report([self.path], file, scores=[self._scored])
        return Path(file)

    @cached_property
    def _scored(self) -> Scores:
        from madke.scoring.scored import score_run

        return score_run(self.path)


@suggesting
def run(questions: Data, **asked: Any) -> Run:
    """Debate every question; see :func:`arun`, which takes the same arguments. It works inside a running event loop.

    Outside of one, Ctrl-C lets calls under way end, so that none that is paid for is lost.
    """
    return finished(arun(questions, **{"signals": True, **asked}))


@suggesting
async def arun(
    questions: Data,
    *,
    protocol: str | Path | Variant = "madke",
    model: Models = "offline",
    sources: Sources | None = None,
    task: str | Task | None = None,
    out: str | Path | None = None,
    options: RunOptions = USUAL,
    settings: Mapping[str, Any] = _NOTHING,
    cast: Mapping[str, Model] = _NOTHING,
    prompts: Path | None = None,
    pools: Path | None = None,
    first_round: Path | None = None,
    answer_scorer: str | None = None,
    dataset: str | None = None,
    ids: str | None = None,
    limit: int | None = None,
    sample_seed: int | None = None,
    seed: int | None = 0,
    repeats: int = 1,
    listen: Listener | None = None,
    signals: bool = False,
) -> Run:
    """Debate every question and write transcripts and calls into a directory. The same call again resumes it.

    Args:
        questions: A file as ``madke run`` takes it, or :class:`madke.Question` records, mappings of their fields, or
            texts.
        protocol: A protocol's name, its folder, or a loaded variant.
        model: See :func:`madke.stream`.
        sources: See :func:`madke.stream`.
        task: The answer format of questions that name none: a name, or a :class:`madke.Task`.
        out: The run directory. None: a temporary one that lives as long as the object that is returned.
        options: How it is done: concurrency, limits, prices, endpoint, replay.
        settings: Protocol field -> value, as ``--set`` takes them.
        cast: Role -> model, above ``model``.
        prompts: A folder of your own protocols, searched first.
        pools: A pool file. None: pools are built into ``out``.
        first_round: First-round stances from outside: a file of them, or a run.
        answer_scorer: The command of an answer scorer, for ``finish: rerank``.
        dataset: The published dataset whose format the file has. Default: our own JSON Lines.
        ids: Only the questions of this list: a file of ids, or a shipped list's name.
        limit: At most so many questions: the first ones, or with ``sample_seed`` a sample.
        sample_seed: Draws the sample.
        seed: Sampling seed; each call derives its own. None: the server's.
        repeats: How often each question is debated.
        listen: Hears every event of every debate, and :class:`madke.events.RunProgress`.
        signals: Whether SIGINT, SIGTERM and SIGHUP, where this is the main thread, wait for the calls under way and end
            the run with :class:`KeyboardInterrupt`.

    Raises:
        UserError: Something is not there, cannot be so, or the directory holds another run.
    """
    if options.sources_file is not None:
        use_sources_file(options.sources_file)
    job = prepared(
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
    made = Run(path, meter)
    if out is None:
        finalize(made, rmtree, path, ignore_errors=True)
    return made


def check_pools(job: Job, pools: Path | None) -> None:
    """Refuse a pool file that nobody would read, and sources that nobody would ask."""
    knowledge = job.protocol.knowledge
    if pools is None:
        return
    if knowledge is None:
        raise UserError("--pools is given, but the protocol has no knowledge; name --sources, or leave it out")
    named = [name for name, spec in job.spec.source_specs.items() if spec is not None]
    if named and not knowledge.allow_search:
        raise UserError(f"--sources {named[0]}=...: a pool file is given, so sources are only chosen by name")


run.__signature__ = signature(arun)  # type: ignore[attr-defined]
