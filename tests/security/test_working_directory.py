"""A folder that somebody else made, a cloned repository for instance, runs no code when madke is called in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
RUN = "from pathlib import Path\nPath(__file__).with_name('RAN').write_text(__name__)\n"
MODULES = ("yaml", "typer", "rich", "jinja2", "pydantic", "openai", "click", "sitecustomize", "evil", "scipy")


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    """Questions, and next to them everything that might be imported, read or run without being named."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(RUN)
    (folder / "prompts" / "cot").mkdir(parents=True)
    (folder / "prompts" / "cot" / "protocol.yaml").write_text("debaters: 99\n")
    (folder / "script.yaml").write_text('- {reply: "The answer is [Baikal]."}\n')
    write_questions(folder, "short_answer")
    return folder


def write_questions(folder: Path, task: str) -> None:
    line = {"id": "q0", "question": "Which lake is the deepest?", "golden_answers": ["Baikal"], "task": task}
    (folder / "q.jsonl").write_text(json.dumps(line) + "\n")


def called(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), **environment}
    command = [sys.executable, "-m", "madke", *args]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


SCRIPTED = ("--protocol", "cot", "--model", "scripted/script.yaml")
RUN_IT = ("run", "q.jsonl", *SCRIPTED, "--out", "out")


def test_no_module_of_the_folder_is_imported(cloned: Path) -> None:
    for command in (("ask", "Which lake is the deepest?", *SCRIPTED), RUN_IT):
        done = called(cloned, *command)

        assert done.returncode == 0, done.stderr
        assert not (cloned / "RAN").exists(), (cloned / "RAN").read_text()


def test_a_task_of_code_runs_only_where_the_command_line_names_it(cloned: Path) -> None:
    write_questions(cloned, "evil:it")

    done = called(cloned, *RUN_IT)

    assert done.returncode == 2
    assert "if you trust it, give --task evil:it" in done.stderr
    assert not (cloned / "RAN").exists()

    called(cloned, *RUN_IT, "--task", "evil:it")

    assert (cloned / "RAN").read_text() == "evil"


@pytest.mark.slow
def test_a_checkout_that_is_not_installed_still_runs(tmp_path: Path) -> None:
    """There the package is found in the working directory alone."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for part in ("madke", "prompts"):
        (checkout / part).symlink_to(CHECKOUT / part)
    (checkout / "yaml.py").write_text(RUN)

    done = called(checkout, "protocols", PYTHONPATH="")

    assert done.returncode == 0, done.stderr
    assert not (checkout / "RAN").exists()
