"""The command line as a user runs it: another process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import forked


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "madke", *map(str, args)]


def madke(
    *args: object, cwd: Path | None = None, timeout: float = 120, figures: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end; ``env`` is added to this process's environment.

    Reports have no figures, as where matplotlib is not installed: drawing them is half the time of a small run.
    """
    return _run(args, env, cwd=cwd, timeout=timeout, lacks="" if figures else "matplotlib")


def _run(
    args: Sequence[object],
    env: Mapping[str, str],
    *,
    cwd: Path | None,
    timeout: float = 120,
    lacks: str = "matplotlib",
) -> subprocess.CompletedProcess[str]:
    return forked.run("madke", args, cwd=cwd, env={**os.environ, **env}, timeout=timeout, lacks=lacks)


def script(
    path: Path, *args: object, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a Python file to the end."""
    return forked.run(path, args, cwd=cwd, env=os.environ, timeout=timeout)


@contextmanager
def started(*args: object) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the block does; killed at its end if it still runs.

    It takes Ctrl-C and SIGHUP even where the tests run in the background, where both may be ignored and inherited so.
    Reports have no figures, as in :func:`madke`.
    """
    start = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); sys.modules['matplotlib'] = None; "
        "from madke.cli.app import run_command_line; run_command_line()"
    )
    program = [sys.executable, "-c", start, *map(str, args)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def refused(*args: object, cwd: Path | None = None, **env: Any) -> str:
    """Run a command that must end as bad input: exit status 2, one line on stderr, nothing on stdout.

    The line is returned. Before it may stand how many golds each question file has.
    """
    done = _run(args, env, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), done
    lines = done.stderr.splitlines(keepends=True)
    told = "".join(line for line in lines if not re.search(r": [\d,]+ questions?, (no|[\d,]+) golds?", line))
    assert told.startswith("madke: ")
    assert told.count("\n") == 1, done.stderr
    return told
