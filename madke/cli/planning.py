"""What runs will take, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from madke.core.errors import UserError
from madke.terminal import console, say

if TYPE_CHECKING:
    from madke.experiments.plan import Load, Planned
    from madke.llm.prices import Prices
    from madke.runs.options import RunOptions


def refuse_limits(options: RunOptions) -> None:
    """Refuse limits beside ``--plan``."""
    if any(limit is not None for limit in (options.max_cost, options.token_budget, options.deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def show_plans(plans: Sequence[Planned], prices: Prices, reply_tokens: int) -> None:
    """Print what runs take, from the shortest debates to the longest, and how the figures come about."""
    from rich.table import Table

    from madke.experiments.plan import Load
    from madke.report.experiment_tables import planned_range

    table = Table("run", "debates", "calls", "paid calls", "prompt tokens", "completion tokens", "cost")
    for column in table.columns[1:]:
        column.justify = "right"
    for plan in plans:
        table.add_row(
            plan.name,
            f"{plan.debates:,}",
            *_cells(plan.least, plan.most, bool(prices) and not plan.unpriced),
        )
    if len(plans) > 1:
        least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
        table.add_section()
        table.add_row("together", f"{sum(p.debates for p in plans):,}", *_cells(least, most, bool(prices)))
    console().print(table)
    notes = [
        "From debates that end as early as they can to debates that never settle, if no call fails. Tokens are those "
        f"of the paid calls, estimated: four characters for one in prompts, {reply_tokens} a reply."
    ]
    if len(plans) > 1:
        notes.append(
            "A call that an earlier run makes too, with the same prompt for the same purpose, is paid once; replies "
            "that happen to be alike make more of them. What an earlier run does not come to, a later one pays."
        )
    if assumed := [plan.name for plan in plans if plan.assumed_passages]:
        which = "" if len(assumed) == len(plans) else f" of {', '.join(assumed)}"
        notes.append(f"Passages{which} are assumed, a hundred words each: no pool file holds them yet.")
    if sized := [f"{p.name} {planned_range(*p.debaters)}" for p in plans if p.debaters]:
        notes.append(f"Debaters that cost what another run will have cost, as estimated: {', '.join(sized)}.")
    unpriced = sorted({model for plan in plans for model in plan.unpriced})
    if unpriced and prices:
        notes.append(f"No price for {', '.join(unpriced)}.")
    if not prices:
        notes.append("No prices are given (--prices), so there is no cost.")
    say("\n".join(notes))


def _cells(least: Load, most: Load, priced: bool) -> list[str]:
    from madke.report.experiment_tables import planned_range

    figures = [
        planned_range(getattr(least, name), getattr(most, name))
        for name in ("calls", "paid", "prompt_tokens", "completion_tokens")
    ]
    return [*figures, planned_range(least.cost, most.cost, digits=2) if priced else "-"]
