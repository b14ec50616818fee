"""Calls a second, and our own CPU a call, of a whole run against a bare loop over the same calls."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from eval.benchmarks.generated_run import Taken, bare, generated_data, requests_of, run, server, transport
from eval.benchmarks.measure import Setting, duration, report

QUESTIONS = 1000
QUICK = 30
ROUNDS = 6
CONCURRENCY = 64
RATIO = 0.6
OWN_CPU = 0.3e-3
TRANSPORTS: tuple[Literal["aiohttp", "httpx"], ...] = ("aiohttp", "httpx")
"""The faster one first; the aims are set for it."""


def main(setting: Setting) -> None:
    """Measure both on each transport, in turn, and print the ratios."""
    data = generated_data(setting, QUICK if setting.quick else QUESTIONS)
    requests = requests_of(data)
    for name in TRANSPORTS:
        ours: list[Taken] = []
        alone: list[Taken] = []
        with transport(name), server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
            bare(requests[: len(requests) // 5], url, concurrency=CONCURRENCY)  # imports
            for number in range(1 if setting.quick else ROUNDS):
                ours.append(run(data, url, Path(folder) / str(number), concurrency=CONCURRENCY))
                alone.append(bare(requests, url, concurrency=CONCURRENCY))
        rate, bare_rate = max(taken.rate for taken in ours), max(taken.rate for taken in alone)
        own = min(taken.cpu_each for taken in ours) - min(taken.cpu_each for taken in alone)
        first = name == TRANSPORTS[0]
        report(
            f"throughput over {name}",
            f"{rate:,.0f} calls/s in a run",
            f"{bare_rate:,.0f} bare ({len(requests):,} calls, {CONCURRENCY} at once)",
            rate / bare_rate,
            f"at least {RATIO}{'' if first else ' on the faster transport'}",
            rate / bare_rate >= RATIO,
        )
        client = min(taken.cpu_each for taken in alone)
        report(
            f"our own CPU over {name}",
            f"{1000 * own:.2f} ms a call",
            f"{1000 * client:.2f} ms of the client's",
            own / client,
            f"at most {duration(OWN_CPU)}" if first else "",
            own <= OWN_CPU if first else None,
        )
