"""``madke run`` in a real process that is killed, again and again, or finds no room: what is there in the end."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from madke._util.files import atomic_write, unexpected_files
from madke.core.errors import UserError
from madke.core.transcript import StageUsage, Transcript
from madke.models.store import CallStore
from madke.runs.directory import RunDirectory, read_transcripts
from tests.support.cli import madke, refused, started
from tests.support.dataset import debating, run_command
from tests.support.openai_server import OpenAIServer, Reply, openai_server, without_streaming
from tests.support.small_disk import fill_up

QUESTIONS = 24
CONCURRENCY = 4
KILLS = 20
PATIENCE = 200
"""Seconds until something that does not happen fails a test; machines that run tests may be slow."""


def run(folder: Path, server: OpenAIServer, out: Path, n: int = QUESTIONS) -> Any:
    return run_command(folder, server.url, "--concurrency", CONCURRENCY, n=n, out=out)


def outcomes(out: Path) -> dict[str, Transcript]:
    """Id -> transcript without wall time; each question at most once."""
    transcripts = list(read_transcripts(out))
    by_id = {transcript.id: transcript for transcript in transcripts}
    assert len(by_id) == len(transcripts)
    return {name: replace(each, usage=timeless(each.usage)) for name, each in by_id.items()}


def timeless(usage: Mapping[str, StageUsage]) -> dict[str, StageUsage]:
    return {stage: replace(used, seconds=0.0) for stage, used in usage.items()}


def stored(out: Path) -> int:
    """How many calls the store holds, which must be in order."""
    path = out / "calls.sqlite"
    with CallStore(path) as store:
        keys = [(call.purpose, call.messages) for call in store.calls()]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(set(keys)) == len(keys)
    return len(keys)


def until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something is true, or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while not reached() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.003)


def killed(process: subprocess.Popen[str]) -> bool:
    """Kill it; whether it still ran. Returns when its streams are closed, so when it is gone."""
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def moment(kind: str, random: Random, server: OpenAIServer, out: Path) -> Callable[[], bool]:
    """Whether it is time to kill an attempt that starts now."""
    if kind == "start":
        start = time.monotonic() + random.uniform(0.02, 0.5)
        return lambda: time.monotonic() > start
    if kind == "middle":
        count = len(server.requests) + random.randrange(1, 20)
        return lambda: len(server.requests) >= count
    if kind == "last write":
        file = out / "transcripts.jsonl"
        return lambda: file.exists() and file.read_bytes().count(b"\n") >= QUESTIONS
    return (out / "metrics.json").exists


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_twenty_times_ends_as_one_that_was_not(tmp_path: Path) -> None:
    random, out, calm = Random(6), tmp_path / "out", tmp_path / "calm"
    kinds = random.sample(["start"] * 5 + ["middle"] * 11, 16)
    with openai_server(debating) as server:
        # Another hash seed must not make another run.
        assert madke(*run(tmp_path, server, calm), PYTHONHASHSEED="1").returncode == 0
        calls = len(server.requests)
        server.requests.clear()

        kills = 0
        for kind in (*kinds, "last write", "start", "scores", "start"):
            with started(*run(tmp_path, server, out)) as process:
                until(moment(kind, random, server, out), process)
                kills += killed(process)
            if (out / "transcripts.jsonl").exists():
                assert set(outcomes(out)) <= {f"q{n}" for n in range(QUESTIONS)}
        assert kills >= KILLS - 2  # the last ones may find nothing to do
        sent_to_killed = len(server.requests)

        done = madke(*run(tmp_path, server, out))
        assert done.returncode == 0, done.stderr
        total = len(server.requests)
        assert madke(*run(tmp_path, server, out)).returncode == 0
        assert len(server.requests) == total

    assert outcomes(out) == outcomes(calm)
    assert stored(out) == calls == len({seen.body["seed"] for seen in server.requests})
    assert calls <= total <= calls + kills * CONCURRENCY
    assert sent_to_killed > calls // 2


def ignoring_schemas(body: Any, n: int = 0) -> Reply:
    """Debaters at a server that answers as if there was no schema; their words depend on the prompt."""
    free = {name: value for name, value in body.items() if name != "response_format"}
    reply = debating(free, n)
    message = reply[2]["choices"][0]["message"]
    message["content"] += f" This answers {len(body['messages'][-1]['content'])} characters."
    return reply


@pytest.mark.slow
def test_a_killed_run_asks_as_one_that_was_not_because_it_knows_its_endpoint(tmp_path: Path) -> None:
    """What the endpoint takes is in the run's directory, so it is not tried again. Who streams may differ."""
    most, go_on = 10_000, threading.Event()

    def halting(body: Any, n: int) -> Reply:
        if n > most:
            go_on.wait(PATIENCE)
        return ignoring_schemas(body, n)

    with openai_server(halting) as server:
        assert madke(*run(tmp_path, server, tmp_path / "calm", n=6)).returncode == 0
        calm = {without_streaming(seen.body) for seen in server.requests}
        calls = len(server.requests)
        server.requests.clear()
        most = 12
        with started(*run(tmp_path, server, tmp_path / "out", n=6)) as process:
            until(lambda: len(server.requests) > most, process)
            assert killed(process)
        most = 10_000
        go_on.set()
        assert madke(*run(tmp_path, server, tmp_path / "out", n=6)).returncode == 0
    assert {without_streaming(seen.body) for seen in server.requests} <= calm
    assert calls <= len(server.requests) <= calls + CONCURRENCY
    assert outcomes(tmp_path / "out") == outcomes(tmp_path / "calm")


def test_a_start_in_a_folder_where_another_process_starts_names_that_process(tmp_path: Path) -> None:
    """The other process is about to write ``run.json``, and has a part of it on the disk."""
    with RunDirectory(tmp_path / "out") as first, atomic_write(first.path / "run.json"):
        assert any(path.suffix == ".part" for path in first.path.iterdir())
        with (
            pytest.raises(UserError, match=r"out: another process is writing this run"),
            RunDirectory(first.path),
        ):
            pass
        assert unexpected_files(first.path, {"lock"}, {"run.json"}) == []
        assert unexpected_files(first.path, {"lock"}, {"pools.jsonl"}) != []


def told_at_the_end(stopped: Any) -> str:
    """The one line, besides progress, of a run that stopped for a reason outside it."""
    assert (stopped.returncode, stopped.stdout) == (2, "")
    lines = stopped.stderr.splitlines()
    (line,) = [line for line in lines if not line.startswith("questions: ") and " gold" not in line]
    return str(line)


def in_mid_run(act: Any) -> Any:
    """A server that acts once, while the second debate goes on."""

    def reply(body: Any, n: Any) -> Any:
        if n == 10:
            act()
        return debating(body, n)

    return openai_server(reply)


def test_a_second_process_is_refused_and_the_first_is_unhurt(tmp_path: Path) -> None:
    said = []

    def second() -> None:
        said.append(refused(*run(tmp_path, server, tmp_path / "out", n=2)))

    with in_mid_run(second) as server:
        first = madke(*run(tmp_path, server, tmp_path / "out", n=2))
    assert first.returncode == 0, first.stderr
    assert "another process is writing this run" in said[0]
    assert set(outcomes(tmp_path / "out")) == {"q0", "q1"}
    assert stored(tmp_path / "out") == len(server.requests)


def test_a_lock_that_is_replaced_in_mid_run_stops_it_and_no_two_write(tmp_path: Path) -> None:
    out = tmp_path / "out"
    others = []

    def remove() -> None:
        (out / "lock").unlink()
        (out / "lock").touch()
        others.append(madke(*run(tmp_path, server, out, n=4)))

    with in_mid_run(remove) as server:
        command = run(tmp_path, server, out, n=4)
        assert "its lock was removed or replaced" in told_at_the_end(madke(*command))
        (other,) = others
        assert other.returncode == 2
        assert "another process is writing this run" in other.stderr

        assert madke(*command).returncode == 0
        assert set(outcomes(out)) == {"q0", "q1", "q2", "q3"}
        assert len(server.requests) <= stored(out) + 2 * CONCURRENCY


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_pool_file_that_changes_in_mid_run_is_noticed_and_never_mixed(tmp_path: Path, how: str) -> None:
    out, pools = tmp_path / "out", tmp_path / "pools.jsonl"
    before = tmp_path / "before.jsonl"

    def change() -> None:
        shutil.copy(pools, before)
        new = pools.read_bytes().replace(b"1,642 metres", b"9,999 metres")
        pools.unlink()
        if how == "replaced":
            (tmp_path / "new.jsonl").write_bytes(new)
            (tmp_path / "new.jsonl").rename(pools)

    with in_mid_run(change) as server:
        command = run(tmp_path, server, out, n=12)
        said = told_at_the_end(madke(*command))
        assert f"{pools}: " in said
        assert how == "removed" or "was replaced or changed during the run" in said
        assert json.loads((out / "run.json").read_text())["sessions"][-1]["ended"] == "an error"
        assert not any("9,999" in json.dumps(seen.body) for seen in server.requests)

        before.rename(pools)
        assert madke(*command).returncode == 0
        assert len(outcomes(out)) == 12


def test_a_disk_that_fills_up_in_mid_run_is_one_line_and_the_same_command_goes_on(
    tmp_path: Path, small_disk: Path
) -> None:
    out = small_disk / "out"
    filled = threading.Event()

    def filling(body: Any, n: Any) -> Any:
        if n == 9:
            fill_up(small_disk, 0)
            filled.set()
        return debating(body, n)

    with openai_server(filling) as server:
        command = run(tmp_path, server, out, n=3)
        said = told_at_the_end(madke(*command))
        assert re.fullmatch(
            r"madke: .*/out/calls\.sqlite: cannot be written: the disk is full; free some space.*", said
        )
        assert filled.wait(PATIENCE)  # the run may end when the last block but one is taken
        (small_disk / "filler").unlink()
        assert madke(*command).returncode == 0
        assert set(outcomes(out)) == {"q0", "q1", "q2"}
        # What was under way when there was no room, and what began before the run had stopped.
        assert len(server.requests) <= stored(out) + 2 * CONCURRENCY
