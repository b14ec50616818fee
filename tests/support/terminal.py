"""The command line at a real pseudo-terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support import forked

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def typed_at_terminal(typed: str, *args: Any, cwd: Path) -> tuple[list[str], int]:
    """Run a command on a terminal of 24 rows and 80 columns, to which a person types something.

    Returns the lines that stay, without spaces at their ends, and the exit status.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = forked.command("madke", args)
    program = subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=kept)
    os.close(theirs)
    os.write(ours, typed.encode())
    seen: list[bytes] = []
    reader = Thread(target=_read, args=(ours, seen))
    reader.start()
    program.wait(120)
    reader.join()
    os.close(ours)
    text = _CONTROL.sub("", b"".join(seen).decode().replace("\r\n", "\n"))
    # A line that is drawn again goes back to its start.
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")], program.returncode


def _read(terminal: int, seen: list[bytes]) -> None:
    while True:
        try:
            seen.append(os.read(terminal, 65536))
        except OSError:  # the program has ended
            return
