"""Programs that users name: started without a shell, and killed with their children when this process ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from madke._util.terminal import without_keys

_QUOTED = 200
"""Characters of a program's output that an error quotes."""
_GUARD = "import os, signal, sys; sys.stdin.read(); os.killpg(0, signal.SIGKILL)"
"""The guard leads the process group and kills it when this process ends, also if it is killed."""


class Child:
    """A running program with a guard. OSError or ValueError if it cannot be started."""

    def __init__(self, arguments: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            self.process = subprocess.Popen(
                arguments, stdin=pipe, stdout=pipe, stderr=pipe, process_group=self._guard.pid
            )
        except (OSError, ValueError):
            self.dismiss_guard()
            raise

    def kill(self) -> None:
        """Kill the program, its children and its guard."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, signal.SIGKILL)

    def ended(self, given: bytes | None = None, timeout: float | None = None) -> tuple[int, bytes, bytes]:
        """Status, standard output and standard error of the program, once it has read ``given`` and ended.

        ``subprocess.TimeoutExpired`` after ``timeout`` seconds. If the wait ends early, the program is killed.
        """
        with self.process as process:
            try:
                out, err = process.communicate(given, timeout=timeout)
            except BaseException:
                self.kill()
                raise
            finally:
                self.dismiss_guard()
        return process.returncode, out, err

    def dismiss_guard(self) -> None:
        """End the guard; the program goes on."""
        self._guard.kill()
        self._guard.communicate()


def quoted_output(text: str) -> str:
    """Output of a program, shortened, without keys."""
    return repr(without_keys(text).strip()[:_QUOTED])


def why_ended(status: int, errors: bytes) -> str:
    """The status of a program and the last line of its standard error."""
    printed = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return f"ended with status {status}" + (
        f"; its last line on stderr: {quoted_output(printed[-1])}" if printed else ""
    )
