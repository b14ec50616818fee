"""A paper's figures beside those of an experiment that follows it."""

from pathlib import Path
from typing import Any

import pytest

from madke.experiments.recipe import Recipe
from madke.report.experiment_tables import published_table
from madke.report.tables import interval
from madke.scoring.debate_rows import GRADER
from madke.scoring.outside import answers_of, keep_scores
from madke.scoring.statistics import estimate
from tests.report.run_folders import debate, write_run

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def ours(folder: Any, transcripts: Any, metric: Any, *, dataset: str = "all", grades: Any = ()) -> Any:
    """What stands beside a published figure of an arm with these debates."""
    arm = write_run(folder / "one", transcripts)
    if grades:
        answers = answers_of(transcripts)
        keep_scores(arm, GRADER, answers, command="m", scores=dict(zip(answers, grades, strict=False)))
    published = {"gpt-9": {"one": {dataset: {metric: 0.5}}}}
    recipe = Recipe.model_validate(
        {"title": "A test", "source": "a test", "arms": [{"name": "one"}], "published": published}
    )
    table = published_table(recipe, [arm])
    found, theirs = table.rows
    assert [cell.text for cell in theirs] == ["one", dataset, "gpt-9", "50.0"]
    assert [cell.text for cell in found[:3]] == ["one", dataset, "ours: scripted/a, scripted/b"]
    assert table.notes[0].startswith("Published: a test.")
    return found[3].whole


def test_co2_by_a_grader_takes_its_grade_for_right(tmp_path: Path) -> None:
    played = [
        debate("q0", (RIGHT, RIGHT)),
        debate("q1", (WRONG, WRONG)),
        debate("q2", (RIGHT, RIGHT), consensus=False),
        debate("q3", (RIGHT, RIGHT)),
    ]
    values = [1, 1, 0, 0]
    assert ours(tmp_path, played, "co2_judge_grader", grades=[1, 1, 1, 0]) == interval(estimate(values))


def test_an_agreement_without_a_grade_is_left_out_and_a_disagreement_is_not(tmp_path: Path) -> None:
    played = [debate(f"q{n}", (RIGHT, RIGHT), consensus=n < 2) for n in range(4)]
    # Graded: the first alone. The second agreed, and nobody knows; the others did not agree.
    assert ours(tmp_path, played, "co2_judge_grader", grades=[1]) == interval(estimate([1.0, 0.0, 0.0]))


def test_without_grades_there_is_no_co2_by_a_grader(tmp_path: Path) -> None:
    assert ours(tmp_path, [debate("q0", (RIGHT, RIGHT))], "co2_judge_grader") == "-"


@pytest.mark.parametrize("dataset", ["all", "lakes"])
def test_questions_of_several_datasets_are_one_sample(tmp_path: Path, dataset: str) -> None:
    said = {"lakes": [RIGHT] * 9 + [WRONG], "rivers": [RIGHT] * 2 + [WRONG] * 8}
    played = [
        debate(f"{name}{n}", (answer, answer), dataset=name)
        for name, answers in said.items()
        for n, answer in enumerate(answers)
    ]
    expected = estimate([float(t.answer == RIGHT) for t in played]) if dataset == "all" else estimate([1.0] * 9 + [0.0])
    assert ours(tmp_path, played, "em", dataset=dataset) == interval(expected)


def test_ours_stand_once_above_those_of_every_model_of_the_paper(tmp_path: Path) -> None:
    published = {
        "gpt-8": {"one": {"lakes": {"em": 0.5}, "rivers": {"label_accuracy": 0.3}}},
        "gpt-9": {"one": {"lakes": {"em": 0.6}}, "two": {"lakes": {"em": 0.7}}},
    }
    arms = [{"name": "one"}, {"name": "two"}]
    recipe = Recipe.model_validate({"title": "A test", "source": "a test", "arms": arms, "published": published})
    arm = write_run(tmp_path / "one", [debate(f"q{n}", (RIGHT, RIGHT)) for n in range(3)])
    mean = interval(estimate([1.0] * 3))
    table = published_table(recipe, [arm])
    assert table.columns == ("arm", "dataset", "model", "EM", "label")
    assert [[cell.whole for cell in row] for row in table.rows] == [
        ["one", "lakes", "ours: scripted/a, scripted/b", mean, "-"],
        ["one", "lakes", "gpt-8", "50.0", "-"],
        ["one", "lakes", "gpt-9", "60.0", "-"],
        ["one", "rivers", "ours: scripted/a, scripted/b", "-", "-"],
        ["one", "rivers", "gpt-8", "-", "30.0"],
        ["two", "lakes", "gpt-9", "70.0", "-"],
    ]
    planned = published_table(recipe)
    assert [row[2].text for row in planned.rows] == ["gpt-8", "gpt-9", "gpt-8", "gpt-9"]


def test_a_recipe_that_quotes_nothing_has_no_table() -> None:
    recipe = Recipe.model_validate({"title": "A test", "source": "a test", "arms": [{"name": "one"}]})
    assert published_table(recipe) is None
