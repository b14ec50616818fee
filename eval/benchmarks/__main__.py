"""Run benchmarks: ``python -m eval.benchmarks [NAME ...] [--quick] [--write] [--corpus FILE]``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from eval.benchmarks.measure import Setting, in_own_process, results_of
from eval.benchmarks.table import write_results

NAMES = (
    "throughput",
    "latency",
    "listening",
    "memory",
    "prefix",
    "prefixes",
    "ray_run",
    "serve",
    "serve_latency",
    "dense_build",
    "dense_search",
    "first_result",
    "lucene_build",
    "bm25_search",
    "pools",
    "encoding",
    "documents",
    "report",
    "scale",
    "waiting",
    "peers",
)


def main() -> None:
    """Run the named benchmarks, or all, each in a process of its own: a JVM stays in the process that started it."""
    parser = argparse.ArgumentParser(prog="python -m eval.benchmarks", description=main.__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"{', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they work")
    parser.add_argument("--write", action="store_true", help="write the results into README.md's table")
    parser.add_argument(
        "--corpus", type=Path, help="passages for encoding, lucene_build and bm25_search, not generated"
    )
    parser.add_argument("--url", help="a server of a real model for prefixes, such as http://127.0.0.1:8905/v1")
    parser.add_argument("--model", default="m", help="the model's name at that server")
    parser.add_argument("--slots", type=int, default=4, help="calls that this server works on at once")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if asked.quick and asked.write:
        parser.error("--write is not for --quick, whose figures say nothing")
    with tempfile.TemporaryDirectory(prefix="madke-benchmarks-") as folder:
        setting = Setting(
            folder=Path(folder),
            quick=asked.quick,
            corpus=asked.corpus,
            url=asked.url,
            model=asked.model,
            slots=asked.slots,
        )
        for name in NAMES:
            if not asked.names or name in asked.names:
                results, _ = in_own_process(results_of, name, setting)
                if asked.write:
                    write_results(name, results)


if __name__ == "__main__":
    main()
