"""What ``make demo`` prints when a step fails."""

from pathlib import Path

from madke._util.assets import asset
from tests.support.cli import script


def test_a_step_that_fails_is_named_below_its_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = script(asset("eval", "demo.py"), tmp_path / "file" / "demo")
    *_, reason, empty, last = done.stderr.splitlines()
    assert "cannot be written" in reason
    assert empty == ""
    assert last.startswith("demo: this step ended with status 2, see above: madke study ")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
