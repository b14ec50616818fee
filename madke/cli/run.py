"""``madke run``: debate a dataset into a run directory; the same command again goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options
from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.core.chat import ChatModel
    from madke.core.question import Question
    from madke.engine.protocol import Knowledge
    from madke.llm import Limiter
    from madke.runs.config import RunConfig
    from madke.runs.directory import RunDirectory
    from madke.runs.meter import Meter
    from madke.runs.pools import RunPools
    from madke.variants import Variant


_REASONS = 3
"""How many reasons of failed questions are shown, the commonest first."""


def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions, JSONL (.gz too).")],
    out: Annotated[Path, typer.Option(help="The run directory; the same command again resumes it.")],
    task: options.Task = None,
    protocol: options.Protocol = "madke",
    model: options.Model = "offline",
    base_url: options.BaseUrl = None,
    cast: options.Cast = None,
    pools: Annotated[Path | None, typer.Option(help="A pool file; without one, pools are built into OUT.")] = None,
    sources: options.Sources = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Debate each question so often.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Sampling seed; each call derives its own. A negative one leaves it to the server.")
    ] = 0,
    settings: options.Settings = None,
    prompts: options.Prompts = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions, and model calls, under way at once.")] = 16,
    rpm: Annotated[int | None, typer.Option(min=1, help="At most so many calls a minute.")] = None,
    tpm: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a minute.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Make the transcripts anew from OUT's call store; no network.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed/--keep-failed", help="Whether questions that failed are run again.")
    ] = True,
) -> None:
    """Debate every question of a dataset; write transcripts, calls, scores and a report into OUT.

    Exit status: 0 every question has an outcome, 1 some failed, 2 bad input, 130 interrupted.
    """
    from madke.cli.console import output
    from madke.data import read_questions
    from madke.files import fingerprint
    from madke.llm import Limiter
    from madke.report.html import write_report
    from madke.report.text import score_table
    from madke.runs.cast import open_models, role_models
    from madke.runs.config import RunConfig
    from madke.runs.directory import RunDirectory
    from madke.runs.meter import Meter
    from madke.runs.pools import RunPools
    from madke.runs.scored import score_run
    from madke.terminal import printable

    questions = read_questions(data, task=task)[:limit]
    variant, specs = options.configured(protocol, prompts, settings or (), sources)
    names = role_models(variant.protocol, model, options.cast_overrides(cast or ()))
    models = open_models(names, base_url=base_url, replay=replay)
    knowledge = variant.protocol.knowledge
    with RunDirectory(out, replay=replay) as directory:
        try:
            pool_file = _pool_file(directory, pools, questions, knowledge, specs)
            run_pools = RunPools(pool_file, knowledge, questions)
            config = RunConfig(
                data=data.name,
                data_sha256=fingerprint(data),
                questions=tuple(question.id for question in questions),
                variant=variant.name,
                protocol=variant.protocol,
                prompts_sha256=variant.fingerprint(),
                models={role: model.name for role, model in models.items()},
                sources=run_pools.sources,
                source_specs=specs,
                pools_sha256=run_pools.sha256,
                seed=seed if seed >= 0 else None,
                repeats=repeats,
            )
            directory.begin(config, retry_failed=retry_failed)
            meter = Meter(total=len(questions) * repeats, resumed=len(directory.done))
            limiter = Limiter(concurrency, rpm, tpm)
            asyncio.run(
                _run(questions, config, variant, models, run_pools, directory, meter, limiter, concurrency, replay)
            )
        except KeyboardInterrupt:
            done = f"{len(directory.done)} of {len(questions) * repeats} questions"
            typer.echo(f"madke: interrupted with {done} done; the same command again goes on from there", err=True)
            raise typer.Exit(130) from None
    scores = score_run(out)
    write_report({out: scores}, out / "report.html")
    output().print(score_table([(str(out), scores)]))
    typer.echo(f"transcripts: {out / 'transcripts.jsonl'}\nreport: {out / 'report.html'}")
    if scores.failed:
        again = (
            "the same command again"
            if retry_failed and not replay
            else "the command without --keep-failed and --replay"
        )
        typer.echo(f"madke: {scores.failed} questions failed; {again} retries them", err=True)
        for reason, count in list(scores.failures.items())[:_REASONS]:
            typer.echo(printable(f"  {count} x {reason}"), err=True)
        raise typer.Exit(1)


def _pool_file(
    directory: RunDirectory,
    pools: Path | None,
    questions: Sequence[Question],
    knowledge: Knowledge | None,
    specs: Mapping[str, str | None],
) -> Path | None:
    """The pool file of the run: the given one, or the one in the run directory, built if need be."""
    from madke.cli.progress import counter
    from madke.cli.sources import open_sources, show_found
    from madke.runs.pools import build_run_pools

    if knowledge is None:
        if pools is not None:
            raise UserError("--pools is given, but the protocol has no knowledge; name --sources, or leave it out")
        return None
    if pools is not None:
        if given := [name for name, spec in specs.items() if spec is not None]:
            raise UserError(f"--sources {given[0]}=...: a pool file is given, so sources are only chosen by name")
        return pools
    own = directory.path / "pools.jsonl"
    if not (directory.path / "run.json").exists():
        # Pools without a run are left of one that was stopped; nothing says what they were built from.
        show_found(build_run_pools(own, questions, knowledge, open_sources(specs), counter("retrieved")))
    elif not own.exists():
        raise UserError("holds a run without pools of its own; name its --pools", file=directory.path)
    return own


async def _run(
    questions: Sequence[Question],
    config: RunConfig,
    variant: Variant,
    models: Mapping[str, ChatModel],
    pools: RunPools,
    directory: RunDirectory,
    meter: Meter,
    limiter: Limiter,
    workers: int,
    replay: bool,
) -> None:
    from madke.cli.progress import shown
    from madke.llm import CallStore, close
    from madke.runs.batch import run_batch
    from madke.runs.cast import guarded

    with CallStore(directory.path / "calls.sqlite") as store:
        cast = guarded(models, limiter=limiter, store=store, replay=replay, meter=meter)
        try:
            async with shown(meter.line):
                await run_batch(
                    questions,
                    variant.protocol,
                    cast,
                    pools.of,
                    prompts=variant,
                    directory=directory,
                    meter=meter,
                    workers=workers,
                    repeats=config.repeats,
                    seed=config.seed,
                )
        finally:
            for model in set(models.values()):
                await close(model)
