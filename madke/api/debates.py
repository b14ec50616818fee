"""Debates: :func:`run` of many questions, :func:`ask` and :func:`stream` of one, and functions around runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from madke._util.concurrency import run_coroutine, stream_progress
from madke.core.chat import FLAGS, ChatModel, Usage, fields_of
from madke.core.errors import UserError
from madke.core.events import DebateFinished, Event, Listener, PoolReady, silent
from madke.core.knowledge import EMPTY_POOL, Source, SourceCounts
from madke.core.question import Question
from madke.core.registry import Scope
from madke.core.transcript import Transcript
from madke.engine.protocol import hold_debate
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer
from madke.retrieval.named import open_source, source_paths
from madke.retrieval.pools import depth, pool_of, retrieve, retrieve_pools
from madke.retrieval.source import close_sources
from madke.runs.directory import RunRecord, question_files, read_run, read_transcripts, refuse_own_files
from madke.runs.meter import Meter
from madke.runs.request import DEFAULTS, Data, RunOptions, RunRequest, Sources, request_of, takes_request
from madke.runs.runner import debate_services, execute, from_thread, live_search
from madke.runs.spec import RunSpec, questions_of, refuse_sample, resolve, source_specs

if TYPE_CHECKING:
    from madke.engine.agreement import ConflictMap
    from madke.report.comparison import Comparison
    from madke.scoring.scores import Scores


@dataclass(frozen=True, repr=False)
class Run:
    """A run directory with its scores, transcripts and report. :func:`run` returns one; ``Run("DIR")`` opens one.

    ``run.failures`` counts the reasons why questions failed; ``transcript.final.error`` is the reason for one question.
    """

    path: Path
    """The directory; ``Run`` accepts a text for it."""
    meter: Meter | None = None
    """Counters of the run in this process; None for a run that was only opened."""
    spec: RunSpec | None = field(default=None, compare=False)
    """What ran in this process; None for a run that was only opened."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a text is accepted

    def __repr__(self) -> str:
        counts = ""
        if (meter := self.meter) is not None:
            counts = f", {meter.resumed + meter.done} of {meter.total} questions done, {meter.failed} failed"
        return f"Run({str(self.path)!r}{counts})"

    @property
    def scope(self) -> Scope:
        """The objects that the run was given, such as its task."""
        return self.spec.scope if self.spec else Scope()

    @property
    def record(self) -> RunRecord:
        """What describes the run in ``run.json``."""
        return read_run(self.path)

    @property
    def scores(self) -> Mapping[str, Any]:
        """Metric -> estimate: ``value``, ``low`` and ``high`` (a 95 % interval), ``n`` questions."""
        scores = self._run_scores
        own = {"correct": scores.correct} if scores.correct is not None else {}
        return {**own, **scores.metrics}

    @property
    def failures(self) -> Mapping[str, int]:
        """Why questions failed: reason -> number of questions, the most common first."""
        return self._run_scores.failures

    def transcripts(self) -> Iterator[Transcript]:
        """The debates, in the order in which they finished."""
        # A generator holds the run, whose temporary directory lasts as long as it does.
        yield from read_transcripts(self.path)

    def conflicts(self) -> Iterator[ConflictMap]:
        """The map of each debate: who held which answer when, and what says so."""
        from madke.report.debate_text import maps_of
        from madke.scoring.arms import open_results

        with self.scope.active():
            yield from maps_of(open_results([self.path])[0])

    def table(self) -> str:
        """The scores as a plain-text table."""
        from madke.report.scores import scores_on_terminal

        return scores_on_terminal({self.path.name or str(self.path): self._run_scores})

    def report(self, file: str | Path) -> Path:
        """Write the report page; returns the file."""
        from madke.report.html import write_report

        with self.scope.active():
            write_report([self.path], file, scores=[self._run_scores])
        return Path(file)

    def to_pandas(self) -> Any:
        """The answers as a ``pandas.DataFrame``: a row for each question and repeat.

        Columns: ``id``, ``repeat``, ``dataset``, ``question``, ``task``, ``choices``, ``gold``, ``answer``, ``status``,
        ``reading``, ``correct`` (by the task's first metric; missing for failed questions and those without golds),
        ``agreement`` and who it is of, ``stop_reason``, ``final_by``, ``rounds``, calls, tokens and ``seconds``; see
        docs/extend.md.
        UserError without pandas.
        """
        from madke._util.assets import require
        from madke.report.export import answer_rows
        from madke.scoring.arms import open_results

        require("Run.to_pandas needs", "report", "pandas")
        import pandas

        with self.scope.active():
            return pandas.DataFrame(answer_rows(open_results([self.path])[0])).drop(columns="run")

    @cached_property
    def _run_scores(self) -> Scores:
        from madke.scoring.scored import score_run

        with self.scope.active():
            return score_run(self.path)[0]


@takes_request("run")
def run(
    questions: Data | RunRequest,
    *,
    out: str | Path | None = None,
    options: RunOptions = DEFAULTS,
    listen: Listener | None = None,
    signals: bool = True,
    **fields: Any,
) -> Run:
    """Debate every question; see :func:`arun` for the arguments. Also works inside a running event loop.

    Outside one, Ctrl-C waits for the calls in flight, so that no paid call is lost.
    """
    return run_coroutine(arun(questions, out=out, options=options, listen=listen, signals=signals, **fields))


@takes_request("run")
async def arun(
    questions: Data | RunRequest,
    *,
    out: str | Path | None = None,
    options: RunOptions = DEFAULTS,
    listen: Listener | None = None,
    signals: bool = False,
    **fields: Any,
) -> Run:
    """Debate every question and write transcripts and calls into a directory. The same call again resumes the run.

    Args:
        questions: A file as for ``madke run``, or a list of :class:`madke.Question`, mappings of its fields, or texts;
            or a whole :class:`madke.RunRequest`.
        out: The run directory. None: a temporary one that exists as long as the returned object.
        options: How to run it: concurrency, limits, prices, endpoint, replay.
        listen: Receives every event of every debate, and :class:`madke.events.RunProgress`.
        signals: Whether SIGINT, SIGTERM and SIGHUP (in the main thread) end the run with :class:`KeyboardInterrupt`
            after the calls in flight have finished.
        fields: Fields of :class:`madke.RunRequest`, such as ``protocol``, ``model`` and ``sources``.

    Raises:
        UserError: An input is missing or invalid, or the directory holds another run.
    """
    request = request_of(questions, fields)
    spec = checked_spec(request, out, options)
    path = Path(mkdtemp(prefix="madke-run-") if out is None else out)
    try:
        meter = await execute(spec, path, options, listen=listen, signals=signals)
    except BaseException:
        if out is None and not (path / "run.json").is_file():  # it has not begun, so no call is lost
            rmtree(path, ignore_errors=True)
        raise
    finally:
        await asyncio.to_thread(spec.close)
    run = Run(path, meter, spec)
    if out is None:
        finalize(run, rmtree, path, ignore_errors=True)
    return run


def checked_spec(request: RunRequest, out: str | Path | None, options: RunOptions) -> RunSpec:
    """The spec of a run into ``out``.

    Refuses a pool file or source specifications that the run would not use, the sample for other questions, and inputs
    that it would overwrite.
    """
    spec = resolve(request)
    knowledge, specs = spec.protocol.knowledge, spec.record.source_specs
    if spec.pools is None:
        if request.sources is None:
            refuse_sample(spec.questions, specs)
    elif knowledge is None:
        raise UserError("--pools is given, but the protocol has no knowledge; add --sources or remove --pools")
    elif not knowledge.allow_search and (named := [name for name, source in specs.items() if source is not None]):
        name = named[0]
        raise UserError(f"--sources {name}=...: with a pool file no source is searched; write --sources {name}")
    if out is not None:
        data = request.questions if isinstance(request.questions, str | Path) else None
        inputs = [Path(path) for path in (request.first_round, request.calibration, options.prices) if path is not None]
        refuse_own_files(
            Path(out), [*question_files(None if data is None else Path(data)), *source_paths(specs), *inputs]
        )
    return spec


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Debate:
    """The finished debate of one question."""

    transcript: Transcript

    def __repr__(self) -> str:
        why = f", error={self.error!r}" if self.error else ""
        return f"Debate({self.answer!r}, {self.transcript.status}, {len(self.transcript.rounds)} rounds{why})"

    @property
    def answer(self) -> str | None:
        """The final answer; None if the debate failed or abstained (``transcript.status``)."""
        return self.transcript.answer

    @property
    def error(self) -> str | None:
        """Why the debate failed; None if it did not."""
        return self.transcript.final.error

    @property
    def usage(self) -> Usage:
        """The tokens of all calls."""
        used = self.transcript.total
        counts = {name: getattr(used, name) for name in fields_of(Usage())}
        return Usage(**counts | {name: counts[name] > 0 for name in FLAGS})


AnyQuestion = str | Question | Mapping[str, Any]
"""A question: its text, or a record or mapping with choices or gold answers."""


@takes_request("ask")
def ask(question: AnyQuestion, *, choices: Sequence[str] = (), options: RunOptions = DEFAULTS, **fields: Any) -> Debate:
    """Debate one question; see :func:`stream` for the arguments. Also works inside a running event loop."""
    return run_coroutine(aask(question, choices=choices, options=options, **fields))


@takes_request("ask")
async def aask(
    question: AnyQuestion, *, choices: Sequence[str] = (), options: RunOptions = DEFAULTS, **fields: Any
) -> Debate:
    """Debate one question; see :func:`stream` for the arguments."""
    # To the end of the stream, where models and sources are closed.
    events = [event async for event in stream(question, choices=choices, options=options, **fields)]
    (transcript,) = (event.transcript for event in events if isinstance(event, DebateFinished))
    return Debate(transcript=transcript)


@takes_request("ask")
def stream(
    question: AnyQuestion,
    *,
    choices: Sequence[str] = (),
    deltas: bool = False,
    options: RunOptions = DEFAULTS,
    **fields: Any,
) -> AsyncGenerator[Event, None]:
    """Debate one question and yield its events.

    Nothing is written to disk. Leaving the loop early cancels the debate.

    Args:
        question: Its text, or a record or mapping with choices or gold answers.
        choices: The options of a multiple-choice question.
        deltas: Whether to yield :class:`madke.events.CallDelta` too, the parts of free text that a server streams.
        options: Only ``base_url`` and ``concurrency`` are used.
        fields: Fields of :class:`madke.RunRequest`, such as ``protocol``, ``model`` and ``sources``; the signature that
            ``help(madke.ask)`` shows has all of them.

    Yields:
        :class:`madke.events.PoolReady`, the debate's events, and last :class:`madke.events.DebateFinished`.

    Raises:
        UserError: An input is missing or invalid.
    """
    record: Question | Mapping[str, Any] = {"question": question} if isinstance(question, str) else question
    if choices:
        own = tuple(choices)
        record = replace(record, choices=own) if isinstance(record, Question) else {**record, "choices": own}
    return events_of(resolve(request_of([record], fields)), options, deltas=deltas)


async def events_of(spec: RunSpec, options: RunOptions, *, deltas: bool = False) -> AsyncGenerator[Event, None]:
    """Yield the events of a spec with one question; with ``deltas``, the parts of streamed replies too."""

    async def run_debate(tell: Listener) -> None:
        models = spec.open_models(options)
        try:
            await hold_single_debate(spec, models, options, tell, deltas=deltas)
        finally:
            await spec.close_models(models)
            await asyncio.to_thread(spec.close)

    async with aclosing(stream_progress(run_debate)) as events:
        async for event in events:
            if event is not None:
                yield event


async def hold_single_debate(
    spec: RunSpec,
    models: Mapping[str, ChatModel],
    options: RunOptions,
    tell: Listener = silent,
    *,
    deltas: bool = False,
    repeat: int = 0,
) -> Transcript:
    """Hold the debate of a spec with one question; ``models`` has one for each role. Closes nothing."""
    (question,) = spec.questions
    answer_scorer = AnswerScorer(spec.record.answer_scorer) if spec.record.answer_scorer is not None else None
    limits = Limits(options.concurrency, interactive=True)
    pipeline = CallPipeline(limits=limits)
    pool, knowledge, listen = EMPTY_POOL, spec.protocol.knowledge, from_thread(tell)
    if knowledge is not None:
        (record,) = await asyncio.to_thread(lambda: retrieve(spec.questions, spec.sources(listen), depth(knowledge)))
        pool = pool_of(record, knowledge)
    live = live_search(spec)
    tell(PoolReady(question=question.id, pool=pool))
    cast = {role: pipeline.model(model) for role, model in models.items()}
    services = debate_services(lambda service: service, live, answer_scorer, knowledge)
    scene = spec.scene(question, cast, pool, repeat=repeat, listen=tell, deltas=deltas, **services)
    return await hold_debate(scene)


def score(run: Run | str | Path, *, grader: str | None = None, scorers: Mapping[str, str] | None = None) -> Scores:
    """Score a run and write its ``metrics.json``.

    Args:
        run: A run, or its directory.
        grader: A model that grades answers, by name.
        scorers: Name -> command of external scorers.

    Raises:
        UserError: It is not a run, or a grader or scorer failed.
    """
    from madke.scoring.arms import open_results
    from madke.scoring.scored import ask_outside, graders_of, score_run

    with _paths(run) as (path,):
        arms = open_results([path])
        ask_outside(arms, graders_of(grader) if grader is not None else (), scorers or {})
        return score_run(arms[0])[0]


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare two or more runs over the questions that all of them hold, with paired tests.

    Raises:
        UserError: One is not a run, or they share no question.
    """
    from madke.report.comparison import compare_runs

    with _paths(*runs) as paths:
        return compare_runs(paths)


def build_pools(
    questions: Data, out: str | Path, *, sources: Sources = "wiki,google", k: int = 10, **fields: Any
) -> dict[str, SourceCounts]:
    """Retrieve a pool of passages for every question, and write a pool file.

    Args:
        questions: As for :func:`madke.run`.
        out: The pool file.
        sources: As for :func:`madke.stream`.
        k: The largest number of passages from each source.
        fields: Fields of :class:`madke.RunRequest` that choose questions: ``dataset``, ``columns``, ``ids``, ``limit``,
            ``sample_seed``.

    Returns:
        Source name -> for how many questions it found passages, or failed.

    Raises:
        UserError: An argument is invalid, a source cannot be opened, or the file cannot be written.
    """
    if k < 1:
        raise UserError(f"k = {k}; expected at least 1")
    with Scope().active():
        records = questions_of(RunRequest(questions=questions, **fields))
    specs, own = source_specs(sources, ())
    opened: list[Source] = []
    try:
        opened += (open_source(name, own.get(name, spec)) for name, spec in specs.items())
        return retrieve_pools(records, opened, k, Path(out))
    finally:
        close_sources(source for source in opened if source.name not in own)


@contextmanager
def _paths(*runs: Run | str | Path) -> Iterator[list[Path]]:
    """The directories of runs; the objects that the runs were given are known in the block."""
    with ExitStack() as active:
        for each in runs:
            if isinstance(each, Run):
                active.enter_context(each.scope.active())
        yield [run.path if isinstance(run, Run) else Path(run) for run in runs]
