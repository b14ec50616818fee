"""BM25, dense and hybrid retrieval over real, small indexes, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.retrieval.index_sources import Bm25Source, DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.index_folder import PassageStore, StoredPassage, write_passages
from madke.retrieval.named import open_source
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs

needs("jnius_config", "wiki")
needs("faiss", "dense")


@pytest.fixture(scope="module")
def bm25(tmp_path_factory: pytest.TempPathFactory) -> Bm25Source:
    folder = tmp_path_factory.mktemp("bm25")
    build_index(write_corpus(folder / "passages.jsonl"), folder / "index")
    return Bm25Source(folder / "index", name="wiki")


def test_bm25_finds_the_passage_of_each_query_in_order(bm25: Bm25Source) -> None:
    found = bm25.search([passage["title"] for passage in PASSAGES], 3)

    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    best = found[7].passages[0]
    assert (best.source, best.title, best.text) == ("wiki", PASSAGES[7]["title"], PASSAGES[7]["text"])
    for hits in found:
        assert [passage.rank for passage in hits.passages] == [0, 1, 2]
        assert hits.passages[0].score > hits.passages[1].score


def test_bm25_stems_and_searches_a_question_of_any_length_by_the_words_it_knows(bm25: Bm25Source) -> None:
    short = "Where did the sonar and the hull of Bexley draw visitors?"
    long = f"{short} " + " ".join(f"word{n}" for n in range(3_000))
    queries = ["visitor camels of Corva", "xylophone", "", short, long]

    stemmed, nothing, empty, of_short, of_long = bm25.search(queries, 5)

    assert stemmed.passages[0].key == "p37"
    assert nothing == empty == Hits()
    assert of_long == of_short != Hits()


def test_dense_numbers_rows_across_shards(corpus: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_index(corpus, index, "dense", encoder=WordEncoder(), shard_rows=20, file_mb=0.001)
    source = DenseSource(index, name="wiki", encoder=WordEncoder())

    found = source.search([f"{passage['title']} {passage['text']}" for passage in PASSAGES], 2)

    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    assert found[0].passages[0].score == pytest.approx(1.0, abs=1e-3)
    assert len(list(index.glob("faiss/*.index"))) == 3


def test_an_entry_of_a_missing_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.yaml").write_text("wiki: {index: nowhere}\n")
    monkeypatch.setenv("MADKE_SOURCES", str(tmp_path / "s.yaml"))
    with pytest.raises(UserError, match="nowhere: source 'wiki': no such folder"):
        open_source("wiki")


def test_an_encoder_that_has_changed_since_is_refused(corpus: Path, tmp_path: Path) -> None:
    class Other(WordEncoder):
        def __init__(self, revision: str) -> None:
            super().__init__()
            self.revision = revision

    build_index(corpus, tmp_path / "index", encoder=Other("one"), kind="dense")

    assert DenseSource(tmp_path / "index", name="w", encoder=Other("one")).search(["volcano"], 1)[0].passages
    with pytest.raises(UserError, match="'words' changed after the index was built"):
        DenseSource(tmp_path / "index", name="w", encoder=Other("two")).search(["volcano"], 1)


@pytest.mark.parametrize("count", [1, 1_000, 2_500])
def test_every_row_of_a_store_comes_back(count: int, tmp_path: Path) -> None:
    passages = [StoredPassage(f"id{n}", f"Ünïcode {n}", f"text\n\t{n}") for n in range(count)]

    written = write_passages(tmp_path / "p.arrow", passages)
    store = PassageStore(tmp_path / "p.arrow")

    assert written == len(store) == count
    assert [store[row] for row in range(count)] == passages


def test_a_foreign_file_and_a_store_with_flipped_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.arrow"
    path.write_text("not arrow")
    with pytest.raises(UserError, match=r"p\.arrow: cannot be read as a passage store"):
        PassageStore(path)

    write_passages(path, [StoredPassage("1", "T", "In Arlen the volcano")])
    path.write_bytes(path.read_bytes().replace(b"In Arlen", b"\xff\xff Arlen", 1))
    with pytest.raises(UserError, match=r"p\.arrow: damaged at row 0 "):
        PassageStore(path)[0]
