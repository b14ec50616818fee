"""A page that is followed as a reader would: its blocks in order, in one folder, with what one exports for the next."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.blocks import SHELL, Block, commands, missing
from tests.support import forked
from tests.support.openai_server import Reply, chat

CHECKOUT = Path(__file__).parents[2]

# Where a page says that its reader's server runs.
_SERVER = re.compile(r"http://localhost:\d+/v1")

_LIMIT = 600
"""Seconds for one command: many on a machine that does something else as well."""


def model_reply(body: Mapping[str, Any], n: int) -> Reply:
    """What the loopback server says in place of a language model: every form that some prompt asks for."""
    prompt = str(body["messages"])
    for form in ("Selected: [0]", "[SAME]", "[True]", "[KEEP]"):
        if form in prompt:
            return chat(f"I have compared them.\n{form}")
    return chat("I am sure.\nThe answer is [Lake Baikal].")


@dataclass(kw_only=True)
class PageRunner:
    """Runs the blocks of one page in ``folder``, which holds a copy of the samples and examples."""

    folder: Path
    server: str
    """The address of the server in place of every ``localhost`` address, and of OpenAI's."""
    state: Path
    """A folder for what the shell keeps between blocks: exported variables and the working directory."""
    programs: Path
    """A folder with what :func:`install_programs` writes, which comes first on the PATH."""
    python: subprocess.Popen[str] | None = field(default=None, init=False)

    def run(self, block: Block) -> str:
        """Run a block, or write the file that it is; returns what it printed.

        Raises:
            AssertionError: It failed, or did not print what the page shows.
        """
        text = _SERVER.sub(self.server, block.text)
        if block.is_file:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return ""
        if block.language == "python":
            return self._python(text, f"line {block.line}")
        if block.language not in SHELL:
            return ""
        printed = ""
        for command, shown in commands(block):
            printed = self._shell(_SERVER.sub(self.server, command))
            line = missing(shown, printed)
            assert line is None, f"{command}\nshould print\n{line}\nbut printed\n{printed[-3000:]}"
        return printed

    def _shell(self, command: str) -> str:
        keep = f'trap \'export -p >"{self.state}/exported"; pwd >"{self.state}/folder"\' EXIT'
        before = f'[ -e "{self.state}/exported" ] && . "{self.state}/exported" && cd "$(cat "{self.state}/folder")"'
        script = f"{before}\n{keep}\nset -eo pipefail\n{command}"
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=_LIMIT)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with what it started
                raise
        assert process.returncode == 0, f"{command}\nended with {process.returncode}:\n{printed[-3000:]}"
        return printed

    def _python(self, source: str, name: str) -> str:
        if self.python is None:
            self.python = subprocess.Popen(
                self.programs / "python-blocks",
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.python.stdin
        assert self.python.stdout
        self.python.stdin.write(json.dumps({"name": f"<{name}>", "source": source}) + "\n")
        self.python.stdin.flush()
        line = self.python.stdout.readline()
        assert line, f"{source}\nended Python with {self.python.wait()}"
        answer = json.loads(line)
        assert not answer["error"], f"{source}\n{answer['printed']}{answer['error'][-3000:]}"
        return str(answer["printed"])

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "HOME": str(self.programs),
            "PATH": os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "OPENAI_BASE_URL": self.server,
            "OPENAI_API_KEY": "a-key-for-the-loopback-server",
        }


def install_programs(folder: Path) -> None:
    """``madke`` and what runs Python blocks, as commands in a folder, which is their home."""
    forked.install(folder / "madke", Path(sys.executable).with_name("madke"))
    forked.install(folder / "python-blocks", Path(__file__).with_name("python_blocks.py"))


@contextmanager
def page_runner(folder: Path, server: str, programs: Path) -> Iterator[PageRunner]:
    """A runner with an empty page behind it; its Python process ends with the block."""
    work, state = folder / "work", folder / "state"
    state.mkdir(parents=True)
    for part in ("eval/samples", "examples", "prompts"):
        shutil.copytree(CHECKOUT / part, work / part, ignore=shutil.ignore_patterns("__pycache__"))
    runner = PageRunner(folder=work, server=server, state=state, programs=programs)
    try:
        yield runner
    finally:
        if runner.python is not None:
            assert runner.python.stdin
            assert runner.python.stdout
            runner.python.stdin.close()
            try:
                runner.python.wait(timeout=30)
            finally:
                runner.python.kill()
                runner.python.stdout.close()
