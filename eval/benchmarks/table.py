"""The table of results in README.md, written by the benchmarks themselves."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from eval.benchmarks.measure import Result
from madke.indexing.dense import total_memory

README = Path(__file__).with_name("README.md")

_TABLE = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end of results -->)", re.DOTALL)
_HEAD = "| benchmark | figure | ours | baseline | ratio | aim | | measured |\n|---|---|---|---|---|---|---|---|\n"


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
    measured = (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {total_memory() / 2**30:.0f} GB, {platform.machine()}"
    )
    cells = (f"`{benchmark}`", result.name, result.ours, result.baseline, ratio, result.aim, result.verdict, measured)
    return f"| {' | '.join(cells)} |"
