"""What the tests let workers do; importable by them."""

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from tests.support.rendezvous import arrive

MEETING = """
import signal, sys
from pathlib import Path
from madke._util.workers import open_workers
from tests.workers.work import meet_test

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine, folder, *names = sys.argv[1:]
    with open_workers(engine, processes=len(names)) as workers:
        list(workers.map(meet_test, [(Path(folder), name) for name in names]))
"""
"""A program with a worker for each name, in the middle of a task that will not end."""


def square(n: int) -> int:
    return n * n


def refuse(n: int) -> int:
    raise UserError(f"cannot take {n}", file=Path("numbers.txt"), line=7)


def stumble(n: int) -> int:
    return 1 // n


def die(n: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return n


def die_sending(n: int) -> list[int]:
    """Die in the middle of sending the result."""

    def send(self: Connection, message: Any, write: object = None) -> None:
        os.write(self.fileno(), bytes(message)[: len(message) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = send  # type: ignore[attr-defined]
    return [*range(100_000)]


def meet_test(task: tuple[Path, str]) -> str:
    """Say the process's id, and wait."""
    arrive(*task, str(os.getpid()))
    return task[1]


def node() -> str:
    import ray

    found: str = ray.get_runtime_context().get_node_id()
    return found
