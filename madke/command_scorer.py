"""Scores from a program of another environment, such as COMET and BLEURT, which pin older versions of our packages."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from madke.core.errors import UserError
from madke.terminal import without_keys

_PATIENCE, _EACH = 3600.0, 10.0
"""Seconds that a batch may take at least, and for each of its items: large models score long texts on a CPU too."""

_QUOTED = 200  # Characters of the program's own words that an error quotes.


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One text to score."""

    source: str
    """What was to be translated, or answered."""
    candidate: str
    references: tuple[str, ...] = ()
    """Empty for an answer scorer, which judges without them."""


class CommandScorer:
    """A scorer behind a command.

    The command is started without a shell, once for each batch, and ends with this process, with whatever it started in
    its process group: also when this process is killed. It gets one JSON object a line on standard input,
    ``{"source": ..., "candidate": ..., "references": [...]}``, then the end of the input, and answers with one line
    for each, in order: a JSON number, or ``{"score": number}``. Blank lines are passed over.

    Args:
        command: The command line, quoted as for a shell; UserError if it is none.
        timeout: Seconds that one batch may take; then the command is killed, with whatever it started. By default an
            hour, and ten seconds an item where that is more.
    """

    def __init__(self, command: str, *, timeout: float | None = None) -> None:
        self.command = command
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise self._error(f"{error}; expected a command line") from None
        if not self._arguments:
            raise self._error("expected a command line, found nothing")
        self._timeout = timeout

    def scores(self, items: Sequence[Item]) -> list[float]:
        """One finite number an item, in order. No items start no command.

        Raises:
            UserError: The command is missing, failed, took too long, or did not answer with a number for each item.
        """
        return self._read(*self._start(), items) if items else []

    async def ascores(self, items: Sequence[Item]) -> list[float]:
        """Like :meth:`scores`, while the loop goes on. Cancelling it kills the command."""
        if not items:
            return []
        process, guard = self._start()
        try:
            return await asyncio.to_thread(self._read, process, guard, items)
        except asyncio.CancelledError:
            _kill(guard)
            raise

    def _start(self) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """The command, and the guard that leads its process group from the first moment, and ends it when we end."""
        pipe = subprocess.PIPE
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            process = subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe, stderr=pipe, process_group=guard.pid)
        except (OSError, ValueError) as error:
            _dismiss(guard)
            why = getattr(error, "strerror", None) or error
            raise self._error(f"cannot be started: {why}; expected a program that is there") from None
        return process, guard

    def _read(
        self, process: subprocess.Popen[bytes], guard: subprocess.Popen[bytes], items: Sequence[Item]
    ) -> list[float]:
        # ASCII only: any text at all can be sent, half characters too, whatever the program takes for its encoding.
        lines = b"".join(json.dumps(asdict(item)).encode() + b"\n" for item in items)
        timeout = max(_PATIENCE, _EACH * len(items)) if self._timeout is None else self._timeout
        with process:
            try:
                out, err = process.communicate(lines, timeout=timeout)
            except BaseException as error:
                _kill(guard)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise self._error(f"did not end within {timeout:g} s") from None
                raise
            finally:
                _dismiss(guard)
        if process.returncode:
            said = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
            why = f"; it said: {_quoted(said[-1])}" if said else ""
            raise self._error(f"ended with status {process.returncode}{why}")
        answers = [line for line in out.decode(errors="replace").split("\n") if line.strip()]
        if len(answers) != len(items):
            raise self._error(f"answered {len(items)} items with {len(answers)} lines; expected one number a line")
        return [self._number(line, n) for n, line in enumerate(answers, start=1)]

    def _number(self, line: str, n: int) -> float:
        with suppress(ValueError, RecursionError, OverflowError):
            found = json.loads(line)
            found = found.get("score") if isinstance(found, dict) else found
            if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
                return float(found)
        raise self._error(f'line {n} of its output is {_quoted(line)}; expected a finite number or {{"score": number}}')

    def _error(self, what: str) -> UserError:
        return UserError(f"scorer {_quoted(self.command)}: {what}")


_GUARD = "import os, signal, sys; sys.stdin.read(); os.killpg(0, signal.SIGKILL)"


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    guard.kill()
    guard.communicate()


def _kill(guard: subprocess.Popen[bytes]) -> None:
    """Kill the command, its children and its guard."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(guard.pid, signal.SIGKILL)


def _quoted(text: str) -> str:
    """Words of a program, short, without the keys that it may have repeated."""
    return repr(without_keys(text).strip()[:_QUOTED])
