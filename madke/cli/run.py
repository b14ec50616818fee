"""``madke run``: debate a dataset into a run directory; the same command again goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options
from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.core.chat import ChatModel
    from madke.core.knowledge import Source
    from madke.core.question import Question
    from madke.data import Given
    from madke.engine.protocol import Knowledge, Protocol
    from madke.runs.directory import RunDirectory
    from madke.runs.meter import Meter
    from madke.runs.services import LiveSearch


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
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="First-round stances from outside: JSON lines of id and stances (agent, text, answer), or a run, "
            "whose first round is taken over.",
        ),
    ] = None,
    estimator: options.Estimator = None,
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
    from madke.cli.sources import open_sources, show_spent
    from madke.data import read_questions
    from madke.files import fingerprint
    from madke.llm import CallStore, Limiter, Stored
    from madke.runs.batch import run_batch
    from madke.runs.cast import guarded, open_models, role_models
    from madke.runs.config import RunConfig
    from madke.runs.directory import RunDirectory
    from madke.runs.meter import Meter, Metered
    from madke.runs.pools import RunPools
    from madke.runs.services import QualityEstimator, estimating, searching

    questions = read_questions(data, task=task)[:limit]
    variant, specs = options.configured(protocol, prompts, settings or (), sources, given=given is not None)
    options.check_needs(variant, questions, given=given is not None, estimator=estimator)
    names = role_models(variant.protocol, model, options.cast_overrides(cast or ()))
    models = open_models(names, base_url=base_url, replay=replay)
    scorer = QualityEstimator(estimator, replay=replay) if estimator is not None else None
    first = _first_rounds(given, questions, variant.protocol, repeats)
    knowledge = variant.protocol.knowledge
    opened = cache(lambda: open_sources(specs))
    with RunDirectory(out, replay=replay) as directory:
        try:
            pool_file = _pool_file(directory, pools, questions, knowledge, specs, opened)
            run_pools = RunPools(pool_file, knowledge, questions)
            live = _live_search(directory, knowledge, opened, replay)
            config = RunConfig(
                data=data.name,
                data_sha256=fingerprint(data),
                task=task,
                questions=tuple(question.id for question in questions),
                variant=variant.name,
                protocol=variant.protocol,
                prompts_sha256=variant.fingerprint(),
                models={role: model.name for role, model in models.items()},
                sources=run_pools.sources,
                source_specs=specs,
                pools_sha256=run_pools.sha256,
                searched=live.served_by if live else {},
                given_sha256=first.sha256 if first else None,
                estimator=estimator,
                seed=seed if seed >= 0 else None,
                repeats=repeats,
            )
            directory.begin(config, retry_failed=retry_failed)
            meter = Meter(total=len(questions) * repeats, resumed=len(directory.done))
            with CallStore(directory.path / "calls.sqlite") as store:

                def kept(service: ChatModel) -> ChatModel:
                    return Stored(Metered(service, meter), store, replay=replay)

                limiter = Limiter(concurrency, rpm, tpm)
                batch = run_batch(
                    questions,
                    variant.protocol,
                    guarded(models, limiter=limiter, store=store, replay=replay, meter=meter),
                    run_pools.of,
                    prompts=variant,
                    directory=directory,
                    meter=meter,
                    workers=concurrency,
                    repeats=repeats,
                    seed=config.seed,
                    given=first,
                    retrieve=searching(kept(live), knowledge) if live and knowledge else None,
                    estimate=estimating(kept(scorer)) if scorer else None,
                )
                asyncio.run(_watched(batch, meter, models.values()))
            if live and not replay:
                show_spent(opened())
        except KeyboardInterrupt:
            done = f"{len(directory.done)} of {len(questions) * repeats} questions"
            typer.echo(f"madke: interrupted with {done} done; the same command again goes on from there", err=True)
            raise typer.Exit(130) from None
    _show_scores(out, retried=retry_failed and not replay)


def _show_scores(out: Path, *, retried: bool) -> None:
    """Write and show scores and report; exit status 1 where questions failed, which the same command may retry."""
    from madke.cli.console import output
    from madke.report.html import write_report
    from madke.report.text import score_table
    from madke.runs.scored import score_run
    from madke.terminal import printable

    scores = score_run(out)
    write_report({out: scores}, out / "report.html")
    output().print(score_table([(str(out), scores)]))
    typer.echo(f"transcripts: {out / 'transcripts.jsonl'}\nreport: {out / 'report.html'}")
    if scores.failed:
        again = "the same command again" if retried else "the command without --keep-failed and --replay"
        typer.echo(f"madke: {scores.failed} questions failed; {again} retries them", err=True)
        for reason, count in list(scores.failures.items())[:_REASONS]:
            typer.echo(printable(f"  {count} x {reason}"), err=True)
        raise typer.Exit(1)


def _first_rounds(given: Path | None, questions: Sequence[Question], protocol: Protocol, repeats: int) -> Given | None:
    """What ``--given`` names: a file of stances, or a run whose first round is taken over."""
    from madke.data import first_rounds, read_given
    from madke.runs.directory import read_transcripts

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


def _live_search(
    directory: RunDirectory, knowledge: Knowledge | None, opened: Callable[[], list[Source]], replay: bool
) -> LiveSearch | None:
    """Who makes the searches of debaters, where they may search.

    A replay opens no source: what they were is what its run says.
    """
    from madke.runs.directory import read_config
    from madke.runs.pools import depth
    from madke.runs.services import LiveSearch

    if knowledge is None or not knowledge.requery:
        return None
    sources = [] if replay else opened()
    served_by = read_config(directory.path).searched if replay else {s.name: s.description for s in sources}
    return LiveSearch(served_by, sources, depth(knowledge))


async def _watched(batch: Coroutine[None, None, None], meter: Meter, models: Iterable[ChatModel]) -> None:
    """Run the batch behind a line of progress, and close the models."""
    from madke.cli.progress import shown
    from madke.llm import close

    try:
        async with shown(meter.line):
            await batch
    finally:
        for model in set(models):
            await close(model)
