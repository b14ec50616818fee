"""``madke run --engine ray`` as a user runs it, on a real cluster: interrupted, killed, resumed by either engine."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from madke.runs.directory import read_transcripts
from tests.support.cli import madke, refused, started
from tests.support.dataset import debating, run_command, write_dataset
from tests.support.installed import needs
from tests.support.openai_server import OpenAIServer, openai_server, without_streaming
from tests.support.ray_nodes import running_cluster, workers

needs("ray", "ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The cluster that ``--engine ray`` uses."""
    monkeypatch.setenv("RAY_ADDRESS", running.address)
    return running


def command(folder: Path, server: OpenAIServer, *more: object, out: str = "out") -> tuple[object, ...]:
    return run_command(folder, server.url, *more, n=8, out=out)


def transcripts(folder: Path) -> dict[str, Any]:
    """By id, without what no two runs have in common; each question once."""
    lines = [json.loads(line) for line in (folder / "transcripts.jsonl").read_text().splitlines()]
    for line in lines:
        del line["checksum"]
        for usage in line["usage"].values():
            del usage["seconds"], usage["retries"]
    assert len({line["id"] for line in lines}) == len(lines)
    return {line["id"]: line for line in lines}


def asked(server: OpenAIServer) -> Counter[str]:
    return Counter(without_streaming(seen.body) for seen in server.requests)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.02)


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, Any]:
    """What the local engine makes of it."""
    with openai_server(debating) as server:
        done = madke(*command(tmp_path, server, out="local"))
    assert done.returncode == 0, done.stderr
    return transcripts(tmp_path / "local")


class Gate:
    """A server's replies up to ``open``; those after it wait until :meth:`release`."""

    def __init__(self, answered: int) -> None:
        self._answered = answered
        self._released = threading.Event()

    def __call__(self, body: dict[str, Any], n: int) -> Any:
        if n > self._answered:
            self._released.wait()
        return debating(body)

    def release(self) -> None:
        self._released.set()


def test_a_stopped_run_waits_for_its_calls_and_leaves_no_process(tmp_path: Path, expected: dict[str, Any]) -> None:
    gate = Gate(20)
    with openai_server(gate) as server:
        # A cluster of the run's own.
        with started(*command(tmp_path, server, "--engine", "ray")) as run:
            until(lambda: len(server.requests) > 20)
            processes = psutil.Process(run.pid).children(recursive=True)
            assert any("raylet" in process.name() for process in processes)
            run.send_signal(signal.SIGINT)
            gate.release()
            _, stderr = run.communicate()
        assert run.returncode == 130, stderr
        assert "the same command resumes" in stderr
        assert psutil.wait_procs(processes, timeout=60)[1] == []

        done = madke(*command(tmp_path, server))
        assert done.returncode == 0, done.stderr
        assert transcripts(tmp_path / "out") == expected
        assert max(asked(server).values()) == 1, "every call that was made is used"


def test_a_killed_run_leaves_no_worker_and_is_resumed(cluster: Any, tmp_path: Path, expected: dict[str, Any]) -> None:
    gate = Gate(30)
    with openai_server(gate) as server:
        args = command(tmp_path, server, "--engine", "ray")
        with started(*args) as run:
            until(lambda: len(server.requests) > 30)
            left = workers()
            assert len(left) == 1
            run.kill()
        assert psutil.wait_procs(left, timeout=60)[1] == []
        in_flight = len(server.requests) - 30
        gate.release()

        done = madke(*args)
        assert done.returncode == 0, done.stderr
        assert transcripts(tmp_path / "out") == expected
        # Replies may have been on their way when the run was killed.
        assert asked(server).total() <= len(asked(server)) + in_flight + 16

        requests = len(server.requests)
        replayed = madke(*args, "--replay")
        assert (replayed.returncode, len(server.requests)) == (0, requests), replayed.stderr
        assert len(list(read_transcripts(tmp_path / "out"))) == 8


def test_bad_input_is_one_line(cluster: Any, tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 1)
    run = ("run", questions, "--pools", pools, "--out", tmp_path / "out", "--model", "openai/m")
    on_cluster = ("--engine", "ray")

    assert "OPENAI_API_KEY is not set" in refused(*run, *on_cluster)
    assert "unknown model" in refused(*run[:-1], "openia/m", *on_cluster)
    assert "no answer" in refused(*run, "--engine", "ray", RAY_ADDRESS="127.0.0.1:1", OPENAI_API_KEY="here")
    assert not (tmp_path / "out").exists()
