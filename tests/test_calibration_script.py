"""``eval/calibration.py`` on the recorded replies: the page that is committed is what it writes."""

from pathlib import Path

from tests.support.cli import script

EVAL = Path(__file__).parents[1] / "eval"


def test_the_page_is_what_the_script_writes(shared_data: Path) -> None:
    done = script(EVAL / "calibration.py", "--data", shared_data / "recorded" / "mirage_mmlu_med", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EVAL / "calibration.md").read_text(encoding="utf-8")


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    done = script(EVAL / "calibration.py", "--data", tmp_path)
    assert done.returncode == 2
    assert "gpt-35-turbo-16k_cot" in done.stderr
