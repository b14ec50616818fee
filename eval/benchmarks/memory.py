"""A long run from the command line: memory, open files, the call store's size; then its resume, and a replay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.generated_run import CALLS_EACH, MODEL, Data, generated_data, run, server
from eval.benchmarks.measure import Setting, anonymous_memory, duration, report, size

QUESTIONS = 20_000
WARM = 1_000
"""Questions after which memory is looked at first, and questions of the replay."""
CONCURRENCY = 64
GROWTH = 30e6
RESUME = 3.0
REPLAY = 3_000.0
STORED = 3_000
_POLL = 0.2


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a process was seen to hold."""

    questions: int
    """Transcripts written."""
    memory: int
    """Bytes, RssAnon."""
    files: int
    """Open files and sockets."""


def main(setting: Setting) -> None:
    """Run, watch, resume, replay."""
    count, warm = (300, 50) if setting.quick else (QUESTIONS, WARM)
    data = generated_data(setting, count)
    with server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        out = Path(folder) / "run"
        looks, seconds = _watched(data, url, out)
        store = sum(file.stat().st_size for file in out.glob("calls.sqlite*"))
        _, resumed = _watched(data, url, out)
        fewer = generated_data(setting, warm)
        run(fewer, url, Path(folder) / "replayed", concurrency=CONCURRENCY)
        replayed = run(fewer, url, Path(folder) / "replayed", concurrency=CONCURRENCY, replay=True)
    # The last looks see scores and report being made, after the last question.
    during = [look for look in looks if warm <= look.questions < count]
    first, most = during[0], max(during, key=lambda look: look.memory)
    report(
        "memory",
        f"{size(most.memory)} at most up to question {count:,}",
        f"{size(first.memory)} at question {first.questions:,}",
        most.memory / first.memory,
        f"below {size(GROWTH)} of growth",
        most.memory - first.memory < GROWTH,
    )
    calls = count * CALLS_EACH
    print(f"  the run: {duration(seconds)} for {calls:,} calls")
    stored = f"at most {STORED:,} bytes a call"
    report("call store", f"{store / calls:,.0f} bytes a call", aim=stored, met=store / calls <= STORED)
    print(f"  with its scores and report: {size(max(look.memory for look in looks))} at most")
    files = [look.files for look in during]
    print(f"  open files and sockets: {files[0]} at question {first.questions:,}, {max(files)} at most")
    report(
        f"resume of {count:,} finished questions",
        duration(resumed),
        f"{duration(seconds)} for the run",
        resumed / seconds,
        f"below {RESUME:.0f} s",
        resumed < RESUME,
    )
    report(
        f"replay of {fewer.count:,} questions",
        f"{replayed.rate:,.0f} calls/s",
        aim=f"at least {REPLAY:,.0f}",
        met=replayed.rate >= REPLAY,
    )


def _watched(data: Data, url: str, out: Path) -> tuple[list[Look], float]:
    """What ``madke run`` was seen to hold, some times a second, and how long it took from start to end."""
    named = {"--protocol": "madke", "--model": MODEL, "--base-url": url, "--pools": data.pools, "--out": out}
    options = [str(part) for pair in (*named.items(), ("--concurrency", CONCURRENCY)) for part in pair]
    looks: list[Look] = []
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "madke", "run", str(data.questions), *options], stdout=said, stderr=said
        )
        written = offset = 0
        while process.poll() is None:
            if (transcripts := out / "transcripts.jsonl").exists():
                with transcripts.open("rb") as file:
                    file.seek(offset)
                    while block := file.read(1 << 20):
                        written += block.count(b"\n")
                        offset += len(block)
            memory, files = anonymous_memory(process.pid), _open_files(process.pid)
            looks.append(Look(questions=written, memory=memory, files=files))
            time.sleep(_POLL if data.count > WARM else _POLL / 20)
        seconds = time.perf_counter() - began
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"madke run failed: {said.read().decode(errors='replace')[-2000:]}")
    return looks, seconds


def _open_files(process: int) -> int:
    try:
        return len(os.listdir(f"/proc/{process}/fd"))
    except FileNotFoundError:
        return 0
