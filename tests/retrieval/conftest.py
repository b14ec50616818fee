from pathlib import Path

import pytest

from tests.support.corpus import write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "passages.jsonl")


@pytest.fixture(scope="session")
def lucene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty passages, indexed by Anserini itself."""
    from tests.support.pyserini_format import lucene_folder

    return lucene_folder(tmp_path_factory.mktemp("published") / "lucene-index.tiny.20210120.d1b9e6")


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their vectors, in pyserini's format, in which white space after an id is no part of it."""
    from tests.support.pyserini_format import faiss_folder

    folder = faiss_folder(tmp_path_factory.mktemp("published") / "faiss.tiny.20200127.f403c3")
    (folder / "docid").write_bytes((folder / "docid").read_bytes().replace(b"\n", b" \r\n"))
    return folder
