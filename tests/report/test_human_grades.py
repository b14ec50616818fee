"""Answers out to people, what they say back, and what it changes: scores of the runs, and gold answers."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.experiments.recipe import read_recipe
from madke.report.human_grades import kappa, keep_grades, with_corrections, write_sheet
from madke.report.reproduction import figures, published_table
from madke.scoring.arms import Results, open_results
from madke.scoring.scored import arm_of, external_values, score_run
from madke.scoring.statistics import estimate
from tests.data.published import write
from tests.report.run_folders import debate
from tests.support.cli import madke
from tests.support.run_folder import write_run

LAKES = [
    Question(id="1", question="Which lake is the deepest?", answers=("Lake Baikal", "Baikal")),
    Question(id="2", question="Which lake is the largest?", answers=("the Caspian Sea",)),
    Question(id="3", question="Which lake is the saltiest?", answers=("Gaet'ale",)),
]
OURS = {"1": "Baikal", "2": "Caspian Sea", "3": None}
THEIRS = {"1": "Baikal", "2": "Superior", "3": "the Dead Sea"}
GRADES = {"Baikal": "yes", "Caspian Sea": "yes", "Superior": "no", "the Dead Sea": "no"}

Row = dict[str, str]


def arms(folder: Path, questions: Sequence[Question] = LAKES, **answers: Mapping[str, str | None]) -> list[Results]:
    """Files of predictions: name -> question -> answer."""
    paths = [
        write(folder / f"{name}.jsonl", [{"id": id_, "answer": said} for id_, said in given.items()])
        for name, given in answers.items()
    ]
    return open_results(paths, questions)


@pytest.fixture
def both(tmp_path: Path) -> list[Results]:
    return arms(tmp_path, ours=OURS, theirs=THEIRS)


def sheet_of(results: Sequence[Results], file: Path) -> list[Row]:
    """The rows of a new sheet."""
    write_sheet(results, file)
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))


@pytest.fixture
def rows(tmp_path: Path, both: list[Results]) -> list[Row]:
    return sheet_of(both, tmp_path / "sheet.csv")


def write_rows(file: Path, rows: Sequence[Row], **options: Any) -> Path:
    with file.open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, rows[0], **options)
        table.writeheader()
        table.writerows(rows)
    return file


def graded(rows: Sequence[Row], grades: Mapping[str, str], column: str = "right") -> list[Row]:
    """The rows with a grade for each answer; one that is not named stays as it is."""
    return [{**row, column: grades.get(row["answer"], row[column])} for row in rows]


def test_a_sheet_shows_each_answer_once_and_nobodys_name(tmp_path: Path, rows: list[Row]) -> None:
    assert list(rows[0]) == ["row", "question", "references", "answer", "right", "gold"]
    # An abstention is filled in: it is a no.
    assert {row["answer"]: row["right"] for row in rows} == {**dict.fromkeys(GRADES, ""), "": "no"}
    assert next(row for row in rows if row["answer"] == "Baikal")["references"] == "Lake Baikal | Baikal"
    raw = (tmp_path / "sheet.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    assert b"ours" not in raw
    assert b"theirs" not in raw


def test_questions_that_an_arm_lacks_are_left_out_of_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = arms(tmp_path, LAKES[:2], ours={"1": "Como", "2": "x"})
    results += arms(tmp_path, LAKES[1:], theirs={"2": "y", "3": "z"})
    assert {row["question"] for row in sheet_of(results, tmp_path / "sheet.csv")} == {LAKES[1].question}
    assert "2 questions are left out, because an arm has no result" in caplog.text


def test_no_cell_is_a_formula_and_every_row_comes_back(tmp_path: Path) -> None:
    hostile = ['=HYPERLINK("http://x")', "@SUM(1)", "+1+cmd", "-x", "\tx", 'a "quote", a comma', "two\nlines", "\x1b[m"]
    asked = [Question(id=f"{n}", question=f"Which lake, in survey {n}?", answers=("x",)) for n, _ in enumerate(hostile)]
    results = arms(tmp_path, asked, ours={f"{n}": answer for n, answer in enumerate(hostile)})
    rows = sheet_of(results, tmp_path / "sheet.csv")
    assert not {row["answer"][0] for row in rows} & {*"=+-@\t\r\x1b"}
    keep_grades(results, {"anna": write_rows(tmp_path / "anna.csv", [{**row, "right": "yes"} for row in rows])})
    assert external_values(results[0])["human_right"] == {(each.id, 0): 1.0 for each in asked}


def test_two_people_are_averaged_and_compared_and_the_grades_are_values(
    tmp_path: Path, both: list[Results], rows: list[Row]
) -> None:
    anna = write_rows(tmp_path / "anna.csv", graded(rows, GRADES))
    bert = write_rows(tmp_path / "bert.csv", graded(rows, {"Baikal": "No", "Superior": "no"}), delimiter=";")
    keep_grades(both, {"anna": anna})
    means = [arm_of(each).mean("human_right") for each in both]
    assert [(each.value, each.n) for each in means if each] == [(pytest.approx(2 / 3), 3), (pytest.approx(1 / 3), 3)]
    agreement, ungraded = keep_grades(both, {"anna": anna, "bert": bert})
    assert f"{agreement[0]}" == "anna and bert, right: kappa 0.00, n = 2"
    assert {each.other for each in agreement[1:]} == {"match", "em"}
    assert ungraded == 0
    # Baikal counts one half, the Caspian Sea one, the abstention nothing.
    ours, theirs = (external_values(each)["human_right"] for each in both)
    assert ours == {("1", 0): 0.5, ("2", 0): 1.0, ("3", 0): 0.0}
    assert theirs == {("1", 0): 0.5, ("2", 0): 0.0, ("3", 0): 0.0}


SLIDES = [[22, 2, 2, 0], [5, 7, 14, 0], [0, 2, 36, 0], [0, 1, 17, 10]]


@pytest.mark.parametrize(
    ("table", "ordinal", "expected", "digits"),
    [
        # Fleiss, Levin and Paik (2003), table 18.1: 100 patients, psychotic, neurotic, organic; 0.89 and 0.66.
        ([[75, 1, 4], [5, 4, 1], [0, 0, 10]], False, 0.68, 2),
        # Landis and Koch's pathologists on 118 slides, as Agresti (2002, section 10.5) has them.
        (SLIDES, False, 0.493, 3),
        (SLIDES, True, 0.78, 2),
    ],
)
def test_kappa_is_that_of_published_tables(table: list[list[int]], ordinal: bool, expected: float, digits: int) -> None:
    cells = [(one, other) for one, row in enumerate(table) for other, n in enumerate(row) for _ in range(n)]
    left, right = zip(*cells, strict=True)
    assert round(kappa(left, right, ordinal=ordinal), digits) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: [{**rows[0], "right": "maybe"}], "column 'right': found 'maybe'; expected yes or no"),
        (lambda rows: [{**rows[0], "row": "R9"}], "column 'row': found 'R9', which is no answer of these runs"),
        (lambda rows: [rows[0], rows[0]], "row {row} is already on line 2; expected each once"),
        (lambda rows: rows, "has no grades; expected grades in right"),
    ],
)
def test_a_sheet_that_is_filled_wrongly_is_named(
    tmp_path: Path, both: list[Results], rows: list[Row], change: Callable[[list[Row]], list[Row]], said: str
) -> None:
    filled = write_rows(tmp_path / "anna.csv", change(rows))
    with pytest.raises(UserError) as error:
        keep_grades(both, {"anna": filled})
    assert said.format(row=rows[0]["row"]) in str(error.value)
    assert str(error.value).startswith(str(filled))


def test_a_sheet_is_a_csv_and_is_never_written_over(tmp_path: Path, both: list[Results], rows: list[Row]) -> None:
    with pytest.raises(UserError, match=r"sheet.txt: expected a file name ending in .csv"):
        write_sheet(both, tmp_path / "sheet.txt")
    with pytest.raises(UserError, match=r"sheet.csv: already exists"):
        write_sheet(both, tmp_path / "sheet.csv")
    (tmp_path / "open.csv").write_text('row,question,right\nR1,"Where? \nR2,Who?,yes\n')
    with pytest.raises(UserError, match=r"open.csv:2: is not CSV: .*; is a quote not closed\?"):
        keep_grades(both, {"anna": tmp_path / "open.csv"})


def test_what_cannot_be_graded_together_is_refused(tmp_path: Path) -> None:
    mixed = [LAKES[0], Question(id="2", question="吃", answers=("Eat.",), task="translation")]
    with pytest.raises(UserError, match="short_answer and translation have different scales"):
        write_sheet(arms(tmp_path, mixed, ours={"1": "x", "2": "Eat."}), tmp_path / "sheet.csv")
    # One id of two questions is not shared.
    river = Question(id="1", question="Which river?", answers=("x",))
    apart = [*arms(tmp_path, LAKES[:1], ours={"1": "x"}), *arms(tmp_path, [river], theirs={"1": "x"})]
    with pytest.raises(UserError, match="no question has a result in every arm"):
        write_sheet(apart, tmp_path / "sheet.csv")
    with pytest.raises(UserError, match="no answers to grade"):
        write_sheet(arms(tmp_path, ours={"1": None}), tmp_path / "sheet.csv")


RESOLVED, LITERAL = "Destroy a division of the enemy.", "Eat up an enemy division."


def translations(folder: Path, *pairs: tuple[str, str]) -> Path:
    """A run of debates whose first and last translations these are."""
    task: dict[str, Any] = {"task": "translation", "golds": ("Destroy a division.",), "dataset": "commonmt"}
    played = [
        debate(f"zh{n}", (first, first), (last, last), question=f"\u53e5\u5b50 {n}", **task)
        for n, (first, last) in enumerate(pairs)
    ]
    return write_run(folder, *played, models={"affirmative": "openai/gpt-3.5-turbo"})


def test_grades_of_people_are_values_next_to_published_ones(tmp_path: Path) -> None:
    # The debate changes its translations, and resolves three of four ambiguities.
    debates = translations(tmp_path / "liang", *[(LITERAL, RESOLVED)] * 3, (LITERAL, LITERAL))
    rows = sheet_of(open_results([debates]), tmp_path / "sheet.csv")
    rows = graded(rows, {RESOLVED: "4", LITERAL: "2"}, "quality")
    rows = graded(rows, {RESOLVED: "yes", LITERAL: "no"}, "ambiguity_resolved")
    sheet = write_rows(tmp_path / "anna.csv", rows)
    done = madke("annotate", "read", sheet, "--runs", debates)
    assert done.returncode == 0, done.stderr
    recipe = read_recipe("liang-table-3")
    own = {(each.arm, each.metric): each for each in figures(recipe, [debates]) if each.ours}
    found = own["liang", "human_ambiguity_resolved"]
    resolved = estimate([1.0, 1.0, 1.0, 0.0])
    assert (found.published, found.ours, found.reasons) == (0.795, resolved, ("n = 4, not 200",))
    quality = own["liang", "human_quality"]
    assert quality.ours.value == 3.5
    assert published_table(recipe, [quality]).rows[0][5].text == "3.50"
    assert "human_ambiguity_resolved" in madke("score", debates, "--details").stdout


def test_a_filled_sheet_corrects_gold_answers(tmp_path: Path) -> None:
    answers = {"a": "Lake Baikal", "b": "Lake Baikal", "c": "=the one", "d": "the other"}
    run = write_run(tmp_path / "run", *(debate(id_, [answer] * 2) for id_, answer in answers.items()))
    rows = sheet_of(open_results([run]), tmp_path / "sheet.csv")
    rows = graded(graded(rows, {"'=the one": "yes", "Lake Baikal": "no"}), {"the other": "wrong"}, "gold")
    before, _ = score_run(run)
    (arm,) = with_corrections(open_results([run]), write_rows(tmp_path / "anna.csv", rows))
    after, _ = score_run(arm)
    assert (before.correct.value, before.correct.n) == (0.5, 4)
    assert (after.correct.value, after.correct.n) == (1, 3)
    assert arm.corrected == "1 answer accepted, 1 question left out by corrections"
    assert json.loads((run / "metrics.json").read_text())["correct"]["n"] == 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("question,answer,right,gold\nWhich?,x,,bad\n", "2: column 'gold': found 'bad'; expected wrong"),
        ("question,answer,right,gold\n,,,\n,x,yes,\n", "3: column 'question' is empty"),
        ("question,answer,right,gold\nElsewhere?,x,yes,\n", "no question of the sheet is in these results"),
    ],
)
def test_wrong_corrections_are_refused_with_their_line(
    tmp_path: Path, both: list[Results], text: str, reason: str
) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(UserError) as refused:
        with_corrections(both, tmp_path / "sheet.csv")
    assert reason in str(refused.value)
