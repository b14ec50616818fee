from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.corpus import WordEncoder, write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="session")
def bm25_index(corpus: Path) -> Path:
    pytest.importorskip("jnius_config", reason="needs the extra madke[wiki]")
    from madke.retrieval.indexes.build import build_index

    build_index(corpus, corpus.parent / "bm25")
    return corpus.parent / "bm25"


@pytest.fixture(scope="session")
def dense_index(corpus: Path) -> Path:
    pytest.importorskip("faiss", reason="needs the extra madke[dense]")
    from madke.retrieval.indexes.build import build_index

    build_index(corpus, corpus.parent / "dense", encoder=WordEncoder(), shard_rows=20, file_mb=0.001, kind="dense")
    return corpus.parent / "dense"
