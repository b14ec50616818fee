"""Building and refusing index folders; a build that is killed, or finds no room, loses nothing that was finished."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from madke.core.errors import UserError
from madke.retrieval.index_sources import Bm25Source, DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.dense import FaissType
from madke.retrieval.indexes.index_folder import DenseSettings, Manifest, open_manifest, read_manifest
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs
from tests.support.small_disk import fill_up

needs("faiss", "dense")
needs("jnius_config", "wiki")

Kind = Literal["bm25", "dense"]


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
    assert isinstance(manifest.index, DenseSettings)
    assert (manifest.index.encoder, manifest.index.dimension, manifest.index.factory) == ("words", 64, "Flat")
    assert [file.path for file in manifest.files] == [*(f"faiss/0000{n}.index" for n in range(3)), "passages.arrow"]
    assert manifest.versions["faiss-cpu"]
    assert names(tmp_path) == ["index", "passages.jsonl"]


def test_blank_passages_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once Lucene's own count differed, and the build blamed the disk."""
    blank = [{"id": f"blank{n}", "title": "Title", "text": text} for n, text in enumerate(["", " \t", "\u0001", "..."])]
    corpus = write_corpus(tmp_path / "c.jsonl", [PASSAGES[0], *blank, PASSAGES[1]])

    manifest = build_index(corpus, tmp_path / "words")
    vectors = build_index(tmp_path / "words", tmp_path / "vectors", "dense", encoder=WordEncoder())

    assert (manifest.passages, manifest.corpus.skipped) == (vectors.passages, vectors.corpus.skipped) == (2, 4)
    assert "c.jsonl: skipped 4 passages without text: 'blank0' on line 2, 'blank1' on line 3, " in caplog.text
    (hits,) = DenseSource(tmp_path / "vectors", name="s", encoder=WordEncoder()).search([PASSAGES[1]["text"]], 5)
    assert [passage.key for passage in hits.passages] == ["p1", "p0"]


def test_k1_and_b_of_the_build_act_when_searching(corpus: Path, tmp_path: Path) -> None:
    build_index(corpus, tmp_path / "default")
    build_index(corpus, tmp_path / "other", k1=2.0, b=0.9)

    sources = [Bm25Source(tmp_path / name, name="wiki") for name in ("default", "other")]
    default, other = (source.search(["lava in Corva"], 1)[0].passages[0].score for source in sources)

    assert default != pytest.approx(other)


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
        build_index(corpus, tmp_path / "index")

    write_corpus(corpus, PASSAGES[:10])
    with pytest.raises(UserError, match="the index of another corpus"):
        dense(corpus)

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="not empty and holds no index"):
        build_index(corpus, tmp_path / "mine")
    assert names(tmp_path) == ["index", "mine", "passages.jsonl"]


def test_a_corpus_without_passages_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="no passages"):
        build_index(tmp_path / "empty.jsonl", tmp_path / "index")

    assert names(tmp_path) == ["empty.jsonl"]


KILLED = """
import sys
from pathlib import Path
from madke.retrieval.indexes.build import build_index
from tests.support.corpus import WordEncoder

def wait(done, total):
    if total is not None:
        print("ready", flush=True)
        sys.stdin.read()

corpus, out, kind = sys.argv[1:]
dense = {"encoder": WordEncoder(), "shard_rows": 20, "file_mb": 0.001} if kind == "dense" else {}
build_index(Path(corpus), Path(out), kind, progress=wait, **dense)
"""


def kill_while_it_builds(corpus: Path, out: Path, kind: Kind) -> None:
    """After the first shard of vectors, or before Lucene has closed its index."""
    command = [sys.executable, "-c", KILLED, str(corpus), str(out), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert not out.exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_kill_while_encoding_leaves_finished_shards_and_the_same_bytes_at_the_end(corpus: Path, tmp_path: Path) -> None:
    kill_while_it_builds(corpus, tmp_path / "index", "dense")
    again, undisturbed = WordEncoder(), WordEncoder()

    dense(corpus, again)
    dense(corpus, undisturbed, out="other")

    texts = [passage["text"] for passage in PASSAGES]
    assert again.passage_calls == [texts[20:40], texts[40:]]
    assert undisturbed.passage_calls == [texts[:20], texts[20:40], texts[40:]]
    assert contents(tmp_path / "index") == contents(tmp_path / "other")


@pytest.mark.slow
def test_kill_while_lucene_writes_gives_the_same_results_from_the_same_command(corpus: Path, tmp_path: Path) -> None:
    kill_while_it_builds(corpus, tmp_path / "index", "bm25")

    build_index(corpus, tmp_path / "index")
    build_index(corpus, tmp_path / "other")

    queries = [passage["text"] for passage in PASSAGES]
    again, undisturbed = (Bm25Source(tmp_path / name, name="w").search(queries, 5) for name in ("index", "other"))
    assert again == undisturbed
    assert all(hits.passages for hits in again)
    assert names(tmp_path) == ["index", "other", "passages.jsonl"]


def test_a_full_disk_while_encoding_is_one_line_and_loses_no_finished_shard(small_disk: Path) -> None:
    corpus = write_corpus(small_disk / "passages.jsonl")
    settings: dict[str, Any] = {"kind": "dense", "faiss": "sq8", "shard_rows": 10, "file_mb": 0.001}
    filler = fill_up(small_disk, leave=32_768)

    with pytest.raises(UserError, match="the disk is full; free some space, then resume with the same command"):
        build_index(corpus, small_disk / "index", encoder=WordEncoder(), **settings)
    filler.unlink()
    finished = len(list(small_disk.glob(".index.building/vectors/*.npy.made.json")))
    again = WordEncoder()
    build_index(corpus, small_disk / "index", encoder=again, **settings)

    assert len(again.passage_calls) == 5 - finished


class NoiseEncoder(WordEncoder):
    """A random direction for each text, pulled towards one of 20 centres, so that there are neighbours to find."""

    dimension = 32

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        centres = np.random.default_rng(0).standard_normal((20, self.dimension))
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(text.strip().encode()).digest()[:8], "big")
            vectors[row] = centres[seed % 20] + 0.7 * np.random.default_rng(seed).standard_normal(self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Training takes a hundred times as long where its threads share their cores with other work."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("faiss", "least"), [("flat", 1.0), ("sq8", 0.9), ("hnsw", 0.9), ("ivfpq", 0.3)])
def test_each_type_is_built_in_files_and_finds_the_nearest(faiss: FaissType, least: float, tmp_path: Path) -> None:
    passages = [{"id": str(n), "title": "", "text": f"passage number {n}"} for n in range(10_000)]
    corpus, index = write_corpus(tmp_path / "passages.jsonl", passages), tmp_path / "index"
    settings: dict[str, Any] = {"kind": "dense", "faiss": faiss, "shard_rows": 2_000, "file_mb": 0.02}

    manifest = build_index(corpus, index, encoder=NoiseEncoder(), **settings)

    assert len([file for file in manifest.files if file.path.startswith("faiss/")]) > 1 or faiss == "ivfpq"
    asked = passages[::200]
    found = DenseSource(index, name="wiki", encoder=NoiseEncoder()).search([each["text"] for each in asked], 5)
    keys = [{passage.key for passage in hits.passages} for hits in found]
    assert np.mean([each["id"] in some for each, some in zip(asked, keys, strict=True)]) >= least
    unused = NoiseEncoder()
    assert build_index(corpus, index, encoder=unused, **settings) == manifest
    assert unused.passage_calls == []


def test_inverted_lists_need_enough_vectors(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--faiss ivfpq needs 9,984 passages or more, found 50; choose --faiss flat"):
        build_index(corpus, tmp_path / "index", "dense", encoder=WordEncoder(), faiss="ivfpq")


def test_vectors_that_do_not_fit_into_16_bits_are_refused(corpus: Path, tmp_path: Path) -> None:
    class Huge(WordEncoder):
        def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().encode_queries(texts) * 1e9

    with pytest.raises(UserError, match="exceeds float16"):
        build_index(corpus, tmp_path / "index", "dense", encoder=Huge())
