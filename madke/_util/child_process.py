"""Programs that users name: started without a shell, and killed with their children when this process ends."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from madke._util.terminal import without_keys
from madke.core.errors import UserError

_MAX_QUOTED = 200
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

    def communicate(self, stdin: bytes | None = None, timeout: float | None = None) -> tuple[int, bytes, bytes]:
        """Status, standard output and standard error of the program, once it has read ``stdin`` and ended.

        ``subprocess.TimeoutExpired`` after ``timeout`` seconds. If the wait ends early, the program is killed.
        """
        with self.process as process:
            try:
                out, err = process.communicate(stdin, timeout=timeout)
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
    return repr(without_keys(text).strip()[:_MAX_QUOTED])


def why_ended(status: int, errors: bytes) -> str:
    """The status of a program and the last line of its standard error."""
    printed = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return f"ended with status {status}" + (
        f"; its last line on stderr: {quoted_output(printed[-1])}" if printed else ""
    )


# Scores from a program in another environment, such as COMET or BLEURT, which need other package versions.

_BATCH_SECONDS, _ITEM_SECONDS = 3600.0, 10.0
"""Default timeout: the larger of a fixed time per batch and a time per item, enough for large models on a CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScorerItem:
    """One text to score."""

    source: str
    """The text to translate, or the question."""
    candidate: str
    references: tuple[str, ...] = ()
    """Empty for an answer scorer."""


class CommandScorer:
    """A scorer that runs a command once per batch, without a shell.

    The command reads one JSON object per line from standard input, ``{"source": ..., "candidate": ..., "references":
    [...]}``, and prints one line per object, in order: a JSON number, or ``{"score": number}``. Blank lines are
    skipped. The command and its process group end with this process, also when this process is killed.

    Args:
        command: The command line, quoted as for a shell. UserError if it cannot be parsed.
        timeout: Seconds per batch. Then the command and its process group are killed. Default: one hour or ten seconds
            per item, whichever is longer.
    """

    def __init__(self, command: str, *, timeout: float | None = None) -> None:
        self.command = command
        self._timeout = timeout
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise self._error(f"{error}; expected a command line") from None
        if not self._arguments:
            raise self._error("expected a command line, found an empty string")

    def scores(self, items: Sequence[ScorerItem]) -> list[float]:
        """One finite number per item, in order; UserError if the command fails, is too slow or prints anything else."""
        return self._read(self._start(), items) if items else []

    async def ascores(self, items: Sequence[ScorerItem]) -> list[float]:
        """Like :meth:`scores`, without blocking the event loop. Cancellation kills the command."""
        if not items:
            return []
        child = self._start()
        try:
            return await asyncio.to_thread(self._read, child, items)
        except asyncio.CancelledError:
            child.kill()
            raise

    def _start(self) -> Child:
        try:
            return Child(self._arguments)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise self._error(f"cannot be started: {why}; expected an installed program") from None

    def _read(self, child: Child, items: Sequence[ScorerItem]) -> list[float]:
        # ASCII only, so that any text works with any encoding of the program, lone surrogates included.
        lines = b"".join(json.dumps(asdict(item)).encode() + b"\n" for item in items)
        timeout = max(_BATCH_SECONDS, _ITEM_SECONDS * len(items)) if self._timeout is None else self._timeout
        try:
            status, out, err = child.communicate(lines, timeout)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {timeout:g} s") from None
        if status:
            raise self._error(why_ended(status, err))
        answers = [line for line in out.decode(errors="replace").split("\n") if line.strip()]
        if len(answers) != len(items):
            raise self._error(f"printed {len(answers)} lines for {len(items)} items; expected one number per item")
        scores: list[float] = []
        for n, line in enumerate(answers, start=1):
            number: Any = None
            with suppress(ValueError, RecursionError):
                number = json.loads(line)
                number = number.get("score") if isinstance(number, dict) else number
            if type(number) not in (int, float) or abs(number) > sys.float_info.max or number != number:
                expected = 'expected a finite number or {"score": number}'
                raise self._error(f"line {n} of its output is {quoted_output(line)}; {expected}")
            scores.append(float(number))
        return scores

    def _error(self, what: str) -> UserError:
        return UserError(f"scorer {quoted_output(self.command)}: {what}")
