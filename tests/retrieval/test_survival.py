"""A build that is killed, or finds no room on the disk, loses nothing that was finished."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.retrieval.index_sources import Bm25Source
from madke.retrieval.indexes.build import build_index
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs
from tests.support.small_disk import fill_up

needs("faiss", "dense")
needs("jnius_config", "wiki")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "passages.jsonl")


def killed(script: str, *arguments: Path) -> None:
    """Run a script that prints ``ready`` and waits; kill it there."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def dense(corpus: Path, out: Path, encoder: WordEncoder) -> None:
    build_index(corpus, out, encoder=encoder, faiss="sq8", shard_rows=10, file_mb=0.001, kind="dense")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_kill_while_encoding_leaves_finished_shards_and_the_same_bytes_at_the_end(corpus: Path, tmp_path: Path) -> None:
    killed(
        """
        import sys
        from pathlib import Path
        from madke.retrieval.indexes.build import build_index
        from tests.support.corpus import WordEncoder

        class Waiting(WordEncoder):
            def encode_passages(self, titles, texts):
                if len(self.passage_calls) == 3:
                    print("ready", flush=True)
                    sys.stdin.read()
                return super().encode_passages(titles, texts)

        corpus, out = map(Path, sys.argv[1:])
        build_index(corpus, out, "dense", encoder=Waiting(), faiss="sq8", shard_rows=10, file_mb=0.001)
        """,
        corpus,
        tmp_path / "index",
    )
    assert not (tmp_path / "index").exists()
    again, undisturbed = WordEncoder(), WordEncoder()

    dense(corpus, tmp_path / "index", again)
    dense(corpus, tmp_path / "other", undisturbed)

    assert (len(again.passage_calls), len(undisturbed.passage_calls)) == (2, 5)
    assert contents(tmp_path / "index") == contents(tmp_path / "other")


@pytest.mark.slow
def test_kill_while_lucene_writes_gives_the_same_results_from_the_same_command(corpus: Path, tmp_path: Path) -> None:
    killed(
        """
        import sys
        from pathlib import Path
        from madke.retrieval.indexes.build import build_index

        def progress(done, total):
            if total is not None:
                print("ready", flush=True)
                sys.stdin.read()

        build_index(Path(sys.argv[1]), Path(sys.argv[2]), progress=progress)
        """,
        corpus,
        tmp_path / "index",
    )
    assert not (tmp_path / "index").exists()

    build_index(corpus, tmp_path / "index")
    build_index(corpus, tmp_path / "other")

    queries = [passage["text"] for passage in PASSAGES]
    again, undisturbed = (Bm25Source(tmp_path / name, name="w").search(queries, 5) for name in ("index", "other"))
    assert again == undisturbed
    assert all(hits.passages for hits in again)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "other", "passages.jsonl"]


def test_a_full_disk_while_encoding_is_one_line_and_loses_no_finished_shard(small_disk: Path) -> None:
    corpus = write_corpus(small_disk / "passages.jsonl")
    encoder = WordEncoder()
    filler = fill_up(small_disk, leave=32_768)

    with pytest.raises(UserError, match="the disk is full; free some space, then resume with the same command"):
        dense(corpus, small_disk / "index", encoder)
    filler.unlink()
    finished = len(list(small_disk.glob(".index.building/vectors/*.npy.made.json")))
    again = WordEncoder()
    dense(corpus, small_disk / "index", again)

    assert len(again.passage_calls) == 5 - finished
