"""Anonymous memory of a dense build: it must not grow with the corpus."""

from __future__ import annotations

from eval.benchmarks.indexes import built_dense
from eval.benchmarks.measure import Setting, curve, disk, duration, report, size

SIZES = (50_000, 100_000, 200_000, 400_000)
QUICK = (1_000, 2_000)
_MOST_APART = 150_000_000


def main(setting: Setting) -> None:
    """Build indexes of several sizes, each in a process of its own, and compare the smallest with the largest."""
    sizes = QUICK if setting.quick else SIZES
    built = {count: built_dense(setting.folder, count) for count in sizes}
    smallest, largest = built[sizes[0]].peak, built[sizes[-1]].peak
    report(
        "dense build, anonymous memory",
        f"{size(largest)} for {sizes[-1]:,} vectors",
        f"{size(smallest)} for {sizes[0]:,}",
        largest / smallest,
        f"within {size(_MOST_APART)} of each other",
        abs(largest - smallest) <= _MOST_APART,
    )
    curve(setting, "seconds without encoding", [(count, index.seconds) for count, index in built.items()], duration)
    curve(
        setting, "anonymous memory", [(count, index.peak) for count, index in built.items()], size, extrapolated=False
    )
    curve(setting, "disk", [(count, disk(index.folder)) for count, index in built.items()], size)
