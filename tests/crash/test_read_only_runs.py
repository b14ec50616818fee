"""A run directory that is read-only can be scored, reported and compared; nothing but the kept scores is missing."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import freeze
from tests.support.cli import madke, refused

pytestmark = pytest.mark.slow


@pytest.fixture
def frozen(read_only: Any, tmp_path: Path) -> Iterator[Any]:
    """A finished run in a read-only folder, without the scores that the run itself kept."""
    (tmp_path / "data.jsonl").write_text(json.dumps({"id": "q", "question": "Which lake?", "golden_answers": ["x"]}))
    options = ("--protocol", "standard", "--model", f"scripted/{tmp_path / 'script.json'}")
    (tmp_path / "script.json").write_text(json.dumps([{"reply": "[x]"}]))
    done = madke("run", tmp_path / "data.jsonl", *options, "--out", read_only / "run")
    assert done.returncode == 0, done.stderr
    scores = json.loads(madke("score", read_only / "run", "--json").stdout)
    (read_only / "run" / "metrics.json").unlink()
    if os.geteuid() != 0:
        freeze(read_only / "run")
    freeze(read_only)
    yield read_only / "run", scores, tmp_path
    if os.geteuid() != 0:
        (read_only / "run").chmod(0o700)


def test_it_is_scored_and_reported(frozen: Any) -> None:
    run, scores, folder = frozen
    done = madke("score", run, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == scores
    assert done.stderr.count("\n") == 1
    assert "metrics.json: cannot be written: " in done.stderr
    assert "the scores are not stored" in done.stderr

    assert madke("score", run, "--details").returncode == 0
    done = madke("report", run, "--out", folder / "elsewhere.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "elsewhere.html").exists()
    assert madke("report", run, "--question", "q").returncode == 0
    assert f"{run}: is read-only; give the page another place: --out FILE" in refused("report", run)
