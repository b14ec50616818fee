"""The table of metrics in evaluation.md, from the metrics themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from madke.scoring.metrics import BUILT_IN_METRICS

_GRADER = "| `grader` | a model says `[True]` or `[False]` | Wang et al., 2023, Appendix C |"


def page() -> str:
    """The page with its table; the rest of it is written by hand."""
    rows = [f"| `{name}` | {metric.explanation} | {metric.source} |" for name, metric in BUILT_IN_METRICS.items()]
    return with_table("evaluation.md", "metrics", ["| metric | meaning | source |", "|---|---|---|", *rows, _GRADER])


def with_table(page: str, name: str, lines: Iterable[str]) -> str:
    """The text of a page whose table between the comments ``name`` and ``end of name`` has these lines."""
    begin, end = f"<!-- {name}:", f"<!-- end of {name} -->"
    before, rest = (Path(__file__).parent / page).read_text(encoding="utf-8").split(begin)
    comment, _, rest = rest.partition("\n")
    table = "\n".join(lines)
    return f"{before}{begin}{comment}\n\n{table}\n\n{end}{rest.split(end)[1]}"
