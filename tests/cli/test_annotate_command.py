"""``madke annotate`` from files of predictions to people's grades."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from madke.cli import annotate
from madke.core.errors import UserError
from madke.core.question import Question
from madke.scoring.arms import open_results
from madke.scoring.scored import external_values

QUESTIONS: list[dict[str, Any]] = [
    {"id": str(n), "question": f"Which lake is number {n}?", "golden_answers": [f"Lake {n}"]} for n in range(4)
]

ASKED = [
    Question(id=each["id"], question=each["question"], answers=tuple(each["golden_answers"])) for each in QUESTIONS
]


def lines(path: Any, items: Any) -> Any:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items))
    return str(path)


def invoke(*arguments: Any) -> Any:
    done = CliRunner().invoke(annotate.app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def data(tmp_path: Path) -> Any:
    return lines(tmp_path / "questions.jsonl", QUESTIONS)


@pytest.fixture
def predictions(tmp_path: Path) -> Any:
    good = lines(tmp_path / "good.jsonl", [{"id": str(n), "answer": f"Lake {n}"} for n in range(4)])
    bad = lines(tmp_path / "b[red]d.jsonl", [{"id": str(n), "answer": f"Lake {n + n % 2}"} for n in range(4)])
    return good, bad


def test_a_sheet_goes_out_and_comes_back(tmp_path: Path, data: Any, predictions: Any) -> None:
    done = invoke("sheet", *predictions, "--data", data, "--out", tmp_path / "sheet.csv")
    assert "sheet.csv: 6 answers to grade" in done.stdout
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("anna.csv", "bert.csv"):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            right = [row["answer"] == row["references"] for row in rows]
            table.writerows({**row, "right": "yes" if ok else "no"} for row, ok in zip(rows, right, strict=True))
    sheets = (tmp_path / "anna.csv", tmp_path / "bert.csv")
    of = ("--runs", predictions[0], "--runs", predictions[1], "--data", data)
    shown = invoke("read", *sheets, *of).stdout
    assert "anna.csv and bert.csv, right: kappa 1.00, n = 6" in shown
    assert "not graded" not in shown
    told = json.loads(invoke("read", *sheets, *of, "--json").stdout)
    kept = [external_values(arm)["human_right"] for arm in open_results([Path(each) for each in predictions], ASKED)]
    assert [sum(each.values()) for each in kept] == [4, 2]
    assert told["agreement"][0]["kappa"] == 1.0


def test_rows_that_nobody_graded_are_said(tmp_path: Path, data: Any, predictions: Any) -> None:
    invoke("sheet", *predictions, "--data", data, "--out", tmp_path / "sheet.csv")
    sheet = tmp_path / "sheet.csv"
    first, *rest = sheet.read_text(encoding="utf-8-sig").splitlines()
    sheet.write_text("\n".join([first, rest[0][:-1] + "yes,", *rest[1:]]), encoding="utf-8")
    of = ("--runs", predictions[0], "--runs", predictions[1], "--data", data)
    assert "5 answers are not fully graded" in invoke("read", sheet, *of).stdout
    with pytest.raises(UserError, match="a sheet is given twice"):
        invoke("read", sheet, sheet, *of)
