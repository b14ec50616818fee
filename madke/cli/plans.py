"""Plans of ``madke run``, ``ablate`` and ``study``, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from madke._util.terminal import say, say_json, say_table, say_wrapped
from madke.core.errors import UserError, count_of
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.plan import REPLY_TOKENS, Load, Planned, Planner, planned, planned_range
from madke.models.model_names import model_kind
from madke.models.prices import Prices, shipped_note
from madke.runs.meter import planned_prices, prices_of
from madke.runs.request import RunOptions


def refuse_limits(options: RunOptions) -> None:
    """Refuse limits and replay together with ``--plan``."""
    if options.replay:
        raise UserError("--replay makes no calls, so there is nothing to plan; leave out --plan")
    if any(limit is not None for limit in (options.max_cost, options.token_budget, options.deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def show_experiment_plan(experiment_spec: ExperimentSpec, options: RunOptions, *, as_json: bool) -> None:
    """Print the plan of an experiment and the published figures, or only the plan as JSON."""
    from madke.report.reproduction import figures, published_table
    from madke.report.tables import plain_table

    for error in experiment_spec.unknown_sources():
        say(f"madke: a source is missing; add it or give --pools: {error}", err=True)
    prices = prices_of(options, experiment_spec.models)
    plans = planned(experiment_spec, Planner(prices=planned_prices(prices, options)))
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


def show_plans(plans: Sequence[Planned], prices: Prices) -> None:
    """Print planned calls, tokens and cost, from the shortest to the longest debates, and their assumptions."""
    least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
    rows = [(plan.name, plan.debates, plan.least, plan.most, bool(plan.unpriced)) for plan in plans]
    if len(plans) > 1:
        rows.append(("total", sum(p.debates for p in plans), least, most, False))
    counts = {"calls": "calls", "new calls": "paid", "prompt tokens": "prompt_tokens"}
    counts["completion tokens"] = "completion_tokens"
    headings = ["run", "debates", *counts, *(["cost"] if prices else [])]
    say_table(
        headings,
        [
            (
                name,
                f"{debates:,}",
                *(planned_range(getattr(low, count), getattr(high, count)) for count in counts.values()),
                *(["-" if unpriced else planned_range(low.cost, high.cost, digits=4)] if prices else []),
            )
            for name, debates, low, high, unpriced in rows
        ],
        figures=headings[1:],
    )
    notes = [
        "Ranges go from debates that end as early as possible to debates that use all rounds, without failed calls. "
        f"Tokens are estimates for new calls: four characters per prompt token, {REPLY_TOKENS} tokens per reply.",
    ]
    if len(plans) > 1:
        notes.append("A call that several runs make with the same prompt and purpose is new only in the first of them.")
    if assumed := [plan.name for plan in plans if plan.assumed_passages]:
        which = "" if len(assumed) == len(plans) else f" of {', '.join(assumed)}"
        notes.append(f"Passages{which} are not retrieved yet; assumed: 100 words each.")
    notes += [
        f"Debaters of {plan.name}: {planned_range(*plan.debaters)}, to cost as much as the run it is compared with."
        for plan in plans
        if plan.debaters
    ]
    unpriced = sorted({model for plan in plans for model in plan.unpriced})
    if unpriced and prices:
        notes.append(f"No price for {', '.join(unpriced)}.")
    models = dict.fromkeys(model for plan in plans for model in plan.models)
    if not prices and not all(model_kind(name).is_unpaid for name in models):
        notes.append("The cost is not known: give prices with --prices FILE, or `--prices shipped` for those of madke.")
    notes += filter(None, [shipped_note(prices)])
    say_wrapped("\n".join(notes))
