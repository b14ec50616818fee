"""What ``make demo`` prints when a step fails."""

from pathlib import Path

import pytest

from madke._util.assets import asset
from tests.support.cli import script


def test_a_step_that_fails_is_named_below_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_SOURCES", str(tmp_path / "missing.yaml"))
    done = script(asset("eval", "demo.py"), tmp_path / "demo")
    *_, reason, empty, last = done.stderr.splitlines()
    assert "cannot be read" in reason
    assert empty == ""
    assert last.startswith("demo: this step ended with status 2, see above: madke ask ")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
