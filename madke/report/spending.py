"""What the arms of an experiment were planned to take, and what they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from madke.experiments.load import Planned, planned_range
from madke.models.prices import Prices, cost, price_of
from madke.models.store import Paid
from madke.report.tables import NO_FIGURE, Cell, Table, TableRow, count_cell, table_of
from madke.runs.pools import POOLS
from madke.scoring.scores import Scores


def spending_table(
    plans: Sequence[Planned], scores: Mapping[str, Scores], paid: Mapping[tuple[str, str], Paid], prices: Prices
) -> Table:
    """Planned and real calls, new calls and tokens of each arm, and cost if there are prices.

    ``scores``: name -> scores of the arms that have started. ``paid``: usage in the call store, without services.
    """
    made = {name: found.total for name, found in scores.items()}
    rows = []
    for plan in plans:
        bills = [(model, bill) for (payer, model), bill in paid.items() if payer == plan.name]
        unknown = not bills and plan.name in made and made[plan.name].paid  # the call store of its transcripts is gone
        called = sum(bill.calls for _, bill in bills)
        tokens = sum(bill.usage.prompt_tokens + bill.usage.completion_tokens for _, bill in bills)
        costs = [cost(bill.usage, price) for model, bill in bills if (price := price_of(model, prices))]
        ends = (plan.least, plan.most)
        row: TableRow = {
            "arm": plan.name,
            "calls planned": _range(*(load.calls for load in ends)),
            "calls": count_cell(made[plan.name].calls if plan.name in made else called),
            "new calls planned": _range(*(load.paid for load in ends)),
            "new calls": NO_FIGURE if unknown else count_cell(called),
            "tokens planned": _range(*(load.prompt_tokens + load.completion_tokens for load in ends)),
            "tokens": NO_FIGURE if unknown else count_cell(tokens),
        }
        if prices:
            row["cost"] = Cell(text=f"{sum(costs):,.4f}", value=sum(costs)) if costs else NO_FIGURE
        rows.append(row)
    note = (
        "Planned: from debates that end as early as possible to debates that use all rounds, without failed calls; "
        "tokens are estimates for new calls. A call that several arms make is new only in the first of them. "
        "Identical replies can make more calls shared. Searches and answer scorers are not counted."
    )
    if POOLS in {plan.name for plan in plans}:
        note += f" {POOLS}: queries and rerankings, made once for all arms; the calls of an arm include its own."
    return table_of("Planned and made", rows, [note])


def _range(least: float, most: float) -> Cell:
    return Cell(text=planned_range(least, most), low=least, high=most)
