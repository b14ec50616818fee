"""A paper's figures beside those of an experiment that follows it: every verdict is known from the answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from madke.engine.variant import load_variant
from madke.engine.wording import copy_words
from madke.experiments.recipe import Recipe
from madke.report.reproduction import Figure, figures, published_table
from madke.report.tables import percent_cell
from madke.scoring.metrics import GRADER
from madke.scoring.scored import answers_of, keep_scores
from madke.scoring.statistics import estimate, wilson
from tests.report.run_folders import debate
from tests.support.run_folder import write_run

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
TURBO = {"debater-1": "openai/gpt-9-turbo", "judge": "openai/gpt-9-turbo"}


def recipe_of(of_lakes: Mapping[str, float], **more: Any) -> Recipe:
    """A recipe with one arm, whose published figures on "lakes" these are."""
    described = {"title": "A test", "source": "a test", "arms": [{"name": "one"}]}
    return Recipe.model_validate({**described, "published": {"GPT-9-Turbo": {"one": {"lakes": of_lakes}}}, **more})


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
        (20, 0.3, "reproduced"),
        (20, 0.275, "higher"),
        (40, 0.9, "reproduced"),
        (40, 0.875, "higher"),
        (0, 0.125, "lower"),
    ],
)
def test_a_verdict_is_about_the_difference_of_two_samples(
    tmp_path: Path, right: int, published: float, verdict: str
) -> None:
    folder = write_run(tmp_path / "one", *lakes(right, 40), models=TURBO)
    found = only(recipe_of({"em": published}, limit=40), folder)
    assert found.ours == estimate([1.0] * right + [0.0] * (40 - right))
    assert found.published_interval == wilson(round(published * 40), 40)
    assert (found.verdict, found.reasons) == (verdict, ())


def test_shipped_prompts_are_a_reason_and_prompts_of_the_user_are_none(tmp_path: Path) -> None:
    recipe = recipe_of({"em": 0.5})
    shipped = load_variant("madke").files
    own = {file: "0" * 64 if file.startswith("madke/") else sha256 for file, sha256 in shipped.items()}
    copy_words("madke", printed := tmp_path / "printed.yaml")
    worded = load_variant("madke").in_words(printed).files
    structure = load_variant("madke").in_words("paper").files
    for name, files, wording, reasons in (
        ("shipped", shipped, None, ("own words",)),
        ("folder", own, None, ()),
        ("structure", structure, "paper", ("own words",)),
        ("file", worded, "printed.yaml", ()),
    ):
        made: dict[str, Any] = {"variant": "madke", "prompts_sha256": files, "wording": wording}
        run = write_run(tmp_path / name / "one", *lakes(5, 9), models=TURBO, **made)
        assert only(recipe, run).reasons == reasons


def test_what_was_made_differently_is_not_comparable(tmp_path: Path) -> None:
    served = {"wiki": "BM25 over sample (120 passages)", "google": "web search through https://google.serper.dev"}
    played = [*lakes(5, 9), debate("gone", (RIGHT, RIGHT), answer=None, status="failed")]
    folder = write_run(tmp_path / "one", *played, models=TURBO, sources=served)
    keep_scores(folder, GRADER, answers_of(played), command="tiny", scores=dict.fromkeys(answers_of(played), 1.0))
    made = {"sources": {"wiki": "wikipedia-dpr-100w", "google": "google.serper.dev"}, "grader": "gpt-4"}
    found = only(recipe_of({"grader": 0.5}, limit=500, published_with=made), folder)
    assert found.verdict == "not comparable"
    assert found.reasons == ("n = 10, not 500", "1 failed", "other index (wiki)", "other grader")


def test_a_model_that_the_paper_does_not_have_is_shown_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", *lakes(2, 4), models={"debater-1": "scripted/a"})
    theirs, ours = figures(recipe_of({"em": 0.5}), [folder])
    assert theirs.verdict == "not run"
    assert (ours.model, ours.published, ours.verdict) == ("scripted/a", None, "not comparable")
    assert ours.reasons == ("other model",)


def test_a_figure_is_a_row_with_its_verdict_and_reasons(tmp_path: Path) -> None:
    published = {
        "GPT-8": {"two": {"lakes": {"em": 0.7}}},
        "GPT-9-Turbo": {"one": {"lakes": {"em": 0.5, "f1": 0.6}, "rivers": {"em": 0.9}}},
    }
    folder = write_run(tmp_path / "one", *lakes(20, 40), *lakes(20, 40, "rivers"), models=TURBO)
    recipe = recipe_of({}, arms=[{"name": "one"}, {"name": "two"}], published=published, limit=40)
    table = published_table(recipe, figures(recipe, [folder]))
    assert table.columns == ("model", "arm", "dataset", "metric", "published", "ours", "verdict", "why")
    # F1 of the wrong answer is 0.5, because both lakes share a word.
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["GPT-8", "two", "lakes", "EM", "70.0", "-", "not run", "-"],
        ["GPT-9-Turbo", "one", "lakes", "EM", "50.0", "50.0", "reproduced", "-"],
        ["GPT-9-Turbo", "one", "lakes", "F1", "60.0", "75.0", "reproduced", "-"],
        ["GPT-9-Turbo", "one", "rivers", "EM", "90.0", "50.0", "lower", "-"],
    ]
    assert table.rows[1][5].whole == percent_cell(estimate([1.0] * 20 + [0.0] * 20)).whole
