"""The table of metrics in evaluation.md, from the metrics themselves."""

from __future__ import annotations

from pathlib import Path

from madke.scoring.metrics import BUILT_IN_METRICS

_PAGE = Path(__file__).parent / "evaluation.md"
_BEGIN, _END = "<!-- metrics:", "<!-- end of metrics -->"
_GRADER = "| `grader` | a model says `[True]` or `[False]` | Wang et al., 2023, Appendix C |"


def page() -> str:
    """The page with its table; the rest of it is written by hand."""
    before, rest = _PAGE.read_text(encoding="utf-8").split(_BEGIN)
    comment, _, rest = rest.partition("\n")
    after = rest.split(_END)[1]
    rows = [f"| `{name}` | {metric.definition} | {metric.source} |" for name, metric in BUILT_IN_METRICS.items()]
    table = "\n".join(("| metric | meaning | source |", "|---|---|---|", *rows, _GRADER))
    return f"{before}{_BEGIN}{comment}\n\n{table}\n\n{_END}{after}"
