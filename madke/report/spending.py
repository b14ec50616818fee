"""What an experiment's arms were planned to take, beside what they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from madke.experiments.plan import Planned
from madke.llm.prices import Prices, cost, price_of
from madke.llm.store import Paid
from madke.report.tables import NOTHING, Cell, Table, count_cell
from madke.scoring.scores import Scores


def spending_table(
    plans: Sequence[Planned], scores: Mapping[Path, Scores], paid: Mapping[tuple[str, str], Paid], prices: Prices
) -> Table:
    """A row for each arm: calls, paid calls and tokens, planned and real. There is a column for cost if it has prices.

    Args:
        plans: Of the arms.
        scores: Of the arms that have begun, by folder.
        paid: What the call store says, without services; see :meth:`madke.llm.CallStore.paid`.
        prices: May be none.
    """
    made = {folder.name: found.total.calls for folder, found in scores.items()}
    columns = ("arm", "calls planned", "made", "paid calls planned", "paid", "tokens planned", "paid for", "cost")
    said_paid = {folder.name for folder, found in scores.items() if found.total.paid}
    rows = []
    for plan in plans:
        bills = [(model, bill) for (payer, model), bill in paid.items() if payer == plan.name]
        unknown = not bills and plan.name in said_paid  # the store that its transcripts tell of is not there any more
        tokens = sum(bill.usage.prompt_tokens + bill.usage.completion_tokens for _, bill in bills)
        costs = [cost(bill.usage, price) for model, bill in bills if (price := price_of(model, prices))]
        ends = (plan.least, plan.most)
        cells = (
            Cell(text=plan.name),
            _range(*(load.calls for load in ends)),
            count_cell(made.get(plan.name, 0)),
            _range(*(load.paid for load in ends)),
            NOTHING if unknown else count_cell(sum(bill.calls for _, bill in bills)),
            _range(*(load.prompt_tokens + load.completion_tokens for load in ends)),
            NOTHING if unknown else count_cell(tokens),
            Cell(text=f"{sum(costs):,.2f}", value=sum(costs)) if costs else NOTHING,
        )
        rows.append(cells)
    kept = len(columns) if prices else len(columns) - 1
    return Table(
        title="Planned and paid",
        columns=columns[:kept],
        rows=tuple(row[:kept] for row in rows),
        notes=(
            "Planned: from debates that end as early as they can to debates that never settle, if no call fails; "
            "tokens, of paid calls, are estimates. A call that an earlier arm makes too is paid once, by that arm; "
            "replies that happen to be alike make more of them. Searches and quality estimates are no calls of a "
            "model, and not counted.",
        ),
    )


def planned_range(least: float, most: float, *, digits: int = 0) -> str:
    """A range of figures, or one figure where its ends read the same."""
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _range(least: float, most: float) -> Cell:
    return Cell(text=planned_range(least, most), low=least, high=most)
