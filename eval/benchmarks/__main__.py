"""Run benchmarks: ``python -m eval.benchmarks [NAME ...] [--quick] [--write]``."""

from __future__ import annotations

import argparse
import os
import platform
import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from eval.benchmarks.measure import BENCHMARKS, Result, Setting, in_own_process, results_of
from madke.retrieval.indexes.dense import total_memory

README = Path(__file__).with_name("README.md")

_TABLE = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end of results -->)", re.DOTALL)
_HEAD = "| benchmark | figure | ours | baseline | ratio | aim | | measured |\n|---|---|---|---|---|---|---|---|\n"


def main() -> None:
    """Run the named benchmarks, or all, each in a process of its own: a JVM stays in the process that started it."""
    parser = argparse.ArgumentParser(prog="python -m eval.benchmarks", description=main.__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"{', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they work")
    parser.add_argument("--write", action="store_true", help="write the results into README.md's table")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if options.quick and options.write:
        parser.error("--write is not for --quick, whose figures say nothing")
    with tempfile.TemporaryDirectory(prefix="madke-benchmarks-") as folder:
        setting = Setting(folder=Path(folder), quick=options.quick)
        for name in options.names or BENCHMARKS:
            results, _ = in_own_process(results_of, name, setting)
            if options.write:
                write_results(name, results)


def write_results(benchmark: str, results: Sequence[Result], readme: Path = README) -> None:
    """Put a benchmark's results in the place of its earlier ones; the other rows stay."""
    text = readme.read_text(encoding="utf-8")
    table = _TABLE.search(text)
    assert table is not None, f"{readme} has no place for results"
    rows = table[0].splitlines()[2:]
    own = [number for number, row in enumerate(rows) if row.startswith(f"| `{benchmark}` |")]
    place = own[0] if own else len(rows)
    rows = [row for number, row in enumerate(rows) if number not in own]
    rows[place:place] = [_row(benchmark, result) for result in results]
    written = "".join(f"{row}\n" for row in rows)
    readme.write_text(f"{text[: table.start()]}{_HEAD}{written}{text[table.end() :]}", encoding="utf-8")


def _row(benchmark: str, result: Result) -> str:
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    verdict = "" if result.met is None else "met" if result.met else "missed"
    machine = f"{os.cpu_count()} cores, {total_memory() / 2**30:.0f} GB, {platform.machine()}"
    measured = f"{datetime.now(UTC):%Y-%m-%d}, {machine}"
    cells = (f"`{benchmark}`", result.name, result.ours, result.baseline, ratio, result.aim, verdict, measured)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
