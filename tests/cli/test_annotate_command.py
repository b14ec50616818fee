"""``madke annotate`` from files of predictions to people's grades."""

import csv
import json
from pathlib import Path
from typing import Any

from madke.data import read_dataset
from madke.scoring.arms import open_results
from madke.scoring.scored import external_values
from tests.data.published import write
from tests.support.cli import madke, refused

QUESTIONS = [
    {"id": str(n), "question": f"Which lake is number {n}?", "golden_answers": [f"Lake {n}"]} for n in range(4)
]


def shown(*arguments: Any) -> str:
    done = madke("annotate", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_sheet_goes_out_and_comes_back(tmp_path: Path) -> None:
    data = write(tmp_path / "questions.jsonl", QUESTIONS)
    good, bad = (
        write(tmp_path / f"{name}.jsonl", [{"id": str(n), "answer": f"Lake {lake}"} for n, lake in enumerate(lakes)])
        for name, lakes in (("good", (0, 1, 2, 3)), ("b[red]d", (0, 2, 2, 4)))
    )
    sheet = shown("sheet", good, bad, "--data", data, "--out", tmp_path / "sheet.csv")
    assert "sheet.csv: 6 answers to grade" in sheet
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))

    def filled(name: str, graded: int) -> Path:
        right = ["yes" if row["answer"] == row["references"] else "no" for row in rows]
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            for n, row in enumerate(rows):
                table.writerow({**row, "right": right[n] if n < graded else ""})
        return tmp_path / name

    of = ("--runs", good, "--runs", bad, "--data", data)
    assert "5 answers are not fully graded" in shown("read", filled("carl.csv", 1), *of)
    sheets = (filled("anna.csv", 6), filled("bert.csv", 6))
    agreement = shown("read", *sheets, *of)
    assert "anna.csv and bert.csv, right: kappa 1.00, n = 6" in agreement
    assert "not fully graded" not in agreement
    assert json.loads(shown("read", *sheets, *of, "--json"))["agreement"][0]["kappa"] == 1.0
    kept = [external_values(arm)["human_right"] for arm in open_results([good, bad], read_dataset(data))]
    assert [sum(each.values()) for each in kept] == [4, 2]
    assert "a sheet is given twice" in refused("annotate", "read", sheets[0], sheets[0], *of)
