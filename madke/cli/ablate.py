"""``madke ablate``: the arms of a recipe over the same questions, pools and calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options as shared
from madke.cli.console import resumable
from madke.cli.outputs import question_files, refuse_own_files
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.experiments.ablation import Ablation
    from madke.experiments.setting import Setting
    from madke.report.tables import Table
    from madke.runs.options import RunOptions


@shared.run_options("engine", "address", "retry_failed", "retry_degraded")
def command(
    options: RunOptions,
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of a shipped recipe.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The experiment's folder; the same command again goes on with it.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[DATASET=]PATH",
            help="Questions: our own JSONL, or NAME=PATH for a published dataset as its owners ship it. Repeatable.",
        ),
    ] = None,
    task: shared.Task = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Who debates where the recipe says nothing. Default: its own.")
    ] = None,
    pools: Annotated[
        list[Path] | None,
        typer.Option(help="A pool file; sources that none holds are asked. Repeatable."),
    ] = None,
    ids: shared.Ids = None,
    limit: shared.Limit = None,
    sample_seed: shared.SampleSeed = None,
    repeats: Annotated[int, typer.Option(min=1, help="Debate each question so often, where no arm says it.")] = 1,
    seed: Annotated[int, typer.Option(help="Sampling seed of the arms.")] = 0,
    prompts: shared.Prompts = None,
    estimator: shared.Estimator = None,
    reply_tokens: Annotated[
        int | None, typer.Option(min=1, help="--plan: tokens that a reply is taken to have. Default: 150.")
    ] = None,
    plan: shared.Plan = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: print the plan as JSON.")] = False,
) -> None:
    """Run every arm of a recipe over frozen pools and one call store, compare them, and write a report.

    What arms have in common (retrieval, and calls with the same prompt for the same purpose) is asked and paid once.
    Without RECIPE, list the shipped ones. Exit status as that of `madke run`.
    """
    from madke.cli.planning import refuse_limits
    from madke.experiments.plan import REPLY_TOKENS
    from madke.experiments.setting import read_setting

    if recipe is None:
        _list_recipes()
        return
    if as_json and not plan:
        raise UserError("--json prints a plan; add --plan, or leave it out (`madke score --json` prints scores)")
    if plan:
        if options.replay:
            raise UserError("--replay asks nobody, so there is nothing to plan; leave out --plan")
        refuse_limits(options)
    setting = read_setting(
        recipe,
        data or (),
        model=model,
        pools=pools or (),
        task=task,
        ids=ids,
        limit=limit,
        sample_seed=sample_seed,
        repeats=repeats,
        seed=seed,
        prompts=prompts,
        estimator=estimator,
    )
    if out is not None and not plan:
        _refuse_own_files(out, setting, [Path(text.rpartition("=")[2]) for text in data or ()], options)
    setting.check(options)
    if plan:
        _show_plan(setting, options, reply_tokens or REPLY_TOKENS, as_json=as_json)
        return
    if out is None:
        raise UserError("--out is missing: the folder that the experiment is written to; --plan needs none")
    _run(setting, out, options, reply_tokens or REPLY_TOKENS)


def _list_recipes() -> None:
    from rich.table import Table

    from madke.experiments.recipe import read_recipe, recipe_files

    table = Table("recipe", "what", "after")
    for name in recipe_files():
        recipe = read_recipe(name)
        table.add_row(name, recipe.title, recipe.source)
    console().print(table)


def _refuse_own_files(out: Path, setting: Setting, data: Sequence[Path], options: RunOptions) -> None:
    from madke.knowledge.named import source_paths

    files = [file for path in data for file in question_files(path)]
    files += [*source_paths(setting.all_specs), *setting.pools, *filter(None, (options.prices, setting.file))]
    refuse_own_files(out, [path for path in files if path.is_file()])


def _show_plan(setting: Setting, options: RunOptions, reply_tokens: int, *, as_json: bool) -> None:
    from dataclasses import asdict

    from madke.cli.planning import show_plans
    from madke.experiments.plan import Planner, planned
    from madke.llm.prices import read_prices
    from madke.report.experiment_tables import published_table

    for error in setting.unknown_sources():
        say(f"madke: --pools, or a source, is missing: {error}", err=True)
    prices = read_prices(options.prices) if options.prices else {}
    plans = planned(setting, Planner(prices=prices, reply_tokens=reply_tokens))
    if as_json:
        say_json(json.dumps([asdict(plan) for plan in plans]))
        return
    recipe = setting.recipe
    say(f"{recipe.title} ({recipe.source})")
    if recipe.about:
        say(recipe.about.strip())
    say(f"{len(setting.questions):,} questions of {setting.data}")
    show_plans(plans, prices, reply_tokens)
    _show_tables([published_table(recipe)])


def _show_tables(tables: Sequence[Table | None]) -> None:
    from madke.report.tables import rich_table

    for table in filter(None, tables):
        console().print(rich_table(table))


def _run(setting: Setting, out: Path, options: RunOptions, reply_tokens: int) -> None:
    from madke.cli.planning import show_plans
    from madke.cli.sources import listening
    from madke.experiments.ablation import run_experiment
    from madke.llm.prices import read_prices

    prices = read_prices(options.prices) if options.prices else {}
    with resumable():
        with listening() as listen:
            done = run_experiment(
                setting,
                out,
                options,
                listen=listen,
                on_plans=lambda plans: show_plans(plans, prices, reply_tokens),
                on_arm=lambda number, arm: say(f"arm {number} of {len(setting.arms)}: {arm.name}", err=True),
                reply_tokens=reply_tokens,
                signals=True,
            )
        for line in done.spent:
            say(line, err=True)
        _show_results(done)
    _show_unfinished(done, options)


def _show_results(done: Ablation) -> None:
    """Show and write what all arms that have begun came to."""
    from madke.llm import CallStore
    from madke.report.comparison import NO_ROOM
    from madke.report.experiment_tables import published_table, spending_table
    from madke.report.html import write_report
    from madke.report.score_tables import score_table
    from madke.report.tables import rich_table
    from madke.runs.services import SERVICE_STAGES
    from madke.scoring.arms import open_results

    recipe, folders = done.setting.recipe, [*done.arms.values()]
    console().print(score_table([*done.scores.items()]))
    by_folder = {done.arms[name]: scores for name, scores in done.scores.items()}
    with CallStore(done.path / "calls.sqlite") as store:
        spent = spending_table(done.plans, by_folder, store.paid(without=SERVICE_STAGES), done.budget.prices)
    tables = list(filter(None, (published_table(recipe, folders), spent)))
    # Of many arms each is tested against the first.
    arms = open_results(sorted(folders, key=lambda folder: folder.name != recipe.reference))
    page = done.path / "report.html"
    scores = [by_folder[arm.path] for arm in arms]
    own = write_report(arms, page, scores=scores, title=recipe.title, source=recipe.source, tables=tables)
    if tests := own.get("tests"):
        console().print(rich_table(tests, NO_ROOM))
    _show_tables(tables)
    say(f"arms: {done.path / 'arms'}\nreport: {page}")


def _show_unfinished(done: Ablation, options: RunOptions) -> None:
    """Say what is not finished and how it goes on; exit status 1 if anything is."""
    from madke.cli.progress import why_stopped

    for name, reason in done.unfinished.items():
        said = why_stopped(done.meters[name]) if name in done.meters else reason
        say(f"madke: arm {name!r} is not finished: {said}", err=True)
    if done.waiting:
        say(f"madke: {len(done.waiting)} arms after {[*done.meters][-1]!r} have not begun", err=True)
    failed = sum(scores.failed for scores in done.scores.values())
    if done.unfinished or failed:
        which = "the command without --replay" if options.replay else "the same command again"
        again = f"{f'a higher {done.budget.reached}' if done.budget.reached else which} goes on"
        say(f"madke: {again}{f', {failed} debates failed' if failed else ''}", err=True)
        raise typer.Exit(1)
