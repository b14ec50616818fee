"""Indexes that were damaged: one line each, and never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.indexing.index_folder import PassageStore
from madke.knowledge.index_sources import open_index


@pytest.fixture
def bm25(bm25_index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bm25_index, tmp_path / "bm25"))


@pytest.fixture
def dense(dense_index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(dense_index, tmp_path / "dense"))


def test_lucene_that_cannot_be_opened(bm25: Path) -> None:
    segments = next((bm25 / "lucene").glob("segments_*"))
    segments.write_bytes(bytes(segments.stat().st_size))

    with pytest.raises(UserError, match=r"bm25/lucene: Lucene cannot open this index: "):
        open_index("wiki", bm25)


def test_a_manifest_that_is_no_text(dense: Path) -> None:
    (dense / "manifest.json").write_bytes(b"\xff\xfe")

    with pytest.raises(UserError, match=r"unreadable manifest; build the index again \(the file: Invalid JSON"):
        open_index("wiki", dense)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([{"path": "../../secret.index", "size": 1, "sha256": ""}], "is not a path inside the folder"),
        ([{"path": "/etc/hosts", "size": 1, "sha256": ""}], "is not a path inside the folder"),
    ],
)
def test_a_manifest_with_other_files(files: list[dict[str, object]], message: str, dense: Path) -> None:
    path = dense / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))

    with pytest.raises(UserError, match=message):
        open_index("wiki", dense)


def test_passages_with_flipped_bits(bm25: Path) -> None:
    store = bm25 / "passages.arrow"
    content = store.read_bytes()
    store.write_bytes(content.replace(b"In Arlen the volcano", b"\xff\xff Arlen the volcano", 1))

    reads: tuple[Callable[[PassageStore], object], ...] = (
        lambda opened: opened[0],
        lambda opened: opened.read(range(50)),
    )
    for read in reads:
        with pytest.raises(UserError, match=r"passages\.arrow: damaged at row 0 "):
            read(PassageStore(store))


def test_vectors_whose_scores_are_distances(dense: Path) -> None:
    faiss = pytest.importorskip("faiss")
    from tests.support.corpus import WordEncoder

    for path in (dense / "faiss").iterdir():
        index = faiss.read_index(str(path))
        other = faiss.index_factory(index.d, "Flat", faiss.METRIC_L2)
        other.add(index.reconstruct_n(0, index.ntotal))
        faiss.write_index(other, str(path))
    from madke.knowledge.index_sources import DenseSource

    with pytest.raises(UserError, match="found distances as scores"):
        DenseSource(dense, name="wiki", encoder=WordEncoder()).search(["volcano"], 1)
