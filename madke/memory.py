"""Memory of this machine or container."""

from __future__ import annotations

import os
from pathlib import Path


def total() -> int:
    """Memory limit of this process, in bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return machine


def available() -> int:
    """Bytes available without swapping; half of :func:`total` if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return total() // 2
    return min(free, total())
