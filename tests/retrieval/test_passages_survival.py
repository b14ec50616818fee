"""Passages through kill -9, a lost node and a full disk: nothing finished is lost, and the bytes are the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from madke._util.workers import InProcess
from madke.core.errors import UserError
from madke.retrieval import passages
from madke.retrieval.indexes.corpus import read_folder, shard_name
from madke.retrieval.passages import build_passages
from tests.support.dump import articles, write_dump
from tests.support.small_disk import fill_up

BATCH_CHARACTERS, SHARD_BATCHES = 20_000, 2

KILLED = f"""
import sys
from pathlib import Path
from madke.retrieval import passages
from madke._util.workers import open_workers

passages._BATCH_CHARACTERS, passages._SHARD_BATCHES = {BATCH_CHARACTERS}, {SHARD_BATCHES}
batches = 0

def progress(counts):
    global batches
    batches += 1
    if batches == 6:
        print("ready", flush=True)
        sys.stdin.read()

with open_workers("local", processes=2) as workers:
    passages.build_passages([Path(sys.argv[1])], Path(sys.argv[2]), workers=workers, progress=progress)
"""


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "_BATCH_CHARACTERS", BATCH_CHARACTERS)
    monkeypatch.setattr(passages, "_SHARD_BATCHES", SHARD_BATCHES)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(tmp_path / "wiki.xml.bz2", articles(90, paragraphs=4))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_kill_in_the_middle_and_the_same_command_gives_the_same_bytes(dump: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(dump), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    left = read_folder(tmp_path / "out")
    assert left is not None
    assert not (tmp_path / "out" / "passages.json").exists()
    assert [shard.number for shard in left.shards] == [0, 1]
    written = (tmp_path / "out" / "passages-00000.jsonl.gz").stat().st_mtime_ns

    build_passages([dump], tmp_path / "out", workers=InProcess())
    build_passages([dump], tmp_path / "undisturbed", workers=InProcess())

    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")
    assert (tmp_path / "out" / "passages-00000.jsonl.gz").stat().st_mtime_ns == written


def test_a_full_disk_is_one_line_and_loses_no_finished_shard(dump: Path, small_disk: Path, tmp_path: Path) -> None:
    filler = fill_up(small_disk, leave=40_000)

    with pytest.raises(UserError, match="the disk is full; free some space") as error:
        build_passages([dump], small_disk / "out", workers=InProcess())
    assert "\n" not in str(error.value)
    left = read_folder(small_disk / "out")
    paths = [small_disk / "out" / shard_name(shard.number) for shard in (left.shards if left else ())]
    kept = {path: path.stat().st_mtime_ns for path in paths}
    filler.unlink()
    build_passages([dump], small_disk / "out", workers=InProcess())
    build_passages([dump], tmp_path / "undisturbed", workers=InProcess())

    assert contents(small_disk / "out") == contents(tmp_path / "undisturbed")
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert kept
