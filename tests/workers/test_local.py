"""Work in several processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from madke._util.workers import open_workers
from madke.core.errors import UserError
from tests.support.rendezvous import meet, prepare
from tests.workers.work import MEETING, die, die_sending, refuse, square, stumble


@pytest.mark.parametrize("processes", [None, 1])
def test_results_come_in_the_order_of_the_tasks(processes: int | None) -> None:
    with open_workers("local", processes=processes) as workers:
        assert list(workers.map(square, range(20))) == [n * n for n in range(20)]
        assert list(workers.map(square, [])) == []


def test_what_a_task_raises_passes_through_and_the_workers_live_on_until_the_end_of_the_block() -> None:
    with open_workers("local", processes=2) as workers:
        with pytest.raises(UserError) as refused:
            list(workers.map(refuse, [1]))
        assert str(refused.value) == "numbers.txt:7: cannot take 1"
        with pytest.raises(ZeroDivisionError) as raised:
            list(workers.map(stumble, [1, 0, 1]))
        assert "in stumble" in raised.value.__notes__[0]
        assert list(workers.map(square, [3])) == [9]
        children = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
        assert len(children) == 2
    assert not any(child.is_running() for child in children)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("task", [die, die_sending])
def test_a_worker_that_is_killed_ends_the_work_in_one_line(task: Callable[[int], object]) -> None:
    with open_workers("local", processes=2) as workers, pytest.raises(UserError, match="ended abruptly"):
        list(workers.map(task, range(9)))


@contextmanager
def at_work(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A program with two workers, each in the middle of a task that will not end."""
    prepare(folder, "a", "b")
    script = folder / "program.py"
    script.write_text(MEETING)
    with subprocess.Popen(
        [sys.executable, str(script), "local", str(folder), "a", "b"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as program:
        try:
            yield program, [psutil.Process(int(meet(folder, name))) for name in "ab"]
        finally:
            program.kill()


@pytest.mark.timeout(60)
def test_ctrl_c_does_not_wait_for_what_is_under_way(tmp_path: Path) -> None:
    with at_work(tmp_path) as (program, workers):
        program.send_signal(signal.SIGINT)
        _, stderr = program.communicate(timeout=20)

        assert program.returncode != 0
        assert stderr.strip().endswith("KeyboardInterrupt")
        assert stderr.count("Traceback") == 1
        assert not any(worker.is_running() for worker in workers)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with at_work(tmp_path) as (program, workers):
        program.kill()

        _, alive = psutil.wait_procs(workers, timeout=20)

        assert alive == []
