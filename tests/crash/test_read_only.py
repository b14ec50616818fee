"""Places that nothing is written to: a read-only run is still scored and reported, and no device is replaced."""

import json
import os
from pathlib import Path

import pytest

from madke._util.files import write_file
from madke.core.errors import UserError
from tests.crash.conftest import freeze
from tests.support.cli import madke, refused


@pytest.mark.slow
def test_a_read_only_run_is_scored_and_reported_without_keeping_its_scores(read_only: Path, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(json.dumps({"id": "q", "question": "Which lake?", "golden_answers": ["x"]}))
    (tmp_path / "script.json").write_text(json.dumps([{"reply": "[x]"}]))
    model = ("--protocol", "standard", "--model", f"scripted/{tmp_path / 'script.json'}")
    run, page = read_only, tmp_path / "elsewhere.html"
    done = madke("run", tmp_path / "data.jsonl", *model, "--out", run)
    assert done.returncode == 0, done.stderr
    scores = json.loads(madke("score", run, "--json").stdout)
    (run / "metrics.json").unlink()
    freeze(run)

    done = madke("score", run, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == scores
    assert done.stderr.count("\n") == 1
    assert "metrics.json: cannot be written: " in done.stderr
    assert "the scores are not stored" in done.stderr

    assert madke("score", run, "--details").returncode == 0
    done = madke("report", run, "--out", page)
    assert (done.returncode, done.stderr, page.exists()) == (0, "", True)
    assert madke("report", run, "--question", "q").returncode == 0
    assert f"{run}: is read-only; give the page another place: --out FILE" in refused("report", run)


@pytest.mark.parametrize("name", ["device", "pipe"])
def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.devnull)  # a link, so that a fault cannot replace the machine's own device
    with pytest.raises(UserError, match="cannot be written: it is a folder, a device, a pipe or a socket"):
        write_file(tmp_path / name, b"text")
    assert not (tmp_path / name).is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"device", "pipe"}
