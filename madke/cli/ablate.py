"""``madke ablate``: the arms of a recipe over the same questions, pools and calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options
from madke.cli.console import resumable
from madke.cli.outputs import question_files, refuse_own_files
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.core.knowledge import Source
    from madke.core.question import Question
    from madke.experiments.experiment import Experiment
    from madke.experiments.plan import Planned, Planner
    from madke.experiments.recipe import Recipe
    from madke.experiments.setting import Setting
    from madke.report.tables import Table
    from madke.runs.budget import Budget
    from madke.runs.job import Effort


def command(
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
    task: options.Task = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Who debates where the recipe says nothing. Default: its own.")
    ] = None,
    base_url: options.BaseUrl = None,
    pools: Annotated[
        list[Path] | None,
        typer.Option(help="A pool file; sources that none holds are asked. Repeatable."),
    ] = None,
    ids: options.Ids = None,
    limit: options.Limit = None,
    sample_seed: options.SampleSeed = None,
    repeats: Annotated[int, typer.Option(min=1, help="Debate each question so often, where no arm says it.")] = 1,
    seed: Annotated[int, typer.Option(help="Sampling seed of the arms.")] = 0,
    prompts: options.Prompts = None,
    estimator: options.Estimator = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions, and model calls, under way at once.")] = 16,
    rpm: Annotated[int | None, typer.Option(min=1, help="At most so many calls a minute.")] = None,
    tpm: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a minute.")] = None,
    prices: options.Prices = None,
    max_cost: options.MaxCost = None,
    token_budget: options.TokenBudget = None,
    deadline: options.Deadline = None,
    reply_tokens: Annotated[
        int | None, typer.Option(min=1, help="--plan: tokens that a reply is taken to have. Default: 150.")
    ] = None,
    plan: options.Plan = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Make the transcripts of all arms anew from OUT's call store; no network."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: print the plan as JSON.")] = False,
) -> None:
    """Run every arm of a recipe over frozen pools and one call store, compare them, and write a report.

    What arms have in common (retrieval, and calls with the same prompt for the same purpose) is asked and paid once.
    Without RECIPE, list the shipped ones. Exit status as that of `madke run`.
    """
    from madke.cli.limits import allow_connections, monotonic_deadline, refuse_limits
    from madke.experiments.plan import REPLY_TOKENS, Planner
    from madke.experiments.recipe import read_recipe, recipe_file
    from madke.experiments.setting import Setting
    from madke.knowledge.named import source_paths
    from madke.llm.prices import read_prices
    from madke.runs.budget import Budget
    from madke.runs.job import Effort

    if recipe is None:
        _list_recipes()
        return
    if as_json and not plan:
        raise UserError("--json prints a plan; add --plan, or leave it out (`madke score --json` prints scores)")
    if plan:
        if replay:
            raise UserError("--replay asks nobody, so there is nothing to plan; leave out --plan")
        refuse_limits(max_cost, token_budget, deadline)
    found = read_recipe(recipe)
    if model is not None:
        found = found.model_copy(update={"model": model})
    limit = found.limit if limit is None else limit
    if sample_seed is None and limit is not None:
        sample_seed = found.sample_seed
    setting = Setting(
        recipe=found,
        file=recipe_file(recipe),
        data=", ".join(Path(text.rpartition("=")[2]).name for text in data or ()),
        datasets=tuple(name for name, equals, _ in (text.rpartition("=") for text in data or ()) if equals),
        sample_seed=sample_seed,
        questions=_questions(found, data or (), task, ids, limit, sample_seed),
        base_url=base_url,
        pools=pools or (),
        prompts=prompts,
        estimator=estimator,
        repeats=repeats,
        seed=seed,
    )
    if out is not None and not plan:
        files = [file for text in data or () for file in question_files(Path(text.rpartition("=")[2]))]
        files += [*source_paths(setting.all_specs()), *setting.pools, *filter(None, (prices, Path(recipe)))]
        refuse_own_files(out, [path for path in files if path.is_file()])
    _check(setting)
    known = read_prices(prices) if prices else {}
    planner = Planner(prices=known, reply_tokens=reply_tokens or REPLY_TOKENS)
    if plan:
        _show_plan(setting, planner, as_json=as_json)
        return
    if out is None:
        raise UserError("--out is missing: the folder that the experiment is written to; --plan needs none")
    budget = Budget(prices=known, max_cost=max_cost, max_tokens=token_budget)
    budget.check({model for job in setting.jobs for model in job.models.values()})
    allow_connections(concurrency)
    effort = Effort(
        concurrency=concurrency,
        rpm=rpm,
        tpm=tpm,
        replay=replay,
        budget=budget,
        deadline=monotonic_deadline(deadline),
    )
    _run(setting, planner, out, effort, budget)


def _list_recipes() -> None:
    from rich.table import Table

    from madke.experiments.recipe import read_recipe, recipe_files

    table = Table("recipe", "what", "after")
    for name in recipe_files():
        recipe = read_recipe(name)
        table.add_row(name, recipe.title, recipe.source)
    console().print(table)


def _check(setting: Setting) -> None:
    """Refuse what no arm would use, and arms that lack something, before anything is asked; say what looks wrong."""
    from madke.experiments.recipe import remarks

    if setting.base_url is not None and not any(job.base_url for job in setting.jobs):
        raise UserError("--base-url is for openai/NAME and azure/DEPLOYMENT; no arm has such a model")
    if setting.estimator is not None and not any(job.estimator for job in setting.jobs):
        raise UserError("--estimator is for finish = rerank; no arm has it")
    for arm, job in zip(setting.arms, setting.jobs, strict=True):
        options.check_needs(job.variant, setting.questions, given=arm.given is not None, estimator=job.estimator)
    setting.check_units()
    setting.open_all()
    datasets = {str(name) for question in setting.questions if (name := question.metadata.get("dataset"))}
    for remark in remarks(setting.recipe, datasets):
        say(f"madke: {setting.file}: {remark}", err=True)


def _questions(
    recipe: Recipe,
    data: Sequence[str],
    task: str | None,
    ids: str | None,
    limit: int | None,
    sample_seed: int | None,
) -> list[Question]:
    """The questions of all datasets, one after the other; ids are told apart by the dataset where that is needed."""
    from collections import Counter
    from dataclasses import replace

    from madke.data import read_dataset
    from madke.data.sampling import chosen

    if not data:
        wanted = f"; it is made for {', '.join(recipe.datasets)}" if recipe.datasets else ""
        raise UserError(f"--data is missing: the questions of the experiment{wanted}")
    sets = []
    for text in data:
        name, equals, path = text.rpartition("=")
        read = read_dataset(Path(path), dataset=name if equals else None, task=task)
        listed = ids or recipe.ids.get(name or str(read[0].metadata.get("dataset")))
        read = chosen(read, lambda question: question.id, Path(path), ids=listed, limit=limit, seed=sample_seed)
        sets.append((name or Path(path).stem, read))
    all_ids = [question.id for _, read in sets for question in read]
    if len(set(all_ids)) == len(all_ids):
        return [question for _, read in sets for question in read]
    apart = [replace(question, id=f"{name}/{question.id}") for name, read in sets for question in read]
    for id_, count in Counter(question.id for question in apart).items():
        if count > 1:
            raise UserError(f"--data: {count} questions have the id {id_!r}; name files of one name apart, or one once")
    return apart


def _show_plan(setting: Setting, planner: Planner, *, as_json: bool) -> None:
    from madke.cli.planning import plans_as_json, show_plans
    from madke.experiments.plan import planned
    from madke.report.experiment_tables import published_table

    for error in setting.unknown_sources():
        say(f"madke: --pools, or a source, is missing: {error}", err=True)
    plans = planned(setting, planner)
    if as_json:
        say_json(json.dumps(plans_as_json(plans)))
        return
    recipe = setting.recipe
    say(f"{recipe.title} ({recipe.source})")
    if recipe.about:
        say(recipe.about.strip())
    say(f"{len(setting.questions):,} questions of {setting.data}")
    show_plans(plans, planner.prices, planner.reply_tokens)
    _show_tables([published_table(recipe)])


def _show_tables(tables: Sequence[Table | None]) -> None:
    from madke.report.tables import rich_table

    for table in filter(None, tables):
        console().print(rich_table(table))


def _run(setting: Setting, planner: Planner, out: Path, effort: Effort, budget: Budget) -> None:
    from madke.cli.planning import show_plans
    from madke.cli.progress import counter, showing, why_stopped
    from madke.cli.sources import open_sources, show_found, show_spent
    from madke.experiments.experiment import opened
    from madke.experiments.plan import planned
    from madke.experiments.record import read_experiment

    asked: list[Source] = []

    def ask(specs: Mapping[str, str | None]) -> Sequence[Source]:
        if effort.replay:
            raise UserError(f"--replay asks nobody, and there are no pools of {', '.join(specs)}")
        asked.extend(found := open_sources(specs))
        return found

    with resumable(), opened(out, setting, replay=effort.replay) as experiment:
        if found := experiment.begin(ask, counter("retrieved")):
            show_found(found)
        pools = experiment.pools if experiment.pools.exists() else None
        plans = planned(setting, planner, pools, debaters=experiment.debaters)
        show_plans(plans, planner.prices, planner.reply_tokens)
        unfinished: dict[str, str] = {}
        wrong: list[UserError] = []
        for number, arm in enumerate(setting.arms, start=1):
            if reason := experiment.waits_for(arm):
                unfinished[arm.name] = reason
                continue
            say(f"arm {number} of {len(setting.arms)}: {arm.name}", err=True)
            try:
                meter = experiment.run(arm, effort, ask=ask, watch=lambda meter: showing(meter.line))
            except UserError as error:  # what other arms have, or will have, paid for is theirs
                unfinished[arm.name] = str(error)
                wrong.append(error)
                continue
            if meter.left_over:
                unfinished[arm.name] = why_stopped(meter)
                if not meter.stopped:
                    continue  # a replay that lacks calls
                if later := len(setting.arms) - number:
                    say(f"madke: {later} arms after {arm.name!r} have not begun", err=True)
                break
        show_spent(asked)
        if wrong and not read_experiment(out)[1]:
            raise wrong[0]
        failed = _show_results(experiment, plans, budget)
    for name, reason in unfinished.items():
        say(f"madke: arm {name!r} is not finished: {reason}", err=True)
    if unfinished or failed:
        which = "the command without --replay" if effort.replay else "the same command again"
        again = f"{f'a higher {budget.reached}' if budget.reached else which} goes on"
        say(f"madke: {again}{f', {failed} debates failed' if failed else ''}", err=True)
        raise typer.Exit(1)


def _show_results(experiment: Experiment, plans: Sequence[Planned], budget: Budget) -> int:
    """Score all arms that have begun, show and write everything; returns how many debates failed."""
    from madke.experiments.record import read_experiment
    from madke.llm import CallStore
    from madke.report.experiment_tables import published_table, spending_table
    from madke.report.html import write_page
    from madke.report.score_tables import score_table
    from madke.report.side_by_side import NO_ROOM
    from madke.report.tables import rich_table
    from madke.runs.services import SERVICE_STAGES
    from madke.scoring.arms import open_results
    from madke.scoring.scored import score_run

    recipe = experiment.setting.recipe
    _, folders = read_experiment(experiment.path)
    scores = {folder: score_run(folder, prices=budget.prices) for folder in folders}
    console().print(score_table([(folder.name, found) for folder, found in scores.items()]))
    with CallStore(experiment.calls) as store:
        spent = spending_table(plans, scores, store.paid(without=SERVICE_STAGES), budget.prices)
    tables = list(filter(None, (published_table(recipe, folders), spent)))
    # Of many arms each is tested against the first.
    arms = open_results(sorted(folders, key=lambda folder: folder.name != recipe.reference))
    page = experiment.path / "report.html"
    named = {arm.name: scores[arm.path] for arm in arms}
    own = write_page(arms, named, page, title=recipe.title, source=recipe.source, tables=tables)
    if tests := own.get("tests"):
        console().print(rich_table(tests, NO_ROOM))
    _show_tables(tables)
    say(f"arms: {experiment.path / 'arms'}\nreport: {page}")
    return sum(found.failed for found in scores.values())
