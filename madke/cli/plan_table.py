"""The table of a plan and the notes below it, for the terminal."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from madke._util.terminal import say_table, say_wrapped
from madke.cli.progress import duration
from madke.engine.settings import Knowledge
from madke.experiments.plan import Planned, planned_range
from madke.models.endpoint import read_models
from madke.models.model_names import is_unpaid
from madke.models.prices import Prices
from madke.models.shipped_prices import elsewhere_note, shipped_note
from madke.retrieval.named import is_sample
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.experiments.plan import Load, Pace


def source_line(name: str, spec: str | None, in_pools: Container[str]) -> str:
    """A source in a plan: its name, and what it is if that is known. ``in_pools``: names of sources in pool files."""
    if spec is not None:
        return f"{name} ({spec})"
    if name in in_pools:
        return f"{name} (pool file)"
    return f"{name} (the shipped sample)" if is_sample(name, spec) else name


def show_plans(plans: Sequence[Planned], prices: Prices, options: RunOptions, pace: Pace | None = None) -> None:
    """Print planned calls, tokens, cost and time, from the shortest to the longest debates, and their assumptions.

    Without prices there is no cost, and without a pace no time.
    """
    from madke.experiments.plan import REPLY_TOKENS, Load

    rows = [
        (plan.name, f"{plan.debates:,}", *_cells(plan.least, plan.most, prices, bool(plan.unpriced))) for plan in plans
    ]
    least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
    if len(plans) > 1:
        rows.append(("total", f"{sum(p.debates for p in plans):,}", *_cells(least, most, prices)))
    headings = ["run", "debates", "calls", "new calls", "prompt tokens", "completion tokens"]
    if prices:
        headings.append("cost")
    say_table(headings, rows, figures=headings[1:])
    notes = [] if pace is None else [_duration_note(pace, plans)]
    notes += [
        "Ranges go from debates that end as early as possible to debates that use all rounds, without failed calls. "
        f"Tokens are estimates for new calls: four characters per prompt token, {REPLY_TOKENS} tokens per reply.",
    ]
    if len(plans) > 1:
        notes.append(
            "A call that several runs make with the same prompt and purpose is new only in the first of them. "
            "Identical replies can make more calls shared."
        )
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
    if most.cached_cost < most.cost:
        cheaper = planned_range(least.cached_cost, most.cached_cost, digits=4)
        notes.append(
            f"Cost if beginnings of prompts are cached (prefix: on in models.yaml): {cheaper}. "
            "The table counts none as cached."
        )
    for label, part in (("tier: flex in models.yaml", "flex_cost"), ("--batch", "batch_cost")):
        ends = getattr(least, part), getattr(most, part)
        if ends[1] < most.cost:
            less = 100 - 100 * ends[1] / most.cost
            notes.append(f"Cost with {label}: {planned_range(*ends, digits=4)}, {less:.0f} % less.")
    if not prices and not all(is_unpaid(model) for plan in plans for model in plan.models):
        notes.append("The cost is not known: give prices with --prices.")
    models = dict.fromkeys(model for plan in plans for model in plan.models)
    elsewhere = None if prices else elsewhere_note(models, read_models(), options.base_url)
    notes += filter(None, [shipped_note(prices), elsewhere])
    say_wrapped("\n".join(notes))


def _duration_note(pace: Pace, plans: Sequence[Planned]) -> str:
    shortest, longest = map(duration, seconds := pace.seconds(plans))
    if pace.is_known:
        between = shortest if shortest == longest else f"{shortest} to {longest}"
        return f"Duration: {between}, estimated from {pace.basis(plans)}. Retrieval and scoring are not counted."
    unknown = "The speed of the model is not known before the first calls."
    return f"Duration: at least {shortest}, from {pace.basis(plans)}. {unknown}" if any(seconds) else unknown


def _cells(least: Load, most: Load, prices: Prices, unpriced: bool = False) -> list[str]:

    figures = [
        planned_range(getattr(least, name), getattr(most, name))
        for name in ("calls", "paid", "prompt_tokens", "completion_tokens")
    ]
    cost = "-" if unpriced else planned_range(least.cost, most.cost, digits=4)
    return [*figures, cost] if prices else figures


def sample_of_vote(request: RunRequest, knowledge: Knowledge | None) -> RunRequest:
    """What one sample of a vote over the same passages would be asked for."""
    kept = {name: getattr(request, name) for name in ("questions", "dataset", "task", "ids", "limit", "sample_seed")}
    changes: dict[str, Any] = {"debaters": 1}
    if knowledge is not None:
        whole = {"select": "all", "allow_search": False, "per_debater_sources": None, "query": "none", "rerank": None}
        changes |= {**knowledge.model_dump(), **whole}
    sources = ",".join(knowledge.sources) if knowledge else "none"
    return RunRequest(**kept, protocol="self-consistency", settings=changes, sources=sources)


def vote_of_equal_cost(plan: Planned, sample: Planned) -> str:
    """The votes that make as many calls, and use as many tokens, in words."""

    def samples(unit: str) -> str:
        one = getattr(sample.most, unit)
        return planned_range(*(max(1, round(getattr(each, unit) / one)) for each in (plan.least, plan.most)))

    most = max(1, round(plan.most.calls / sample.most.calls))
    by_calls, by_tokens = samples("calls"), samples("all_tokens")
    return (
        f"A vote over the same passages costs as much with {by_calls} samples by calls, {by_tokens} by tokens: "
        f"--protocol self-consistency --set debaters={most}."
    )
