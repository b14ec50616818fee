"""Tables of an experiment: published figures, and planned and real usage of its arms."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from madke.endpoints.prices import Prices, cost, price_of
from madke.experiments.load import Planned
from madke.experiments.recipe import Recipe
from madke.llm.store import Paid
from madke.report.tables import NO_FIGURE, Cell, Table, TableRow, count_cell, percent_cell, score_cell, table_of
from madke.runs.pool_stages import POOLS
from madke.scoring.arms import Results, of_dataset, open_results
from madke.scoring.metrics import heading_of
from madke.scoring.outside import arm_of
from madke.scoring.scores import Scores

OURS = "ours"


def published_table(recipe: Recipe, folders: Sequence[Path] = ()) -> Table | None:
    """The published figures of a recipe, below ours of the arms in ``folders``; None if the recipe quotes none."""
    quoted: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for model, arm, dataset, metric, value in recipe.figures():
        quoted.setdefault((arm, dataset), {}).setdefault(model, {})[metric] = value
    if not quoted:
        return None
    opened = {folder.name: open_results([folder])[0] for folder in folders}
    arms = {name: arm_of(arm) for name, arm in opened.items()}
    rows = []
    for (arm, dataset), by_model in quoted.items():
        if arm in arms:
            row: TableRow = {"arm": arm, "dataset": dataset, "model": _models(opened[arm])}
            ours = of_dataset(arms[arm], None if dataset == "all" else dataset)
            quoted_metrics = dict.fromkeys(metric for figures in by_model.values() for metric in figures)
            rows.append(row | {heading_of(each): percent_cell(ours.mean(each)) for each in quoted_metrics})
        for model, figures in by_model.items():
            row = {"arm": arm, "dataset": dataset, "model": model}
            rows.append(row | {heading_of(metric): _figure(value) for metric, value in figures.items()})
    notes = [f"Published: {recipe.source}. Shares are in percent."]
    if folders:
        notes.append(f'Rows with "{OURS}" are from this experiment, with intervals. The others are published.')
    notes.append("Models, samples and prompts differ, so the figures need not be equal.")
    return table_of("Published figures", rows, notes)


def _models(arm: Results) -> str:
    return f"{OURS}: {', '.join(dict.fromkeys(arm.config.models.values() if arm.config else ()))}"


def _figure(value: float) -> Cell:
    return percent_cell(value) if 0 <= value <= 1 else score_cell(value, digits=".2f")


def spending_table(
    plans: Sequence[Planned], scores: Mapping[str, Scores], paid: Mapping[tuple[str, str], Paid], prices: Prices
) -> Table:
    """Planned and real calls, paid calls and tokens of each arm, and cost if there are prices.

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
            "paid calls planned": _range(*(load.paid for load in ends)),
            "paid calls": NO_FIGURE if unknown else count_cell(called),
            "tokens planned": _range(*(load.prompt_tokens + load.completion_tokens for load in ends)),
            "tokens": NO_FIGURE if unknown else count_cell(tokens),
        }
        if prices:
            row["cost"] = Cell(text=f"{sum(costs):,.4f}", value=sum(costs)) if costs else NO_FIGURE
        rows.append(row)
    note = (
        "Planned: from debates that end as early as possible to debates that use all rounds, without failed calls; "
        "tokens are estimates for paid calls. A call that several arms make is paid once, by the first of them. "
        "Identical replies can make more calls shared. Searches and answer scorers are not counted."
    )
    if POOLS in {plan.name for plan in plans}:
        note += f" {POOLS}: queries and rerankings, made once for all arms; the calls of an arm include its own."
    return table_of("Planned and paid", rows, [note])


def planned_range(least: float, most: float, *, digits: int = 0) -> str:
    """A range of figures, or one figure if both ends are printed the same."""
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _range(least: float, most: float) -> Cell:
    return Cell(text=planned_range(least, most), low=least, high=most)
