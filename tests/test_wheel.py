"""The wheel works outside the checkout, assets included."""

import json
import subprocess
import sys
import sysconfig
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
    assert "madke/_assets/prompts/retrieval/stages.yaml" in names
    for name in ("models", "prices", "search", "sources"):
        assert f"madke/_assets/examples/{name}.example.yaml" in names
    assert not any(name.startswith("tests/") or "__pycache__" in name or "README" in name for name in names)


def test_installed_elsewhere_it_answers_a_question(wheel: Any, tmp_path: Path) -> None:
    """The environment is fresh; what the wheel depends on is borrowed from this one, since installing takes minutes."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, timeout=120)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    ask: list[str | Path] = [
        tmp_path / "venv" / "bin" / "madke",
        "ask",
        "In which city was Verdi's opera Aida first performed?",
        "--json",
    ]
    done = subprocess.run(ask, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    transcript = json.loads(done.stdout)
    assert {entry["source"] for entry in transcript["pool"]} == {"wiki", "google"}
    assert "Cairo" in transcript["answer"]
    where = subprocess.run(
        [python, "-c", "import madke; print(madke.__file__)"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert where.stdout.startswith(str(tmp_path))
