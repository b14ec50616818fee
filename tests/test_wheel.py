"""The wheel holds the assets. ``make release-check`` installs it outside the checkout and asks a question."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("wheel")
    build: list[str | Path] = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, CHECKOUT]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    return next(out.glob("*.whl"))


def test_it_holds_the_assets(wheel: Any) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
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
