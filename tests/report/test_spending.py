"""What an experiment's arms were planned to take, beside what they took."""

from typing import Any

from madke.core.chat import Usage
from madke.experiments.load import Load, Planned
from madke.models.prices import Price
from madke.models.store import Paid
from madke.report.spending import spending_table
from madke.scoring.scores import scores_of
from tests.report.run_folders import debate

PLANS = [
    Planned(
        name=name,
        debates=2,
        least=Load(calls=10, paid=paid, prompt_tokens=1000, completion_tokens=500),
        most=Load(calls=1200, paid=paid, prompt_tokens=9000, completion_tokens=500),
    )
    for name, paid in (("one", 10), ("two", 0))
]
SCORES = {"one": scores_of([debate("q0", ["Lake Baikal"]), debate("q1", ["Lake Baikal"])])}
PAID = {("one", "m"): Paid(4, Usage(prompt_tokens=1_000_000, completion_tokens=100)), ("one", "n"): Paid(1, Usage())}


def texts(prices: Any) -> Any:
    return [[cell.text for cell in row] for row in spending_table(PLANS, SCORES, PAID, prices).rows]


def test_each_arm_shows_planned_and_actual_spending() -> None:
    assert texts({}) == [
        ["one", "10 to 1,200", "4", "10", "5", "1,500 to 9,500", "1,000,100"],
        ["two", "10 to 1,200", "0", "0", "0", "1,500 to 9,500", "0"],
    ]


def test_where_there_are_prices_there_is_cost() -> None:
    assert [row[-1] for row in texts({"m": Price(prompt=2, completion=0)})] == ["2.0000", "-"]
