"""``madke score`` and ``madke report`` of many debates, ``--plan`` of many questions: what the commands take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from eval.benchmarks.debates import write_run
from eval.benchmarks.measure import Setting, duration, report, size
from madke._util.files import atomic_write

DEBATES = 20_000
QUESTIONS = 100_000
SECONDS, MEMORY = 20.0, 300e6


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a command took."""

    seconds: float
    cpu: float
    """Seconds of all its threads."""
    memory: int
    """Bytes: the largest resident set, as ``/usr/bin/time`` reports it."""


def main(setting: Setting) -> None:
    """Score and report a run of 20,000 debates; plan one of 100,000 questions."""
    count = 200 if setting.quick else DEBATES
    folder = setting.folder / "scale-run"
    write_run(folder, count)
    nothing = _command("protocols")
    for verb in ("score", "report"):
        taken = _command(verb, str(folder))
        report(
            f"{verb} of {count:,} debates",
            f"{duration(taken.seconds)}, {duration(taken.cpu)} of CPU, {size(taken.memory)}",
            f"{duration(nothing.seconds)}, {size(nothing.memory)} for a command that reads no run",
            taken.seconds / nothing.seconds,
            f"at most {SECONDS:.0f} s and {size(MEMORY)}",
            taken.seconds <= SECONDS and taken.memory <= MEMORY,
        )
    questions = 200 if setting.quick else QUESTIONS
    file = setting.folder / "scale-questions.jsonl"
    with atomic_write(file) as lines:
        for n in range(questions):
            asked = {
                "id": str(n),
                "question": f"Which lake did survey {n} call the deepest?",
                "golden_answers": ["Baikal"],
            }
            lines.write(json.dumps(asked).encode() + b"\n")
    debate = ("--protocol", "mad", "--sources", "none", "--model", "openai/m@http://127.0.0.1:9/v1")
    plan = _command("run", str(file), *debate, "--plan", "--out", str(setting.folder / "scale-plan"))
    report(
        f"--plan of {questions:,} questions",
        f"{duration(plan.seconds)}, {duration(plan.cpu)} of CPU, {size(plan.memory)}",
        f"{duration(nothing.seconds)}, {size(nothing.memory)} for a command that reads no questions",
        plan.seconds / nothing.seconds,
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
