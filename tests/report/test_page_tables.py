"""Tables of the report page before they are drawn: names, best values, meanings and addresses of debates."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from madke.report.comparison import comparison_of, paired_table
from madke.report.page_tables import explanation, page_table
from madke.report.score_tables import _Arm, _score_columns
from madke.report.spending import spending_table
from madke.report.tables import Cell, Table, count_cell, percent_cell
from madke.scoring.metrics import BUILT_IN_METRICS, heading_of
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate
from madke.scoring.value_units import GRADER
from tests.report.run_folders import debate

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def played(right: int, *, failed: int = 0) -> Any:
    """Ten debates, some of which are right, and further ones that failed."""
    done = [debate(f"q{n}", [RIGHT if n < right else WRONG] * 2) for n in range(10)]
    return done + [debate(f"f{n}", [RIGHT], status="failed", answer=None) for n in range(failed)]


def share(value: float) -> Cell:
    return percent_cell(Estimate(value=value, low=value / 2, high=min(1.0, 1.5 * value), n=10))


def scores_table(*rows: Any, columns: Any = ("arm", "correct (match) %")) -> Table:
    cells = tuple((Cell(text=name), *figures) for name, *figures in rows)
    return Table(title="Scores", columns=columns, rows=cells)


def test_every_heading_of_the_pages_tables_has_its_own_meaning() -> None:
    scores = scores_of(played(5))
    every = replace(
        scores,
        metrics=dict.fromkeys([*BUILT_IN_METRICS, GRADER], scores.correct),
        parse_failures={"speak": scores.correct},
        abstained=1,
        deferred=1,
        unread={"cut": 1},
    )
    made = _score_columns([_Arm(name="run", scores=every, marks={})])
    columns = [column.heading for column in made]
    tests = comparison_of({"one": played(9), "two": played(1)}).tests()
    columns += [*paired_table(tests).columns, *spending_table([], {}, {}, {"m": None}).columns]
    named = {heading.removesuffix(" %") for heading in columns if not heading.startswith("readable: ")}
    assert {name for name in named if explanation(f"{name} %") == explanation("my metric %")} == set()

    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    rows = {
        name for line in page.splitlines() if line.startswith("| ") for name in line.split("|")[1].strip().split(", ")
    }
    on_terminals = {column.heading.removesuffix(" %") for column in made if column.place in ("all", "screen")}
    assert on_terminals - {heading_of(name) for name in every.metrics} - rows == set(), (
        "docs/report.md says what it means"
    )


def test_all_best_values_are_marked_unless_all_are_equal() -> None:
    rows = [("a", share(0.5), share(0.2), count_cell(9)), ("b", share(0.7), share(0.2), count_cell(1))]
    rows.append(("c", share(0.7), share(0.2), count_cell(1)))
    made = page_table(scores_table(*rows, columns=("arm", "correct %", "EM %", "failed")), ["a", "b", "c"], "correct")
    assert [[cell.best for cell in row[1:]] for row in made.rows] == [
        [False, False, False],
        [True, False, False],
        [True, False, False],
    ]
    assert made.notes[-1].endswith("Bold: the highest value of the column.")


def test_figures_lead_to_the_debates_behind_them() -> None:
    columns = ("arm", "correct %", "Cons %", "Cons %2", "failed", "abst.", "rounds")
    cells = (share(0.5), share(0.9), share(1.0), count_cell(2), count_cell(0), count_cell(3))
    table = scores_table(("a & b/<c>", *cells), columns=columns)
    made = page_table(replace(table, columns=(*columns[:3], "Cons %", *columns[4:])), ["a & b/<c>"], "correct")
    run = "#debates?run=a+%26+b%2F%3Cc%3E"
    assert [cell.href for cell in made.rows[0][1:]] == [
        f"{run}&outcome=right",
        f"{run}&outcome=divided",
        run,  # no debate is divided
        f"{run}&outcome=failed",
        "",
        run,
    ]
    assert made.rows[0][1].opens == "Debates of a & b/<c>: right"


def test_figures_of_a_test_lead_to_the_debates_of_its_pair() -> None:
    table = paired_table(comparison_of({"one": played(9), "two": played(1)}).tests())
    made = page_table(table, ["one", "two"], "EM")
    by_value = {row[0].text.split(" \N{MIDDLE DOT} ")[2]: row for row in made.rows}
    places = {column.heading: n for n, column in enumerate(made.columns)}
    exact, other = by_value["EM\N{NO-BREAK SPACE}%"], by_value["match\N{NO-BREAK SPACE}%"]
    assert exact[places["difference"]].href == "#debates?run=one&with=two&outcome=differ"
    assert exact[places["n"]].href == "#debates?run=one&with=two"
    assert exact[places["only first"]].href == "#debates?show=all&cell=right%3Aone&cell=missed%3Atwo"
    assert exact[places["only second"]].href == ""
    # The page marks debates by the first metric only.
    assert other[places["only first"]].href == "#debates?run=one&with=two&outcome=differ"
