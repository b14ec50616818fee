"""``madke run``: debate a dataset into a run directory; the same command again goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options
from madke.cli.outputs import question_files, refuse_own_files
from madke.core.errors import UserError
from madke.terminal import console, say

if TYPE_CHECKING:
    from madke.core.knowledge import Source
    from madke.core.question import Question
    from madke.data import Given
    from madke.engine.protocol import Knowledge, Protocol
    from madke.llm.prices import Prices
    from madke.runs.directory import RunDirectory
    from madke.runs.job import Job
    from madke.runs.meter import Meter


_REASONS = 3
"""How many reasons of failed questions are shown, the commonest first."""


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions: JSONL (.gz too), or as --dataset says.")],
    out: Annotated[Path, typer.Option(help="The run directory; the same command again resumes it.")],
    task: options.Task = None,
    protocol: options.Protocol = "madke",
    model: options.Model = "offline",
    base_url: options.BaseUrl = None,
    cast: options.Cast = None,
    pools: Annotated[Path | None, typer.Option(help="A pool file; without one, pools are built into OUT.")] = None,
    sources: options.Sources = None,
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="First-round stances from outside: JSON lines of id and stances (agent, text, answer), or a run, "
            "whose first round is taken over.",
        ),
    ] = None,
    estimator: options.Estimator = None,
    dataset: options.Dataset = None,
    ids: options.Ids = None,
    limit: options.Limit = None,
    sample_seed: options.SampleSeed = None,
    repeats: Annotated[int, typer.Option(min=1, help="Debate each question so often.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Sampling seed; each call derives its own. A negative one leaves it to the server.")
    ] = 0,
    settings: options.Settings = None,
    prompts: options.Prompts = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions, and model calls, under way at once.")] = 16,
    plan: options.Plan = False,
    prices: options.Prices = None,
    max_cost: options.MaxCost = None,
    token_budget: options.TokenBudget = None,
    deadline: options.Deadline = None,
    rpm: Annotated[int | None, typer.Option(min=1, help="At most so many calls a minute.")] = None,
    tpm: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a minute.")] = None,
    engine: options.Engine = "local",
    address: options.Address = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Make the transcripts anew from OUT's call store; no network.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed/--keep-failed", help="Whether questions that failed are run again.")
    ] = True,
    retry_degraded: Annotated[
        bool,
        typer.Option(
            "--retry-degraded",
            help="Run those again, too, that lost a debater or a verdict to a failed call. Only failed calls are "
            "made again.",
        ),
    ] = False,
) -> None:
    """Debate every question of a dataset; write transcripts, calls, scores and a report into OUT.

    Exit status: 0 every question has an outcome, 1 some failed or a limit was reached, 2 bad input, 130 interrupted,
    143 terminated.
    """
    from madke.cli.console import exit_status
    from madke.cli.limits import allow_connections, monotonic_deadline, refuse_limits
    from madke.cli.progress import showing
    from madke.cli.sources import open_sources, show_spent
    from madke.data import read_dataset
    from madke.indexing.named import source_paths
    from madke.llm.prices import read_prices
    from madke.runs.budget import Budget
    from madke.runs.cast import role_models
    from madke.runs.config import questions_sha256
    from madke.runs.directory import RunDirectory
    from madke.runs.job import Effort, Job, play
    from madke.runs.transcripts import Again

    if address is not None and engine != "ray":
        raise UserError("--address is the address of a Ray cluster; it needs --engine ray")
    if plan:
        refuse_limits(max_cost, token_budget, deadline)
    until = monotonic_deadline(deadline)
    allow_connections(concurrency)
    questions = read_dataset(data, dataset=dataset, task=task, ids=ids, limit=limit, sample_seed=sample_seed)
    variant, specs = options.configured(protocol, prompts, settings or (), sources, given=given is not None)
    read = [*question_files(data), *source_paths(specs), *filter(None, (given, prices))]
    refuse_own_files(out, [path for path in read if path.is_file()])
    options.check_needs(variant, questions, given=given is not None, estimator=estimator)
    budget = Budget(prices=read_prices(prices) if prices else {}, max_cost=max_cost, max_tokens=token_budget)
    job = Job(
        data=data.name,
        data_sha256=questions_sha256(questions),
        dataset=dataset,
        task=task,
        sample_seed=sample_seed,
        questions=questions,
        variant=variant,
        models=role_models(variant.protocol, model, options.cast_overrides(cast or ())),
        base_url=base_url,
        source_specs=specs,
        given=_first_rounds(given, questions, variant.protocol, repeats),
        estimator=estimator,
        seed=seed if seed >= 0 else None,
        repeats=repeats,
    )
    effort = Effort(
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        replay=replay,
        again=Again(failed=retry_failed, degraded=retry_degraded),
        budget=budget,
        engine=engine,
        address=address,
        deadline=until,
    )
    if plan:
        _show_plan(job, pools, out, budget.prices)
        return
    opened = cache(lambda: open_sources(specs))
    with RunDirectory(out, replay=replay) as directory:
        try:
            pool_file = partial(_pool_file, directory, pools, questions, variant.protocol.knowledge, specs, opened)
            meter = play(
                job,
                directory,
                pool_file,
                effort,
                sources=opened,
                watch=lambda meter: showing(meter.line),
            )
            if variant.protocol.needs_search and not replay:
                show_spent(opened())
        except KeyboardInterrupt as interrupt:
            done = f"{len(directory.done)} of {len(questions) * repeats} questions"
            say(f"madke: interrupted with {done} done; the same command again goes on from there", err=True)
            raise typer.Exit(exit_status(interrupt)) from None
    _show_scores(out, meter, budget.prices, retried=retry_failed and not replay, retried_degraded=retry_degraded)


def _show_plan(job: Job, pools: Path | None, out: Path, prices: Prices) -> None:
    from madke.cli.planning import show_plans
    from madke.experiments.plan import REPLY_TOKENS, Planner
    from madke.runs.pools import RunPools

    own = out / "pools.jsonl"
    file = pools or (own if own.exists() else None)
    knowledge = job.variant.protocol.knowledge
    pool_of = RunPools(file, knowledge, job.questions).of if file and knowledge else None
    show_plans([Planner(prices=prices).plan(job.variant.name, job, pool_of)], prices, REPLY_TOKENS)


def _show_scores(out: Path, meter: Meter, prices: Prices, *, retried: bool, retried_degraded: bool) -> None:
    """Write and show scores and report; exit status 1 where questions failed, which the same command may retry."""
    from madke.cli.progress import why_stopped
    from madke.report.html import write_report
    from madke.report.score_tables import score_table
    from madke.scoring.scored import kept_scores, score_run

    page, metrics = out / "report.html", out / "metrics.json"
    current = page.exists() and metrics.exists() and page.stat().st_mtime_ns >= metrics.stat().st_mtime_ns
    scores = kept_scores(out) if current and not (meter.done or prices) else None
    if scores is None:
        scores = score_run(out, prices=prices)
        write_report({out: scores}, page)
    console().print(score_table([(str(out), scores)]))
    say(f"transcripts: {out / 'transcripts.jsonl'}\nreport: {page}")
    if scores.failed:
        again = "the same command again" if retried else "the command without --keep-failed and --replay"
        say(f"madke: {scores.failed} questions failed; {again} retries them", err=True)
        for reason, count in list(scores.failures.items())[:_REASONS]:
            say(f"  {count} x {reason}", err=True)
    degraded = max(0, scores.degraded - scores.failed)
    if degraded and not retried_degraded:
        say(f"madke: {degraded} questions lost a debater or a verdict; --retry-degraded retries them", err=True)
    if meter.left_over:
        say(f"madke: stopped: {why_stopped(meter)}", err=True)
        say(f"not done: {out / 'unfinished.jsonl'}", err=True)
    if scores.failed or meter.left_over:
        raise typer.Exit(1)


def _first_rounds(given: Path | None, questions: Sequence[Question], protocol: Protocol, repeats: int) -> Given | None:
    """What ``--given`` names: a file of stances, or a run whose first round is taken over."""
    from madke.data import first_rounds, read_given
    from madke.runs.transcripts import read_transcripts

    if given is None:
        return None
    if given.is_dir():
        return first_rounds(read_transcripts(given), questions, repeats, given)
    return read_given(given, questions, protocol)


def _pool_file(
    directory: RunDirectory,
    pools: Path | None,
    questions: Sequence[Question],
    knowledge: Knowledge | None,
    specs: Mapping[str, str | None],
    opened: Callable[[], list[Source]],
) -> Path | None:
    """The pool file of the run: the given one, or the one in the run directory, built if need be."""
    from madke.cli.progress import counter
    from madke.cli.sources import show_found, show_spent
    from madke.runs.pools import build_run_pools

    if knowledge is None:
        if pools is not None:
            raise UserError("--pools is given, but the protocol has no knowledge; name --sources, or leave it out")
        return None
    if pools is not None:
        named = [name for name, spec in specs.items() if spec is not None]
        if named and not knowledge.requery:
            raise UserError(f"--sources {named[0]}=...: a pool file is given, so sources are only chosen by name")
        return pools
    own = directory.path / "pools.jsonl"
    if not (directory.path / "run.json").exists():
        # Pools without a run are left of one that was stopped; nothing says what they were built from.
        show_found(build_run_pools(own, questions, knowledge, opened(), counter("retrieved")))
        show_spent(opened())
    elif not own.exists():
        raise UserError("holds a run without pools of its own; name its --pools", file=directory.path)
    return own
