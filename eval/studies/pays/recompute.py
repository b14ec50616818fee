"""Compute every test of the study anew with SciPy, from who was right where; none of madke's statistics is used.

python -m eval.studies.pays.recompute [FOLDER]
"""

import sys
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path

from scipy.stats import binomtest, norm

from eval.studies.kept import read_study
from eval.studies.pays.results import PRIMARY, SECONDARY, Figures

Row = tuple[str, int, float, float, float, float, float]


def recomputed(found: Figures, pairs: Sequence[tuple[str, str]]) -> Iterator[Row]:
    """For each pair: its name, n, difference, ends of the 90 % interval, McNemar's exact p, and p after Holm."""
    rows = []
    for left, right in (pair for pair in pairs if found.arms.keys() >= {*pair}):
        one, two = (found.arms[name].values.values["match"] for name in (left, right))
        both = [(next(iter(one[key].values())), next(iter(two[key].values()))) for key in one if key in two]
        n, lost, won = len(both), sum(a > b for a, b in both), sum(a < b for a, b in both)
        a, b = (won + 1) / (n + 2), (lost + 1) / (n + 2)
        half = norm.ppf(0.95) * sqrt((a + b - (a - b) ** 2) / (n + 2))
        p = binomtest(won, won + lost).pvalue if won + lost else 1.0
        rows.append((f"{right} minus {left}", n, (won - lost) / n, a - b - half, a - b + half, p))
    ordered = sorted(row[-1] for row in rows)
    for row in rows:
        smaller = ordered[: ordered.index(row[-1]) + 1]
        yield *row, min(1.0, max(p * (len(pairs) - rank) for rank, p in enumerate(smaller)))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "calls"
    for whole in map(Figures.of, map(read_study, sorted(folder.glob("*.jsonl.xz")))):
        for line in () if whole.interim else (*recomputed(whole, PRIMARY), *recomputed(whole, SECONDARY)):
            print(whole.study.model, *line)
