"""The command line as a user runs it: another process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
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
    lacks = "" if figures else "matplotlib"
    return forked.run("madke", args, cwd=cwd, env={**os.environ, **env}, timeout=timeout, lacks=lacks)


def script(
    path: Path, *args: object, cwd: Path | None = None, timeout: float = 120, lacks: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a Python file to the end, where the package ``lacks`` is not installed."""
    return forked.run(path, args, cwd=cwd, env=os.environ, timeout=timeout, lacks=lacks)


@contextmanager
def started(*args: object) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the block does; killed at its end if it still runs.

    Reports have no figures, as in :func:`madke`. With ``--engine ray`` it has a process of its own, whose children are
    those of Ray.
    """
    program = command(*args)
    if forked.suits(os.environ) and "ray" not in args:
        program = forked.command("madke", args, lacks="matplotlib")
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def refused(*args: object, cwd: Path | None = None, **env: Any) -> str:
    """Run a command that must end as bad input: exit status 2, one line on stderr, nothing on stdout.

    The line is returned. Before it may stand how many golds each question file has.
    """
    done = madke(*args, cwd=cwd, **env)
    assert (done.returncode, done.stdout) == (2, ""), done
    lines = done.stderr.splitlines(keepends=True)
    told = "".join(line for line in lines if not re.search(r": [\d,]+ questions?, (no|[\d,]+) golds?", line))
    assert told.startswith("madke: ")
    assert told.count("\n") == 1, done.stderr
    return told
