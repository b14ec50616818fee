"""A paper's figures beside those of an experiment that follows it."""

import pytest

from madke.core.transcript import to_json
from madke.experiments.recipe import Recipe
from madke.report.published import published_table
from madke.report.text import interval
from madke.runs.scored import GRADER, answers_of, keep_scores
from madke.scoring.statistics import estimate
from tests.report.run_folders import debate

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def ours(folder, transcripts, metric, *, dataset="all", grades=()):
    """What stands beside a published figure of an arm with these debates."""
    arm = folder / "one"
    arm.mkdir()
    (arm / "transcripts.jsonl").write_bytes(b"".join(to_json(each) + b"\n" for each in transcripts))
    if grades:
        answers = answers_of(transcripts)
        keep_scores(arm, GRADER, answers, command="m", scores=dict(zip(answers, grades, strict=True)))
    published = {"gpt-9": {"one": {dataset: {metric: 0.5}}}}
    recipe = Recipe.model_validate(
        {"title": "A test", "source": "a test", "arms": [{"name": "one"}], "published": published}
    )
    table = published_table(recipe, [arm])
    (row,) = table.rows
    assert [cell.text for cell in row[:4]] == ["one", dataset, "gpt-9", "50.0"]
    assert table.notes[0].startswith("Published: a test.")
    return row[4].text


def test_co2_by_a_grader_takes_its_grade_for_right(tmp_path):
    played = [
        debate("q0", (RIGHT, RIGHT)),
        debate("q1", (WRONG, WRONG)),
        debate("q2", (RIGHT, RIGHT), consensus=False),
        debate("q3", (RIGHT, RIGHT)),
    ]
    values = [1, 1, 0, 0]
    assert ours(tmp_path, played, "co2_judge_grader", grades=[1, 1, 1, 0]) == interval(estimate(values))


def test_without_grades_there_is_no_co2_by_a_grader(tmp_path):
    assert ours(tmp_path, [debate("q0", (RIGHT, RIGHT))], "co2_judge_grader") == "-"


@pytest.mark.parametrize("dataset", ["all", "lakes"])
def test_questions_of_several_datasets_are_clustered_by_them(tmp_path, dataset):
    said = {"lakes": [RIGHT] * 9 + [WRONG], "rivers": [RIGHT] * 2 + [WRONG] * 8}
    played = [
        debate(f"{name}{n}", (answer, answer), dataset=name)
        for name, answers in said.items()
        for n, answer in enumerate(answers)
    ]
    if dataset == "all":
        expected = estimate([float(t.answer == RIGHT) for t in played], [t.dataset for t in played])
    else:
        expected = estimate([1.0] * 9 + [0.0])
    assert ours(tmp_path, played, "em", dataset=dataset) == interval(expected)


def test_a_recipe_that_quotes_nothing_has_no_table():
    recipe = Recipe.model_validate({"title": "A test", "source": "a test", "arms": [{"name": "one"}]})
    assert published_table(recipe) is None
