"""A page that is followed as a reader would: its blocks in order, in one folder, with what one exports for the next."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.docs.blocks import Block
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


class PageRunner:
    """Runs the blocks of one page, in a folder with a copy of the samples and examples.

    Args:
        folder: For that folder, and for what the shell keeps between blocks: exported variables and working directory.
        server: The address of the server in place of every ``localhost`` address, and of OpenAI's.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self._server = server
        self._work, self._state, self._home = folder / "work", folder / "state", folder / "home"
        for part in ("eval/samples", "examples", "prompts"):
            shutil.copytree(CHECKOUT / part, self._work / part, ignore=shutil.ignore_patterns("__pycache__"))
        self._state.mkdir()
        self._home.mkdir()
        forked.install(self._home / "madke", Path(sys.executable).with_name("madke"))

    def run(self, block: Block) -> str:
        """Run a block, or write the file that it is; returns what it printed.

        Raises:
            AssertionError: It failed.
        """
        text = _SERVER.sub(self._server, block.text)
        if block.is_file or block.language == "python":
            path = self._work / (block.title or f"line-{block.line}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return "" if block.is_file else self._shell(shlex.join(forked.command(path)))
        return self._shell(text)

    def _shell(self, command: str) -> str:
        keep = f'trap \'export -p >"{self._state}/exported"; pwd >"{self._state}/folder"\' EXIT'
        before = f'[ -e "{self._state}/exported" ] && . "{self._state}/exported" && cd "$(cat "{self._state}/folder")"'
        environment = {
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "HOME": str(self._home),
            "PATH": os.pathsep.join([str(self._home), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "OPENAI_BASE_URL": self._server,
            "OPENAI_API_KEY": "a-key-for-the-loopback-server",
        }
        with subprocess.Popen(
            ["bash", "-c", f"{before}\n{keep}\nset -eo pipefail\n{command}"],
            cwd=self._work,
            env=environment,
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
