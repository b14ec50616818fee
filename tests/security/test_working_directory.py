"""A folder that somebody else made, a cloned repository for instance, runs no code when madke is called in it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
RUN = "from pathlib import Path\nPath(__file__).with_name('RAN').write_text(__name__)\n"
MODULES = ("yaml", "typer", "rich", "jinja2", "pydantic", "openai", "click", "sitecustomize", "evil", "scipy")
CONSOLE_SCRIPT = "import sys\nfrom madke.__main__ import main\nsys.exit(main())\n"


@pytest.fixture
def cloned(tmp_path: Path) -> Any:
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


def write_questions(folder: Any, task: Any) -> None:
    line = {"id": "q0", "question": "Which lake is the deepest?", "golden_answers": ["Baikal"], "task": task}
    (folder / "q.jsonl").write_text(json.dumps(line) + "\n")


def called(folder: Any, program: Any, *args: Any) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        [sys.executable, *program, *args], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(params=["python -m madke", pytest.param("madke", marks=pytest.mark.slow)])
def program(request: Any, tmp_path: Path) -> Any:
    if request.param == "python -m madke":
        return ["-m", "madke"]
    script = tmp_path / "bin" / "madke"
    script.parent.mkdir()
    script.write_text(CONSOLE_SCRIPT)
    return [str(script)]


COMMANDS = {
    "protocols": ("protocols", "show", "standard"),
    "ask": ("ask", "Which lake is the deepest?", "--protocol", "cot", "--model", "scripted/script.yaml"),
    "run": ("run", "q.jsonl", "--protocol", "cot", "--model", "scripted/script.yaml", "--out", "out"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_module_of_the_folder_is_imported(cloned: Any, program: Any, command: Any) -> None:
    done = called(cloned, program, *COMMANDS[command])

    assert done.returncode == 0, done.stderr
    assert not (cloned / "RAN").exists(), (cloned / "RAN").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("sources.yaml", "python"),
        pytest.param("sources.yaml", "command", marks=pytest.mark.slow),
        pytest.param("models.yaml", "python", marks=pytest.mark.slow),
        ("models.yaml", "command"),
    ],
)
def test_no_entry_of_a_file_that_was_not_named_is_run(cloned: Any, file: str, key: str) -> None:
    """Such an entry may be refused; it may not run."""
    ours = "google" if file == "sources.yaml" else "openai/gpt-4o-mini"
    run = "evil:it" if key == "python" else f"{sys.executable} {cloned / 'evil.py'}"
    (cloned / file).write_text(f'evil: {{{key}: "{run}"}}\n{ours}: {{{key}: "{run}"}}\n')
    choice = ("--sources", "evil") if file == "sources.yaml" else ("--model", "evil")

    for command in (COMMANDS["run"], (*COMMANDS["run"][:-1], "other", *choice)):
        called(cloned, ["-m", "madke"], *command)

    assert not (cloned / "RAN").exists()


@pytest.mark.parametrize("args", [("run", "q.jsonl", "--protocol", "cot", "--model", "offline", "--out", "out")])
def test_a_task_that_only_a_question_file_names_is_not_imported(cloned: Any, args: tuple[str, ...]) -> None:
    write_questions(cloned, "evil:it")

    done = called(cloned, ["-m", "madke"], *args)

    assert done.returncode == 2
    assert "if you trust it, give --task evil:it" in done.stderr
    assert not (cloned / "RAN").exists()


def test_code_that_the_command_line_names_runs(cloned: Any) -> None:
    called(cloned, ["-m", "madke"], *COMMANDS["run"], "--task", "evil:it")

    assert (cloned / "RAN").read_text() == "evil"


@pytest.mark.slow
def test_a_checkout_that_is_not_installed_still_runs(tmp_path: Path) -> None:
    """There the package is found in the working directory alone."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for part in ("madke", "prompts"):
        (checkout / part).symlink_to(CHECKOUT / part)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (checkout / "yaml.py").write_text(RUN)

    done = subprocess.run(
        [sys.executable, "-m", "madke", "protocols"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert not (checkout / "RAN").exists()
