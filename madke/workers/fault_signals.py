"""Who is told of memory faults in this process.

The Java virtual machine lets itself be interrupted by faults on purpose, many times a second. Ray takes their signals
when it connects, and lets go of them when it disconnects; either would end a process in which Lucene is open.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_ENOUGH = 512
"""Bytes; more than a ``struct sigaction`` takes anywhere. Python's ``signal`` knows no handlers but its own."""


@contextmanager
def fault_signals_kept() -> Iterator[None]:
    """Whoever handled memory faults before the block handles them after it."""
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(_ENOUGH) for number in _FAULTS}
    for number, action in kept.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            libc.sigaction(int(number), action, None)
