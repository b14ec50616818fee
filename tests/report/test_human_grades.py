"""Grades of people, joined to the runs whose answers they graded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.experiments.recipe import Recipe, read_recipe
from madke.report.annotation import SheetKey, read_key, read_sheet, write_sheet
from madke.report.human_grades import join_grades
from madke.report.reproduction import figures, reproduction_tables
from madke.scoring.arms import open_results
from madke.scoring.outside import arm_of, external_values
from madke.scoring.statistics import estimate
from tests.report.run_folders import debate
from tests.report.test_annotation import OURS, RIGHT, THEIRS, arms, fill, rows_of
from tests.support.cli import madke
from tests.support.run_folder import write_run

SENTENCES = [f"\u53e5\u5b50 {n}" for n in range(4)]


def translations(folder: Path, name: str, *pairs: tuple[str, str]) -> Path:
    """A run of debates whose first and last translations these are."""
    played = [
        debate(
            f"zh{n}",
            (first, first),
            (last, last),
            question=SENTENCES[n],
            task="translation",
            golds=("Destroy a division.",),
            dataset="commonmt",
        )
        for n, (first, last) in enumerate(pairs)
    ]
    return write_run(folder / name, *played, models={"affirmative": "openai/gpt-3.5-turbo"})


RIGHT_ONE, LITERAL = "Destroy a division of the enemy.", "Eat up an enemy division."


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two arms; the debate changes its translations, and resolves three of four ambiguities."""
    reflection = translations(tmp_path, "self-reflect", *([(LITERAL, LITERAL)] * 4))
    debates = translations(tmp_path, "liang", *([(LITERAL, RIGHT_ONE)] * 3), (LITERAL, LITERAL))
    return [reflection, debates]


def graded(tmp_path: Path, runs: list[Path]) -> tuple[Path, Path]:
    """The key of a sheet, and the sheet as a person filled it."""
    key_file, _ = write_sheet(open_results(runs), tmp_path / "sheet.csv")
    rows = [{**row, "quality": "4" if row["answer"] == RIGHT_ONE else "2"} for row in rows_of(tmp_path / "sheet.csv")]
    resolved = {RIGHT_ONE: "yes", LITERAL: "no"}
    return key_file, fill(tmp_path / "anna.csv", rows, resolved, "ambiguity_resolved")


def test_grades_of_people_are_values_next_to_published_ones(tmp_path: Path, runs: list[Path]) -> None:
    key_file, sheet = graded(tmp_path, runs)
    done = madke("annotate", "read", sheet, "--key", key_file, "--join", runs[0], "--join", runs[1])
    assert done.returncode == 0, done.stderr
    resolved = estimate([1.0, 1.0, 1.0, 0.0])
    recipe = read_recipe("liang-table-3")
    own = {(each.arm, each.metric): each for each in figures(recipe, runs) if each.ours}
    found = own["liang", "human_ambiguity_resolved"]
    assert (found.published, found.ours, found.reasons) == (0.795, resolved, ("n = 4, not 200",))
    quality = own["liang", "human_quality"].ours
    assert quality is not None
    assert quality.value == 3.5
    tables = reproduction_tables(recipe, runs)
    ours = next(row for row in tables["human_quality"].rows if row[1].text == "liang" and row[2].text == "ours")
    assert ours[3].text == "3.50"
    assert "human_ambiguity_resolved" in madke("score", runs[1], "--details").stdout


def test_bias_and_diversity_are_one_table(tmp_path: Path, runs: list[Path]) -> None:
    key_file, sheet = graded(tmp_path, runs)
    join_grades(open_results(runs), (key := read_key(key_file)), {"anna": read_sheet(sheet, key)})
    found = {(each.arm, each.metric): each.ours for each in figures(read_recipe("liang-table-4"), runs)}
    values = {place: round(one.value, 3) for place, one in found.items() if one}
    assert values["self-reflect", "bias"] == 1.0
    assert values["self-reflect", "diversity"] == 0.0
    assert values["liang", "bias"] == 0.25
    assert values["liang", "diversity"] > 0.3
    assert [*reproduction_tables(read_recipe("liang-table-4"), runs)] == ["bias", "diversity"]


def test_people_who_differ_are_averaged_and_an_abstention_is_a_no(tmp_path: Path) -> None:
    results = arms(tmp_path, ours=OURS, theirs=THEIRS)
    key_file, _ = write_sheet(results, tmp_path / "sheet.csv")
    rows, key = rows_of(tmp_path / "sheet.csv"), read_key(key_file)
    other = {**RIGHT, "Superior": "yes", "Caspian Sea": ""}
    sheets = {
        name: read_sheet(fill(tmp_path / name, rows, grades), key) for name, grades in (("a", RIGHT), ("b", other))
    }
    join_grades(results, key, sheets)
    ours, theirs = (external_values(each)["human_right"] for each in results)
    assert ours == {("1", 0): 1.0, ("2", 0): 1.0, ("3", 0): 0.0}
    assert theirs == {("1", 0): 1.0, ("2", 0): 0.5, ("3", 0): 0.0}
    mean = arm_of(results[1]).mean("human_right")
    assert mean is not None
    assert mean.value == 0.5


def test_answers_outside_the_sample_have_no_grade(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = arms(tmp_path, ours={"1": "Baikal", "2": "Caspian Sea"})
    key_file, key = write_sheet(results, tmp_path / "sheet.csv", sample=1)
    rows = rows_of(tmp_path / "sheet.csv")
    join_grades(results, key, {"a": read_sheet(fill(tmp_path / "a.csv", rows, RIGHT), read_key(key_file))})
    assert len(external_values(results[0])["human_right"]) == 1
    assert "human_right has no score for 1 answers" in caplog.text


def test_a_run_without_answers_in_the_sheet_and_an_old_key_are_refused(tmp_path: Path) -> None:
    results = arms(tmp_path, ours=OURS, theirs=THEIRS)
    _, key = write_sheet(results[:1], tmp_path / "sheet.csv")
    with pytest.raises(UserError, match="theirs: the sheet has no answers of this run; it has those of ours"):
        join_grades(results, key, {})
    old: dict[str, Any] = key.model_dump(mode="json")
    old["rows"] = {code: {**row, "answer": None} for code, row in old["rows"].items()}
    with pytest.raises(UserError, match="an earlier version of madke wrote it"):
        join_grades(results[:1], SheetKey.model_validate(old), {})


def test_a_recipe_may_quote_a_quality_above_one() -> None:
    fields = {"title": "T", "source": "a test", "arms": [{"name": "one"}]}
    found = Recipe.model_validate({**fields, "published": {"m": {"one": {"d": {"human_quality": 3.4}}}}})
    assert reproduction_tables(found)["human_quality"].rows[0][3].text == "3.40"
