"""Nothing heavy is loaded before it is needed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

HEAVY = {"torch", "faiss", "jnius", "pandas", "ray", "transformers", "scipy", "numpy", "openai", "pyserini"} | {
    "math_verify",
    "sympy",
    "sacrebleu",
    "pydantic",
}


def loaded_by(code: Any) -> Any:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return packages(done.stderr.splitlines())


def packages(lines: list[str]) -> set[str]:
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if "|" in line}
    assert "madke" in names
    return names


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_by("import madke") & HEAVY


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['madke', '--help']; from madke.cli.app import run_command_line; run_command_line()"
    assert not loaded_by(code) & (HEAVY | {"jinja2", "pydantic"})


def test_a_server_that_nobody_has_asked_has_loaded_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "madke", "serve", "--port", "0", "--out", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            if line.startswith("Page: "):  # what it loads after this, nobody waits for
                process.terminate()
                break
            lines.append(line)
    assert not packages(lines) & (HEAVY - {"pydantic"} | {"mcp", "matplotlib"})


def test_the_list_of_verbs_imports_none() -> None:
    code = "import sys; sys.argv = ['madke', '--help']; from madke.cli.app import run_command_line as run\n"
    code += "try: run()\nfinally: print(*(name for name in sys.modules if name.startswith('madke.cli.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "madke.cli.app"
    assert "Debate one question over retrieved knowledge." in done.stdout
    assert "Retrieve passages into pool files." in done.stdout


def test_ctrl_c_while_the_command_line_is_imported_is_one_line() -> None:
    interrupted = """
import sys

class Interrupted:
    def find_spec(self, name, *_):
        if name == "madke.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from madke.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "madke: interrupted\n")
