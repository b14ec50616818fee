"""``madke run``: debate a dataset into a run directory. The same command resumes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from madke.cli import flags
from madke.cli.paths import question_files, refuse_own_files
from madke.core.wording import counted
from madke.runs.options import RunOptions
from madke.terminal import console, say

if TYPE_CHECKING:
    from madke.llm.prices import Prices
    from madke.runs.job import Job
    from madke.runs.meter import Meter


_SHOWN_REASONS = 3

EPILOG = flags.epilog(
    *flags.NAMES,
    "First-round stances: a run directory, or JSON lines of id and stances (agent, text, answer).",
    flags.SCORER,
    flags.PRICES,
    flags.LIMITS,
    flags.EXIT_STATUS,
    "Examples:",
    "  madke run questions.jsonl --out runs/first --limit 20",
    "  madke run questions.jsonl -m openai/gpt-4o-mini --plan --out runs/mini",
)


@flags.shared_options("protocol model sources task limit cast answer_scorer dataset ids sample_seed settings prompts")
def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions: CSV, JSONL, ..., or as --dataset says.")],
    out: Annotated[Path, flags.option("Run directory. The same command resumes it.", "DIR")],
    shared: dict[str, Any],
    options: RunOptions,
    pools: Annotated[
        Path | None, flags.option("Pool file. Default: retrieve, and write OUT/pools.jsonl.", "FILE", flags.KNOWLEDGE)
    ] = None,
    first_round: Annotated[
        Path | None, flags.option("Take the first round from here, see below.", "FILE|DIR", flags.PROTOCOL)
    ] = None,
    repeats: Annotated[int, flags.option("Runs per question.", "N", flags.PROTOCOL, min=1)] = 1,
    seed: Annotated[int, flags.option("Sampling seed. Below 0: set by the server.", "N", flags.PROTOCOL)] = 0,
    plan: flags.Plan = False,
    reply_tokens: flags.ReplyTokens = 150,
    call_seconds: flags.CallSeconds = None,
) -> None:
    """Debate every question of a dataset. Write transcripts, calls, scores and a report to OUT."""
    from madke.api.batch import check_pools
    from madke.knowledge.named import source_paths
    from madke.runs.job import prepared

    own_seed = seed if seed >= 0 else None
    job = prepared(data, pools=pools, first_round=first_round, seed=own_seed, repeats=repeats, **shared)
    check_pools(job, pools)
    read = [*question_files(data), *source_paths(job.spec.source_specs), *filter(None, (first_round, options.prices))]
    refuse_own_files(out, read)
    if plan:
        _show_plan(job, pools, out, options, reply_tokens, call_seconds)
    else:
        _run(job, pools, out, options)


def _run(job: Job, pools: Path | None, out: Path, options: RunOptions) -> None:
    from madke.cli.progress import exit_status, listening
    from madke.runs.directory import RunDirectory
    from madke.runs.meter import account
    from madke.runs.runner import execute

    own = account(options)
    by_models = "human" not in job.spec.models.values()  # a person types where the line of progress would be
    with RunDirectory(out, replay=options.replay) as directory, listening(line=by_models) as listen:
        try:
            meter = asyncio.run(execute(job, directory, options, pools=pools, shared=own, listen=listen, signals=True))
        except KeyboardInterrupt as interrupt:
            done = f"{len(directory.done)} of {len(job.questions) * job.spec.repeats} questions"
            say(f"madke: interrupted after {done}; the same command resumes", err=True)
            raise typer.Exit(exit_status(interrupt)) from None
        finally:
            job.close()
        for line in job.spent:
            say(line, err=True)
    _show_scores(out, meter, own.budget.prices, options)


def _show_plan(
    job: Job, pools: Path | None, out: Path, options: RunOptions, reply_tokens: int, call_seconds: float | None
) -> None:
    from madke.cli.ablate import pace_of, refuse_limits, show_plans
    from madke.experiments.plan import Planner
    from madke.runs.meter import prices_of
    from madke.runs.run_pools import RunPools

    refuse_limits(options)
    own = out / "pools.jsonl"
    file = pools or (own if own.exists() else None)
    knowledge = job.protocol.knowledge
    pool_of = RunPools(file, knowledge, job.questions).of if file and knowledge else None
    prices = prices_of(options)
    plan = Planner(prices=prices, reply_tokens=reply_tokens).plan(job.variant.name, job, pool_of)
    show_plans([plan], prices, pace_of(options, reply_tokens, call_seconds, [out]))


def _show_scores(out: Path, meter: Meter, prices: Prices, options: RunOptions) -> None:
    from madke.cli.progress import why_stopped
    from madke.report.finding import all_failed
    from madke.report.html import write_report
    from madke.report.score_tables import score_table
    from madke.scoring.scored import kept_scores, score_run

    page, metrics = out / "report.html", out / "metrics.json"
    current = page.exists() and metrics.exists() and page.stat().st_mtime_ns >= metrics.stat().st_mtime_ns
    scores = kept_scores(out) if current and not (meter.done or prices) else None
    if scores is None:
        scores = score_run(out, prices=prices)
        write_report([out], page, scores=[scores])
    console().print(score_table([(out.name or str(out), scores)]))
    say(f"transcripts: {out / 'transcripts.jsonl'}\nreport: {page}")
    if scores.failed:
        retried = options.retry_failed and not options.replay
        again = "the same command" if retried else "the command without --keep-failed and --replay"
        say(f"madke: {counted(scores.failed, 'question')} failed; {again} retries them", err=True)
        for reason, count in () if all_failed(scores) else list(scores.failures.items())[:_SHOWN_REASONS]:
            say(f"  {count} x {reason}", err=True)
    degraded = max(0, scores.degraded - scores.failed)
    if degraded and not options.retry_degraded:
        say(
            f"madke: {counted(degraded, 'question')} lost a debater or a verdict; --retry-degraded retries them",
            err=True,
        )
    if meter.left_over:
        say(f"madke: stopped: {why_stopped(meter)}", err=True)
        say(f"unfinished questions: {out / 'unfinished.jsonl'}", err=True)
    if scores.failed or meter.left_over:
        raise typer.Exit(1)
