"""The wheel holds the assets. ``make release-check`` builds it, and asks it a question outside the checkout."""

from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent


def test_it_holds_the_assets() -> None:
    builders = pytest.importorskip("hatchling.builders.wheel")
    builder = builders.WheelBuilder(str(CHECKOUT))
    names = {file.distribution_path for file in builder.recurse_included_files()}
    for asset in ("prompts/madke/protocol.yaml", "indexes/sample/passages.jsonl", "eval/samples/questions.jsonl"):
        assert f"madke/_assets/{asset}" in names
    for part in ("templates/report.html.j2", "page/style.css", "page/script/app.js"):
        assert f"madke/report/{part}" in names
    assert "madke/serve/site/page.js" in names
    for asset in ("recipes/madke-table-2.yaml", "datasets/hotpotqa.yaml"):
        assert f"madke/_assets/eval/{asset}" in names
    assert "madke/_assets/prompts/grading/grade.yaml" in names
    for name in ("models", "prices", "search", "sources"):
        assert f"madke/_assets/examples/{name}.example.yaml" in names
    assert any(name.startswith("madke/_assets/indexes/sample/minilm-") for name in names)
    assert not any(name.startswith("tests/") or "__pycache__" in name or "README" in name for name in names)
