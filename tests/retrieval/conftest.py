from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.corpus import WordEncoder, write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "passages.jsonl")


@pytest.fixture(scope="session")
def bm25_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jnius_config", reason="needs the extra madke[wiki]")
    from madke.retrieval.indexes.build import build_index

    folder = tmp_path_factory.mktemp("bm25")
    build_index(write_corpus(folder / "passages.jsonl"), folder / "index")
    return folder / "index"


@pytest.fixture(scope="session")
def dense_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("faiss", reason="needs the extra madke[dense]")
    from madke.retrieval.indexes.build import build_index

    folder = tmp_path_factory.mktemp("dense")
    corpus = write_corpus(folder / "passages.jsonl")
    build_index(corpus, folder / "index", encoder=WordEncoder(), shard_rows=20, file_mb=0.001, kind="dense")
    return folder / "index"


@pytest.fixture(scope="session")
def lucene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty passages, indexed by Anserini itself."""
    from tests.support.pyserini_format import lucene_folder

    return lucene_folder(tmp_path_factory.mktemp("published") / "lucene-index.tiny.20210120.d1b9e6")


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their vectors, in pyserini's format."""
    from tests.support.pyserini_format import faiss_folder

    return faiss_folder(tmp_path_factory.mktemp("published") / "faiss.tiny.20200127.f403c3")
