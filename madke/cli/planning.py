"""What runs will take, as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from madke.experiments.plan import Load, Planned
    from madke.llm.prices import Prices
    from madke.llm.store import Paid
    from madke.scoring.scores import Scores


def show_plans(plans: Sequence[Planned], prices: Prices, reply_tokens: int) -> None:
    """Print what runs take, from the shortest debates to the longest, and how the figures come about."""
    from rich.table import Table

    from madke.cli.console import output
    from madke.experiments.plan import Load
    from madke.terminal import printable

    table = Table("run", "debates", "calls", "paid calls", "prompt tokens", "completion tokens", "cost")
    for column in table.columns[1:]:
        column.justify = "right"
    for plan in plans:
        table.add_row(printable(plan.name), f"{plan.debates:,}", *_cells(plan.least, plan.most, bool(prices)))
    if len(plans) > 1:
        least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
        table.add_section()
        table.add_row("together", f"{sum(p.debates for p in plans):,}", *_cells(least, most, bool(prices)))
    output().print(table)
    notes = [
        "From debates that end as early as they can to debates that never settle. Tokens are those of the paid calls, "
        f"estimated: four characters for one in prompts, {reply_tokens} a reply."
    ]
    if len(plans) > 1:
        notes.append("A call that an earlier run makes too, with the same prompt for the same purpose, is paid once.")
    unpriced = sorted({model for plan in plans for model in plan.unpriced})
    if unpriced and prices:
        notes.append(f"No price for {', '.join(unpriced)}.")
    if not prices:
        notes.append("No prices are given (--prices), so there is no cost.")
    typer.echo("\n".join(notes))


def show_spending(
    plans: Sequence[Planned],
    scores: Mapping[Path, Scores],
    paid: Mapping[tuple[str, str], Paid],
    prices: Prices,
) -> None:
    """Print what was planned beside what was done.

    Args:
        plans: Of the arms.
        scores: Of the arms that have begun, by folder.
        paid: What the call store says; see :meth:`madke.llm.CallStore.paid`.
        prices: May be none.
    """
    from rich.table import Table

    from madke.cli.console import output
    from madke.llm.prices import cost, price_of
    from madke.terminal import printable

    table = Table("arm", "calls planned", "made", "paid calls planned", "paid", "tokens planned", "paid for", "cost")
    for column in table.columns[1:]:
        column.justify = "right"
    made = {folder.name: found.total.calls for folder, found in scores.items()}
    for plan in plans:
        bills = [(model, bill) for (payer, model), bill in paid.items() if payer == plan.name]
        tokens = sum(bill.usage.prompt_tokens + bill.usage.completion_tokens for _, bill in bills)
        costs = [cost(bill.usage, price) for model, bill in bills if (price := price_of(model, prices))]
        table.add_row(
            printable(plan.name),
            _range(plan.least.calls, plan.most.calls),
            f"{made.get(plan.name, 0):,}",
            _range(plan.least.paid, plan.most.paid),
            f"{sum(bill.calls for _, bill in bills):,}",
            _range(*(load.prompt_tokens + load.completion_tokens for load in (plan.least, plan.most))),
            f"{tokens:,}",
            f"{sum(costs):,.2f}" if costs else "-",
        )
    output().print(table)


def plans_as_json(plans: Sequence[Planned]) -> Sequence[Mapping[str, object]]:
    """The plans as plain values."""
    from dataclasses import asdict

    return [asdict(plan) for plan in plans]


def _cells(least: Load, most: Load, priced: bool) -> list[str]:
    figures = [
        _range(getattr(least, name), getattr(most, name))
        for name in ("calls", "paid", "prompt_tokens", "completion_tokens")
    ]
    return [*figures, _range(least.cost, most.cost, digits=2) if priced else "-"]


def _range(least: float, most: float, *, digits: int = 0) -> str:
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return low if low == high else f"{low} to {high}"
