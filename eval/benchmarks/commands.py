"""Commands that people wait for: the first answer, a later one, help, and a server's first reply.

CPU seconds of the whole process, because other work on the machine changes them least.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from eval.benchmarks.measure import Result, Setting, duration

_QUESTION = "In which city was Verdi's opera Aida first performed?"
_REPEATS = 3
_AIMS = {"first ask": 8.0, "later ask": 2.5, "help": 0.25, "serve until it answers": 1.5}


def first_answer(setting: Setting) -> Iterator[Result]:
    """The first ``ask`` with an empty cache, once; of the others the fewest seconds of several."""
    cache = setting.folder / "commands"
    ask = ["-m", "madke", "ask", _QUESTION, "--model", "offline", "--json"]
    waits: Mapping[str, Callable[[], float]] = {
        "first ask": lambda: _command(ask, cache),
        "later ask": lambda: _command(ask, cache),
        "help": lambda: _command(["-m", "madke", "--help"], cache),
        "serve until it answers": lambda: _server(cache),
    }
    for name, wait in waits.items():
        repeats = 1 if setting.quick or name == "first ask" else _REPEATS
        seconds, aim = min(wait() for _ in range(repeats)), _AIMS[name]
        yield Result(name, f"{duration(seconds)} of CPU", "", None, f"at most {duration(aim)}", seconds <= aim)


def _command(words: list[str], cache: Path) -> float:
    with _started(words, cache, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        return _ended(process)


def _server(cache: Path) -> float:
    words = ["-m", "madke", "serve", "--port", "0", "--model", "offline", "--out", str(cache / "served")]
    with _started(words, cache, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(line for line in process.stderr if "http://" in line).split()[-1]
        with urllib.request.urlopen(f"{address.removesuffix('/v1')}/health", timeout=30) as reply:
            assert reply.status == 200
        process.terminate()
        return _ended(process, stopped=True)


def _started(words: list[str], cache: Path, **pipes: object) -> subprocess.Popen[str]:
    environment = os.environ | {"MADKE_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, *words], env=environment, **pipes)  # type: ignore[call-overload, no-any-return]


def _ended(process: subprocess.Popen[str], *, stopped: bool = False) -> float:
    """CPU seconds of a process and its children, after its end; unless it was ``stopped``, its status must be 0."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert stopped or process.returncode == 0
    return used.ru_utime + used.ru_stime
