"""Wall time of a run whose calls take 200 ms, against the least that so many calls at once can take."""

from __future__ import annotations

import tempfile
from pathlib import Path

from eval.benchmarks.generated_run import bare, generated_data, requests_of, run, server
from eval.benchmarks.measure import Setting, duration, report

QUESTIONS = 1_000
QUICK = 30
CONCURRENCY = 64
LATENCY = 0.2
SEQUENTIAL = 30
"""Calls of the sequential loop that are made; the others are taken to last as long."""
RATIO = 1.05


def main(setting: Setting) -> None:
    """Measure a run, slow start and tail included, and a few calls one after another."""
    latency, sequential = (0.02, 6) if setting.quick else (LATENCY, SEQUENTIAL)
    data = generated_data(setting, QUICK if setting.quick else QUESTIONS)
    with server(latency) as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        requests = requests_of(data)
        bare(requests[:1], url, concurrency=1)  # imports
        one_by_one = bare(requests[:sequential], url, concurrency=1)
        ours = run(data, url, Path(folder) / "run", concurrency=CONCURRENCY)
    least = ours.calls * latency / CONCURRENCY
    report(
        "latency",
        f"{duration(ours.seconds)} for {ours.calls:,} calls of {duration(latency)}, {CONCURRENCY} at once",
        f"{duration(least)} at least",
        ours.seconds / least,
        f"at most {RATIO}",
        ours.seconds <= RATIO * least,
    )
    alone = ours.calls / one_by_one.rate
    report(
        "latency, against a sequential loop",
        duration(ours.seconds),
        f"{duration(alone)} one call after another ({sequential} measured, the rest multiplied)",
        ours.seconds / alone,
    )
