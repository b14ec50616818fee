"""The command line as a user runs it: another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "madke", *map(str, args)]


def madke(*args: object, cwd: Path | None = None, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
    """Run to the end; ``env`` is added to this process's environment."""
    return subprocess.run(
        command(*args), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout
    )


def refused(*args: object, cwd: Path | None = None, **env: str) -> str:
    """Run a command that must end as bad input: exit status 2, one line on stderr, nothing on stdout."""
    done = madke(*args, cwd=cwd, **env)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("madke: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
