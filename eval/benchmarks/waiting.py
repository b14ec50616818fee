"""CPU seconds that people wait for: the first and a later ``madke ask``, ``madke --help``, a server's first reply.

CPU seconds of the whole process, as other work on the machine changes them least. The baseline is the same wait at
commit ebfd07b7, before its imports and indexes were cut, measured by hand on one core of the machine of the results,
with compiled modules. Without them (PYTHONDONTWRITEBYTECODE) a later ask took 22.7 s there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from eval.benchmarks.measure import Setting, duration, report

_QUESTION = "In which city was Verdi's opera Aida first performed?"
_REPEATS = 3
_BEFORE = {"first ask": 29.2, "later ask": 7.8, "help": 0.38, "serve until it answers": 4.1}
_AIMS = {"first ask": 8.0, "later ask": 2.5, "help": 0.25, "serve until it answers": 1.5}


def main(setting: Setting) -> None:
    """The first ``ask`` once; of the others the fewest seconds of several."""
    ask = ["ask", _QUESTION, "--model", "offline", "--json"]
    cache = setting.folder / "waiting"
    _report("first ask", 1, lambda: _command(ask, cache))
    repeats = 1 if setting.quick else _REPEATS
    _report("later ask", repeats, lambda: _command(ask, cache))
    _report("help", repeats, lambda: _command(["--help"], cache))
    _report("serve until it answers", repeats, lambda: _server(cache))


def _report(name: str, repeats: int, wait: Callable[[], float]) -> None:
    seconds, before, aim = min(wait() for _ in range(repeats)), _BEFORE[name], _AIMS[name]
    shown = f"{duration(seconds)} of CPU"
    report(name, shown, f"{duration(before)} before", before / seconds, f"at most {duration(aim)}", seconds <= aim)


def _command(words: list[str], cache: Path) -> float:
    with _started(words, cache, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        return _seconds(process)


def _server(cache: Path) -> float:
    words = ["serve", "--port", "0", "--model", "offline", "--out", str(cache / "served")]
    with _started(words, cache, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(line for line in process.stderr if "http://" in line).split()[-1]
        with urllib.request.urlopen(f"{address.removesuffix('/v1')}/health", timeout=30) as reply:
            assert reply.status == 200
        process.terminate()
        return _seconds(process, stopped=True)


def _started(words: list[str], cache: Path, **pipes: object) -> subprocess.Popen[str]:
    environment = os.environ | {"MADKE_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, "-m", "madke", *words], env=environment, **pipes)  # type: ignore[call-overload, no-any-return]


def _seconds(process: subprocess.Popen[str], *, stopped: bool = False) -> float:
    """CPU seconds of a process, after its end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert stopped or process.returncode == 0
    return used.ru_utime + used.ru_stime
