"""Building and refusing index folders; a build that is killed, or finds no room, loses nothing that was finished."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

import pytest

from madke.core.errors import UserError
from madke.retrieval.index_sources import Bm25Source, DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.dense import FaissType
from madke.retrieval.indexes.index_folder import (
    DenseSettings,
    Manifest,
    open_manifest,
    read_manifest,
)
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs
from tests.support.small_disk import fill_up

needs("faiss", "dense")
needs("jnius_config", "wiki")


def dense(
    corpus: Path, encoder: WordEncoder | None = None, *, out: str = "index", faiss: FaissType = "flat"
) -> Manifest:
    out_folder, encoder = corpus.parent / out, encoder or WordEncoder()
    return build_index(corpus, out_folder, "dense", encoder=encoder, faiss=faiss, shard_rows=20, file_mb=0.001)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_manifest_says_what_was_built(corpus: Path, tmp_path: Path) -> None:
    manifest = dense(corpus)

    assert read_manifest(tmp_path / "index") == open_manifest(tmp_path / "index") == manifest
    assert manifest.passages == 50
    assert manifest.index == DenseSettings(
        encoder="words",
        dtype="float32",
        dimension=64,
        similarity="cosine",
        factory="Flat",
        shard_rows=20,
        batching="32, longest first",
        file_mb=0.001,
    )
    assert [file.path for file in manifest.files] == [*(f"faiss/0000{n}.index" for n in range(3)), "passages.arrow"]
    assert manifest.versions["faiss-cpu"]
    assert names(tmp_path) == ["index", "passages.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_passages_without_text_are_left_out_and_logged(
    kind: Literal["bm25", "dense"], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once Lucene's own count differed, and the build blamed the disk."""
    corpus = write_corpus(tmp_path / "c.jsonl", [PASSAGES[0], {"id": "empty", "title": "", "text": ""}, PASSAGES[1]])

    manifest = build_index(corpus, tmp_path / "index", kind, encoder=WordEncoder() if kind == "dense" else None)

    assert (manifest.passages, manifest.corpus.skipped) == (2, 1)
    assert "c.jsonl: skipped 1 passage without text: 'empty' on line 2" in caplog.text
    opened = (
        Bm25Source(tmp_path / "index", name="s")
        if kind == "bm25"
        else DenseSource(tmp_path / "index", name="s", encoder=WordEncoder())
    )
    (hits,) = opened.search([PASSAGES[1]["text"]], 5)
    assert hits.passages[0].key == PASSAGES[1]["id"]
    assert build_index(tmp_path / "index", tmp_path / "copy").corpus.skipped == 1


def test_k1_and_b_of_the_build_act_when_searching(corpus: Path, tmp_path: Path) -> None:
    scores = []
    choices: list[dict[str, Any]] = [{}, {"k1": 2.0, "b": 0.9}]
    for number, settings in enumerate(choices):
        build_index(corpus, tmp_path / str(number), **settings)
        (hits,) = Bm25Source(tmp_path / str(number), name="wiki").search(["lava in Corva"], 1)
        scores.append(hits.passages[0].score)

    assert scores[0] != pytest.approx(scores[1])


def test_a_shard_that_was_damaged_meanwhile_is_encoded_again(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        dense(corpus, WordEncoder(raise_at=2))
    shard = next((tmp_path / ".index.building" / "vectors").glob("*20.npy"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")

    second = WordEncoder()
    dense(corpus, second)

    assert [len(texts) for texts in second.passage_calls] == [20, 10]


def test_a_folder_with_something_else_is_refused(corpus: Path, tmp_path: Path) -> None:
    dense(corpus)
    with pytest.raises(UserError, match="an index with other settings"):
        dense(corpus, faiss="sq8")
    with pytest.raises(UserError, match="an index with other settings"):
        build_index(corpus, tmp_path / "index")

    write_corpus(corpus, PASSAGES[:10])
    with pytest.raises(UserError, match="the index of another corpus"):
        dense(corpus)

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="not empty and holds no index"):
        build_index(corpus, tmp_path / "mine")
    assert names(tmp_path) == ["index", "mine", "passages.jsonl"]


def test_bad_input_leaves_nothing_behind(corpus: Path, tmp_path: Path) -> None:
    corpus.write_text(corpus.read_text() + "{\n")

    with pytest.raises(UserError, match=r"passages\.jsonl:51: is not JSON"):
        dense(corpus)
    with pytest.raises(UserError, match="no such corpus"):
        build_index(tmp_path / "nothing.jsonl", tmp_path / "index")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="no passages"):
        build_index(tmp_path / "empty.jsonl", tmp_path / "index")

    assert names(tmp_path) == ["empty.jsonl", "passages.jsonl"]


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
                if len(self.passage_calls) == 1:
                    print("ready", flush=True)
                    sys.stdin.read()
                return super().encode_passages(titles, texts)

        corpus, out = map(Path, sys.argv[1:])
        build_index(corpus, out, "dense", encoder=Waiting(), shard_rows=20, file_mb=0.001)
        """,
        corpus,
        tmp_path / "index",
    )
    assert not (tmp_path / "index").exists()
    again, undisturbed = WordEncoder(), WordEncoder()

    dense(corpus, again)
    dense(corpus, undisturbed, out="other")

    texts = [passage["text"] for passage in PASSAGES]
    assert again.passage_calls == [texts[20:40], texts[40:]]
    assert undisturbed.passage_calls == [texts[:20], texts[20:40], texts[40:]]
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

    def small(encoder: WordEncoder) -> None:
        build_index(corpus, small_disk / "index", "dense", encoder=encoder, faiss="sq8", shard_rows=10, file_mb=0.001)

    filler = fill_up(small_disk, leave=32_768)

    with pytest.raises(UserError, match="the disk is full; free some space, then resume with the same command"):
        small(encoder)
    filler.unlink()
    finished = len(list(small_disk.glob(".index.building/vectors/*.npy.made.json")))
    again = WordEncoder()
    small(again)

    assert len(again.passage_calls) == 5 - finished
