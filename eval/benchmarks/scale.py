"""``madke score`` and ``madke report`` of many debates: time and memory of the commands, and the size of the page."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from eval.benchmarks.debates import write_run
from eval.benchmarks.measure import Setting, duration, report, size

DEBATES, ON_PAGE = 20_000, 5_000
SECONDS, MEMORY, BYTES = 20.0, 300e6, 6_000


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a command took."""

    seconds: float
    cpu: float
    """Seconds of all its threads."""
    memory: int
    """Bytes: the largest resident set, as ``/usr/bin/time`` reports it."""


def main(setting: Setting) -> None:
    """Score and report a run of 20,000 debates; write a page of 5,000."""
    many, fewer = (200, 100) if setting.quick else (DEBATES, ON_PAGE)
    large, small = setting.folder / "scale-large", setting.folder / "scale-small"
    write_run(large, many)
    write_run(small, fewer)
    nothing = _command("protocols")
    for verb in ("score", "report"):
        taken = _command(verb, str(large))
        report(
            f"{verb} of {many:,} debates",
            f"{duration(taken.seconds)}, {duration(taken.cpu)} of CPU, {size(taken.memory)}",
            f"{duration(nothing.seconds)}, {size(nothing.memory)} for a command that reads no run",
            taken.seconds / nothing.seconds,
            f"at most {SECONDS:.0f} s and {size(MEMORY)}",
            taken.seconds <= SECONDS and taken.memory <= MEMORY,
        )
    _command("report", str(small))
    written = sum(path.stat().st_size for path in small.glob("*.jsonl")) / fewer
    each = (small / "report.html").stat().st_size / fewer
    report(
        f"page of {fewer:,} debates",
        f"{each:,.0f} bytes a debate",
        f"{written:,.0f} in transcripts and pools",
        each / written,
        f"at most {BYTES:,}",
        each <= BYTES,
    )


def _command(*arguments: str) -> Taken:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "madke", *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"madke {arguments[0]} ended with {process.returncode}")
    seconds = time.perf_counter() - began
    return Taken(seconds=seconds, cpu=used.ru_utime + used.ru_stime, memory=used.ru_maxrss * 1024)
