"""``madke ablate``: the arms of a recipe over the same questions, pools and calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from madke.cli import flags
from madke.cli.paths import question_files, refuse_own_files
from madke.core.errors import UserError
from madke.core.wording import counted
from madke.runs.options import RunOptions
from madke.terminal import console, say, say_json, say_table, say_wrapped

if TYPE_CHECKING:
    from madke.experiments.experiment import Experiment
    from madke.experiments.experiment_spec import ExperimentSpec
    from madke.experiments.load import Load, Pace
    from madke.experiments.plan import Planned
    from madke.llm.prices import Prices
    from madke.report.tables import Table


EPILOG = flags.epilog(
    "Arms share retrieval, and calls with the same prompt and purpose. Each is made and paid once.",
    flags.EXIT_STATUS,
    flags.PRICES,
    flags.LIMITS,
    "Examples:",
    "  madke ablate",
    "  madke ablate RECIPE --data questions.jsonl --plan",
    "  madke ablate RECIPE --data questions.jsonl --out experiments/first",
)


@flags.shared_options(
    "task limit ids sample_seed prompts answer_scorer", without="engine address retry_failed retry_degraded"
)
def command(
    shared: dict[str, Any],
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
    pools: Annotated[
        list[Path] | None,
        flags.option("Pool file. Missing sources are retrieved. Repeatable.", "FILE", flags.KNOWLEDGE),
    ] = None,
    repeats: Annotated[int, flags.option("Runs per question, for arms that set none.", "N", flags.PROTOCOL, min=1)] = 1,
    seed: Annotated[int, flags.option("Sampling seed of all arms.", "N", flags.PROTOCOL)] = 0,
    plan: flags.Plan = False,
    reply_tokens: flags.ReplyTokens = 150,
    call_seconds: flags.CallSeconds = None,
    as_json: Annotated[bool, flags.switch("--json", "With --plan: print JSON.")] = False,
) -> None:
    """Run all arms of a recipe over the same questions, pools and calls. Compare them and write a report."""
    from madke.experiments.experiment_spec import read_experiment_spec
    from madke.experiments.recipe import read_recipe, recipe_files
    from madke.knowledge.named import source_paths

    if recipe is None:
        recipes = {name: read_recipe(name) for name in recipe_files()}
        rows = [(name, each.title, each.source) for name, each in recipes.items()]
        say_table(("recipe", "title", "source"), rows)
        return
    if as_json and not plan:
        raise UserError("--json prints a plan and needs --plan; `madke score --json` prints scores")
    if plan:
        if options.replay:
            raise UserError("--replay makes no calls, so there is nothing to plan; leave out --plan")
        refuse_limits(options)
    experiment_spec = read_experiment_spec(
        recipe, data or (), model=model, pools=pools or (), repeats=repeats, seed=seed, **shared
    )
    if out is not None and not plan:
        files = [file for text in data or () for file in question_files(Path(text.rpartition("=")[2]))]
        files += [*source_paths(experiment_spec.all_specs), *experiment_spec.pools]
        refuse_own_files(out, [*files, *filter(None, (options.prices, experiment_spec.file))])
    experiment_spec.check(options)
    pace = pace_of(options, reply_tokens, call_seconds, sorted(out.glob("arms/*")) if out else ())
    if plan:
        _show_plan(experiment_spec, options, pace, as_json=as_json)
        return
    if out is None:
        raise UserError("--out is missing: the folder to write the experiment to; only --plan works without it")
    _run(experiment_spec, out, options, pace)


def _show_plan(experiment_spec: ExperimentSpec, options: RunOptions, pace: Pace, *, as_json: bool) -> None:
    from madke.experiments.plan import Planner, planned
    from madke.report.experiment_tables import published_table
    from madke.runs.meter import prices_of

    for error in experiment_spec.unknown_sources():
        say(f"madke: a source is missing; add it or give --pools: {error}", err=True)
    prices = prices_of(options)
    plans = planned(experiment_spec, Planner(prices=prices, reply_tokens=pace.reply_tokens))
    if as_json:
        say_json([{**asdict(plan), "seconds": pace.seconds([plan])} for plan in plans])
        return
    recipe = experiment_spec.recipe
    say(f"{recipe.title} ({recipe.source})")
    if recipe.about:
        say(recipe.about.strip())
    say(f"{counted(len(experiment_spec.questions), 'question')} of {experiment_spec.data}")
    show_plans(plans, prices, pace)
    _show_tables([published_table(recipe)])


def _show_tables(tables: Sequence[Table | None]) -> None:
    from madke.report.tables import rich_table

    for table in filter(None, tables):
        console().print(rich_table(table))


def _run(experiment_spec: ExperimentSpec, out: Path, options: RunOptions, pace: Pace) -> None:
    from madke.cli.progress import listening, resumable
    from madke.experiments.ablation import run_experiment
    from madke.runs.meter import prices_of

    prices = prices_of(options)
    with resumable():
        with listening() as listen:
            done = run_experiment(
                experiment_spec,
                out,
                options,
                listen=listen,
                on_plans=lambda plans: show_plans(plans, prices, pace),
                on_arm=lambda number, arm: say(f"arm {number} of {len(experiment_spec.arms)}: {arm.name}", err=True),
                reply_tokens=pace.reply_tokens,
                signals=True,
            )
        for line in done.spent:
            say(line, err=True)
        _show_results(done)
    _show_unfinished(done, options)


def _show_results(done: Experiment) -> None:
    from madke.llm import CallStore
    from madke.report.comparison import NOT_ON_TERMINALS
    from madke.report.experiment_tables import published_table, spending_table
    from madke.report.html import write_report
    from madke.report.score_tables import score_table
    from madke.report.tables import rich_table
    from madke.runs.cast import SERVICE_STAGES
    from madke.scoring.arms import open_results

    recipe, folders = done.experiment_spec.recipe, [*done.arms.values()]
    arms = open_results(folders)
    named = done.scores
    console().print(score_table([*named.items()]))
    by_folder = {done.arms[name]: scores for name, scores in named.items()}
    with CallStore(done.path / "calls.sqlite") as store:
        spent = spending_table(done.plans, by_folder, store.paid(without=SERVICE_STAGES), done.account.budget.prices)
    tables = list(filter(None, (published_table(recipe, folders), spent)))
    # Tests compare each arm with the first one, so the reference comes first.
    arms.sort(key=lambda arm: arm.name != recipe.reference)
    page = done.path / "report.html"
    scores = [by_folder[arm.path] for arm in arms]
    own, _ = write_report(arms, page, scores=scores, title=recipe.title, source=recipe.source, tables=tables)
    if tests := own.get("tests"):
        console().print(rich_table(tests, NOT_ON_TERMINALS))
    _show_tables(tables)
    say(f"arms: {done.path / 'arms'}\nreport: {page}")


def _show_unfinished(done: Experiment, options: RunOptions) -> None:
    from madke.cli.progress import why_stopped

    for name, reason in done.unfinished.items():
        why = why_stopped(done.meters[name]) if name in done.meters else reason
        say(f"madke: arm {name!r} is not finished: {why}", err=True)
    if done.waiting:
        say(f"madke: not started after {[*done.meters][-1]!r}: {counted(len(done.waiting), 'arm')}", err=True)
    failed = sum(scores.failed for scores in done.scores.values())
    if done.unfinished or failed:
        how = "the command without --replay" if options.replay else "the same command"
        reached = done.account.budget.reached
        how = f"the same command with a higher {reached}" if reached else how
        lost = f"{counted(failed, 'debate')} failed; " if failed else ""
        say(f"madke: {lost}{how} resumes", err=True)
        raise typer.Exit(1)


def refuse_limits(options: RunOptions) -> None:
    """Refuse limits together with ``--plan``."""
    if any(limit is not None for limit in (options.max_cost, options.token_budget, options.deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def pace_of(options: RunOptions, reply_tokens: int, call_seconds: float | None, before: Iterable[Path]) -> Pace:
    """The pace for planned durations; ``before`` are run directories whose earlier commands are measured."""
    from madke.experiments.load import Pace, measured_pace

    return Pace(options=options, reply_tokens=reply_tokens, call_seconds=call_seconds, measured=measured_pace(before))


def show_plans(plans: Sequence[Planned], prices: Prices, pace: Pace) -> None:
    """Print planned calls, tokens, cost and time, from the shortest to the longest debates, and their assumptions."""
    from madke.cli.progress import duration
    from madke.experiments.load import Load
    from madke.report.experiment_tables import planned_range

    rows = [
        (plan.name, f"{plan.debates:,}", *_cells(plan.least, plan.most, bool(prices) and not plan.unpriced))
        for plan in plans
    ]
    if len(plans) > 1:
        least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
        rows.append(("total", f"{sum(p.debates for p in plans):,}", *_cells(least, most, bool(prices))))
    headings = ("run", "debates", "calls", "paid calls", "prompt tokens", "completion tokens", "cost")
    say_table(headings, rows, figures=headings[1:])
    shortest, longest = map(duration, pace.seconds(plans))
    between = shortest if shortest == longest else f"{shortest} to {longest}"
    notes = [
        f"Duration: {between}, estimated from {pace.basis(plans)}.",
        "Ranges go from debates that end as early as possible to debates that use all rounds, without failed calls. "
        f"Tokens are estimates for paid calls: four characters per prompt token, {pace.reply_tokens} tokens per reply.",
    ]
    if len(plans) > 1:
        notes.append(
            "A call that several runs make with the same prompt and purpose is paid once, by the first of them. "
            "Identical replies can make more calls shared."
        )
    if assumed := [plan.name for plan in plans if plan.assumed_passages]:
        which = "" if len(assumed) == len(plans) else f" of {', '.join(assumed)}"
        notes.append(f"Passages{which} are not retrieved yet; assumed: 100 words each.")
    if sized := [f"{p.name} {planned_range(*p.debaters)}" for p in plans if p.debaters]:
        notes.append(f"Debaters needed to match the estimated cost of another run: {', '.join(sized)}.")
    unpriced = sorted({model for plan in plans for model in plan.unpriced})
    if unpriced and prices:
        notes.append(f"No price for {', '.join(unpriced)}.")
    if not prices:
        notes.append("No cost: give prices with --prices.")
    say_wrapped("\n".join(notes))


def _cells(least: Load, most: Load, priced: bool) -> list[str]:
    from madke.report.experiment_tables import planned_range

    figures = [
        planned_range(getattr(least, name), getattr(most, name))
        for name in ("calls", "paid", "prompt_tokens", "completion_tokens")
    ]
    return [*figures, planned_range(least.cost, most.cost, digits=2) if priced else "-"]
