"""How much memory this machine, or the container that this process is in, has."""

from __future__ import annotations

import os
from pathlib import Path


def total() -> int:
    """Bytes of memory that this process may use at most."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return machine


def available() -> int:
    """Bytes that files may take up without anything being swapped out; half of :func:`total` where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return total() // 2
    return min(free, total())
