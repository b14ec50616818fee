"""A paper's figures beside those of an experiment that follows it: every verdict is known from the answers."""

from pathlib import Path
from typing import Any

import pytest

from madke.engine.variant import load_variant
from madke.experiments.recipe import Recipe, read_recipe, recipe_files
from madke.report.files import table_csv, table_latex
from madke.report.reproduction import Figure, averages, figures, published_files, reproduction_tables
from madke.report.tables import interval
from madke.scoring.metrics import GRADER
from madke.scoring.outside import answers_of, keep_scores
from madke.scoring.statistics import Estimate, estimate, wilson
from tests.report.run_folders import debate
from tests.support.run_folder import write_run

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
TURBO = {"debater-1": "openai/gpt-9-turbo", "judge": "openai/gpt-9-turbo"}


def recipe_of(published: Any, *arms: str, **more: Any) -> Recipe:
    described = {"title": "A test", "source": "a test", "arms": [{"name": name} for name in arms or ("one",)]}
    return Recipe.model_validate({**described, "published": published, **more})


def lakes(right: int, of: int, dataset: str = "lakes", **changes: Any) -> list[Any]:
    """Debates of a mock that is right on the first ``right`` questions."""
    said = [RIGHT] * right + [WRONG] * (of - right)
    return [debate(f"{dataset}{n}", (text, text), dataset=dataset, **changes) for n, text in enumerate(said)]


def only(recipe: Recipe, folder: Path) -> Figure:
    (found,) = figures(recipe, [folder])
    return found


@pytest.mark.parametrize(
    ("right", "published", "verdict"),
    # Newcombe, 1998, method 10: 20 of 40 and 12 of 40 differ by -0.014 to 0.390, 20 and 11 by 0.012 to 0.412.
    [
        (20, 0.5, "reproduced"),
        (20, 0.3, "reproduced"),
        (20, 0.7, "reproduced"),
        (20, 0.275, "higher"),
        (20, 0.725, "lower"),
        (40, 1.0, "reproduced"),
        (40, 0.9, "reproduced"),
        (40, 0.875, "higher"),
        (0, 0.125, "lower"),
    ],
)
def test_a_verdict_is_about_the_difference_of_two_samples(
    tmp_path: Path, right: int, published: float, verdict: str
) -> None:
    folder = write_run(tmp_path / "one", *lakes(right, 40), models=TURBO)
    found = only(recipe_of({"GPT-9-Turbo": {"one": {"lakes": {"em": published}}}}, limit=40), folder)
    assert found.ours == estimate([1.0] * right + [0.0] * (40 - right))
    assert found.published_interval == wilson(round(published * 40), 40)
    assert (found.verdict, found.reasons) == (verdict, ())


def test_shipped_prompts_are_a_reason_and_prompts_of_the_user_are_none(tmp_path: Path) -> None:
    recipe = recipe_of({"GPT-9-Turbo": {"one": {"lakes": {"em": 0.5}}}})
    shipped = load_variant("madke").files
    own = {file: "0" * 64 if file.startswith("madke/") else sha256 for file, sha256 in shipped.items()}
    for name, files, reasons in (("shipped", shipped, ("own words",)), ("given", own, ())):
        run = write_run(tmp_path / name / "one", *lakes(5, 9), models=TURBO, variant="madke", prompts_sha256=files)
        assert only(recipe, run).reasons == reasons


def test_what_was_made_differently_is_not_comparable(tmp_path: Path) -> None:
    served = {"wiki": "BM25 over sample (120 passages)", "google": "web search through https://google.serper.dev"}
    played = lakes(5, 9)
    folder = write_run(tmp_path / "one", *played, models=TURBO, sources=served)
    keep_scores(folder, GRADER, answers_of(played), command="tiny", scores=dict.fromkeys(answers_of(played), 1.0))
    made = {"sources": {"wiki": "wikipedia-dpr-100w", "google": "google.serper.dev"}, "grader": "gpt-4"}
    recipe = recipe_of({"GPT-9-Turbo": {"one": {"lakes": {"grader": 0.5}}}}, limit=500, published_with=made)
    found = only(recipe, folder)
    assert found.verdict == "not comparable"
    assert found.reasons == ("n = 9, not 500", "other index (wiki)", "other grader")


def test_failed_debates_are_not_comparable(tmp_path: Path) -> None:
    played = [*lakes(5, 9), debate("gone", (RIGHT, RIGHT), answer=None, status="failed")]
    folder = write_run(tmp_path / "one", *played, models=TURBO)
    found = only(recipe_of({"GPT-9-Turbo": {"one": {"lakes": {"em": 0.5}}}}), folder)
    assert (found.verdict, found.reasons) == ("not comparable", ("1 failed",))


def test_a_model_that_the_paper_does_not_have_is_shown_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", *lakes(2, 4), models={"debater-1": "scripted/a"})
    recipe = recipe_of({name: {"one": {"lakes": {"em": 0.5}}} for name in ("GPT-8", "GPT-9-Turbo")})
    theirs, others, ours = figures(recipe, [folder])
    assert [each.verdict for each in (theirs, others)] == ["not run"] * 2
    assert (ours.model, ours.published, ours.verdict) == ("scripted/a", None, "not comparable")
    assert ours.reasons == ("other model",)


def test_backbones_are_rows_and_datasets_columns(tmp_path: Path) -> None:
    published = {
        "GPT-8": {"two": {"lakes": {"em": 0.7, "f1": 0.7}, "rivers": {"em": 0.1, "f1": 0.2}}},
        "GPT-9-Turbo": {"one": {"lakes": {"em": 0.5, "f1": 0.6}, "rivers": {"em": 0.9, "f1": 0.9}}},
    }
    played = [*lakes(20, 40), *lakes(20, 40, "rivers")]
    folder = write_run(tmp_path / "one", *played, models=TURBO)
    recipe = recipe_of(published, "one", "two", limit=40)
    tables = reproduction_tables(recipe, [folder])
    assert [*tables] == ["em", "f1"]
    table = tables["em"]
    assert table.columns[:6] == ("model", "arm", "figures", "lakes %", "rivers %", "average %")
    assert [[f"{cell.text}{cell.mark}" for cell in row[:6]] for row in table.rows] == [
        ["GPT-8", "two", "published", "70.0", "10.0", "40.0"],
        ["GPT-9-Turbo", "one", "published", "50.0", "90.0", "70.0"],
        ["GPT-9-Turbo", "one", "ours", "50.0 =", "50.0 v", "50.0 v"],
    ]
    assert table.rows[2][3].whole == interval(estimate([1.0] * 20 + [0.0] * 20))
    assert "lakes % mark" in table_csv(table)
    assert "50.0 v" in table_latex(table)
    (only_one,) = reproduction_tables(recipe, [folder], models=["gpt-8"])["em"].rows
    assert only_one[0].text == "GPT-8"
    files = published_files(recipe, [folder])
    assert [*files] == ["published_em", "published_f1", "published"]
    # F1 of the wrong answer is 0.5, because both lakes share a word: 75.0 on both datasets, next to 60 and 90 of 40.
    verdicts = [row[6].text for row in files["published"].rows]
    assert verdicts == ["not run"] * 4 + ["reproduced", "reproduced", "lower", "reproduced"]


def test_an_average_counts_each_dataset_the_same() -> None:
    parts = [
        Figure(
            model="m",
            arm="a",
            dataset=name,
            metric="em",
            published=0.5,
            ours=Estimate(value=v, low=low, high=high, n=9),
        )
        for name, v, low, high in (("x", 0.2, 0.1, 0.3), ("y", 0.6, 0.4, 0.8))
    ]
    mean = averages(parts)
    assert mean is not None
    assert mean.ours is not None
    half = (0.1**2 + 0.2**2) ** 0.5 / 2  # the standard error of a mean of two independent means
    assert (mean.ours.value, mean.ours.low, mean.ours.high) == pytest.approx((0.4, 0.4 - half, 0.4 + half))
    assert averages(parts[:1]) is None


@pytest.mark.parametrize("name", recipe_files())
def test_every_published_figure_of_a_recipe_is_in_a_table(name: str) -> None:
    recipe = read_recipe(name)
    shown = sum(
        cell.value is not None
        for table in reproduction_tables(recipe).values()
        for row in table.rows
        for heading, cell in zip(table.columns, row, strict=True)
        if not heading.startswith("average")
    )
    assert shown >= len([*recipe.figures()])


def graded(folder: Path, transcripts: Any, grades: Any) -> Figure:
    """Ours of Co2 by a grader."""
    run = write_run(folder / "one", *transcripts, models=TURBO)
    if grades:
        answers = answers_of(transcripts)
        keep_scores(run, GRADER, answers, command="m", scores=dict(zip(answers, grades, strict=False)))
    return only(recipe_of({"GPT-9-Turbo": {"one": {"lakes": {"co2_judge_grader": 0.5}}}}), run)


def test_co2_by_a_grader_takes_its_grade_for_right(tmp_path: Path) -> None:
    played = [
        debate("q0", (RIGHT, RIGHT)),
        debate("q1", (WRONG, WRONG)),
        debate("q2", (RIGHT, RIGHT), consensus=False),
        debate("q3", (RIGHT, RIGHT)),
    ]
    assert graded(tmp_path, played, [1, 1, 1, 0]).ours == estimate([1.0, 1.0, 0.0, 0.0])
