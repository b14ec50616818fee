"""Nothing heavy is loaded before it is needed."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HEAVY = {
    *("faiss", "jnius", "math_verify", "numpy", "openai", "pandas", "pyserini", "ray", "sacrebleu", "scipy"),
    *("sympy", "torch", "transformers"),
}


def loaded(importtime: Iterable[str]) -> set[str]:
    """The modules in what ``-X importtime`` says, and their packages."""
    modules = {line.rpartition("|")[2].strip() for line in importtime if "|" in line}
    assert "madke" in modules
    return modules | {name.partition(".")[0] for name in modules}


def test_help_loads_nothing_heavy_and_no_verb() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "madke", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    modules = loaded(done.stderr.splitlines())
    assert not modules & (HEAVY | {"jinja2", "pydantic"})
    assert {name for name in modules if name.startswith("madke.cli.")} == {"madke.cli.app"}
    assert "Debate one question over retrieved knowledge." in done.stdout
    assert "Retrieve passages into pool files." in done.stdout


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
    assert not loaded(lines) & (HEAVY | {"mcp", "matplotlib"})


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
