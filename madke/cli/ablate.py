"""``madke ablate``: the arms of a recipe over the same questions, pools and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say, say_json, say_table, say_wrapped
from madke.cli import flags
from madke.cli.progress import listening, resumable, show_spent, why_stopped
from madke.core.errors import UserError, count_of
from madke.runs.directory import question_files, refuse_own_files
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.experiments.experiment import Experiment
    from madke.experiments.experiment_spec import ExperimentSpec

EPILOG = flags.epilog(
    "Arms share retrieval, and calls with the same prompt and purpose. Each is made and paid once.",
    "With --sources, arms with all sources of the recipe get all of yours. A recipe with an arm for each source gets "
    "one for each of yours. A recipe searches the shipped sample only for the sample questions, or if "
    "--sources names it.",
    flags.EXIT_STATUS,
    flags.PRICES,
    flags.LIMITS,
)


@flags.request_options("experiment", without="engine retry_degraded")
def command(
    request: RunRequest,
    options: RunOptions,
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="YAML file or shipped recipe. Default: list those.")
    ] = None,
    out: Annotated[Path | None, flags.option("Experiment folder. The same command resumes it.", "DIR")] = None,
    data: Annotated[
        list[str] | None, flags.option("Questions, or NAME=PATH for a published dataset. Repeatable.", "[NAME=]PATH")
    ] = None,
    model: Annotated[
        str | None,
        flags.option("Model of arms that name none. Default: the recipe's.", "MODEL", names=("--model", "-m")),
    ] = None,
    models: Annotated[
        str | None, flags.option("Run every arm with each of these models.", "MODEL,...", flags.MODELS)
    ] = None,
    sources: Annotated[
        str | None,
        flags.option("Sources instead of the recipe's, see below.", "NAME=PATH,...", flags.KNOWLEDGE),
    ] = None,
    pools: flags.PoolFiles = None,
    plan: flags.Plan = False,
    as_json: Annotated[bool, flags.switch("--json", "With --plan: print JSON.")] = False,
) -> None:
    """Run all arms of a recipe over the same questions, pools and calls. Compare them and write a report.

    Examples:
      madke ablate
      madke ablate source-ablation --data questions.jsonl --sources docs=./docs,notes=./notes --out runs/sources
      madke ablate RECIPE --data questions.jsonl --plan
      madke ablate RECIPE --data questions.jsonl --out experiments/first
    """
    from madke.cli.run import refuse_limits
    from madke.experiments.experiment_spec import read_experiment_spec
    from madke.experiments.recipe import read_recipe, recipe_files

    if recipe is None:
        recipes = {name: read_recipe(name) for name in recipe_files()}
        rows = [(name, each.title, each.source) for name, each in recipes.items()]
        say_table(("recipe", "title", "source"), rows)
        return
    if plan:
        refuse_limits(options)
    elif as_json:
        raise UserError("--json prints a plan and needs --plan; `madke score --json` prints scores")
    spec = read_experiment_spec(
        recipe,
        data or (),
        request,
        model=model,
        models=() if models is None else [name.strip() for name in models.split(",")],
        sources={} if sources is None else sources,
        pools=pools or (),
    )
    if out is not None and not plan:
        refuse_overwritten(out, data or (), spec, options)
    spec.check(options)
    if plan:
        show_experiment_plan(spec, options, as_json=as_json)
        return
    if out is None:
        raise UserError("--out is missing: the folder to write the experiment to; only --plan works without it")
    _run(spec, out, options)


def refuse_overwritten(out: Path, data: Sequence[str], spec: ExperimentSpec, options: RunOptions) -> None:
    """Refuse inputs that the experiment would overwrite."""
    from madke.retrieval.named import source_paths

    files = [file for text in data for file in question_files(Path(text.rpartition("=")[2]))]
    files += [*source_paths(spec.all_specs), *spec.pools]
    refuse_own_files(out, [*files, *filter(None, (options.prices, spec.file))])


def show_experiment_plan(experiment_spec: ExperimentSpec, options: RunOptions, *, as_json: bool) -> None:
    """Print the plan of an experiment and the published figures, or only the plan as JSON."""
    from madke.cli.run import show_plans
    from madke.experiments.plan import Planner, plan_arms
    from madke.report.reproduction import figures, published_table
    from madke.report.tables import plain_table
    from madke.runs.meter import planned_prices, prices_of

    for error in experiment_spec.unknown_sources():
        say(f"madke: a source is missing; add it or give --pools: {error}", err=True)
    prices = prices_of(options, experiment_spec.models)
    plans = plan_arms(experiment_spec, Planner(prices=planned_prices(prices, options)))
    if as_json:
        say_json([asdict(plan) for plan in plans])
        return
    recipe = experiment_spec.recipe
    say(f"{recipe.title} ({recipe.source})")
    if recipe.about:
        say("\n\n".join(" ".join(part.split()) for part in recipe.about.strip().split("\n\n")))
    say(f"{count_of(len(experiment_spec.questions), 'question')} of {experiment_spec.data}")
    if sources := [f"{name} ({spec})" if spec else name for name, spec in experiment_spec.all_specs.items()]:
        say(f"sources: {', '.join(sources)}")
    show_plans(plans, prices)
    if (published := published_table(recipe, figures(recipe))) is not None:
        say(plain_table(published))


def _run(experiment_spec: ExperimentSpec, out: Path, options: RunOptions) -> None:
    """Run all arms into an experiment's folder, with their progress, and show the results."""
    from madke.cli.run import show_plans
    from madke.experiments.experiment import Experiment
    from madke.runs.meter import budget_of, prices_of

    prices = prices_of(options, experiment_spec.models)
    with resumable():
        with listening() as listen:
            done = Experiment(
                path=out,
                experiment_spec=experiment_spec,
                options=options,
                budget=budget_of(options),
                listen=listen,
                signals=True,
            ).run_arms(
                on_plans=lambda plans: show_plans(plans, prices),
                on_arm=lambda number, arm: say(f"arm {number} of {len(experiment_spec.arms)}: {arm.name}", err=True),
            )
        show_spent(done.sources.values())
        _show_results(done)
    _show_unfinished(done, options)


def _show_results(done: Experiment) -> None:
    """The finding, the scores, the papers' figures and the spending. All tests are in the report."""
    from madke.models.prices import shipped_note
    from madke.report.html import write_report
    from madke.report.reproduction import figures, published_table
    from madke.report.scores import scores_on_terminal
    from madke.report.tables import plain_table
    from madke.scoring.arms import open_results

    recipe, folders = done.experiment_spec.recipe, [*done.arms.values()]
    arms = open_results(folders)
    named, prices = done.scores, done.budget.prices
    published = figures(recipe, folders)
    measured = {(each.arm, each.dataset, each.metric) for each in published if each.ours}
    # A terminal has no room for the others.
    next_to_ours = [each for each in published if (each.arm, each.dataset, each.metric) in measured]
    on_page, on_terminal = ([*filter(None, [published_table(recipe, each)])] for each in (published, next_to_ours))
    # Tests compare each arm with the first one, so the reference comes first.
    arms.sort(key=lambda arm: arm.name != recipe.reference)
    page = done.path / "report.html"
    scores = [named[arm.path.name] for arm in arms]
    *_, finding = write_report(arms, page, scores=scores, title=recipe.title, source=recipe.source, tables=on_page)
    say_wrapped(finding)
    say(scores_on_terminal(named))
    for table in on_terminal:
        say(plain_table(table))
    if (note := shipped_note(prices)) is not None:
        say_wrapped(note)
    say(f"arms: {done.path / 'arms'}\nreport: {page}")


def _show_unfinished(done: Experiment, options: RunOptions) -> None:
    for name, reason in done.unfinished.items():
        why = why_stopped(done.meters[name]) if name in done.meters else reason
        say(f"madke: arm {name!r} is not finished: {why}", err=True)
    if done.waiting:
        say(f"madke: not started after {[*done.meters][-1]!r}: {count_of(len(done.waiting), 'arm')}", err=True)
    failed = sum(scores.failed for scores in done.scores.values())
    if done.unfinished or failed:
        how = "the command without --replay" if options.replay else "the same command"
        reached = done.budget.reached
        how = f"the same command with a higher {reached}" if reached else how
        lost = f"{count_of(failed, 'debate')} failed; " if failed else ""
        say(f"madke: {lost}{how} resumes", err=True)
        raise typer.Exit(1)
