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
from tests.support.corpus import PASSAGES, WordEncoder
from tests.support.installed import needs

needs("pyarrow", "wiki")


def test_bm25_finds_the_passage_of_each_query_in_order(bm25_index: Path) -> None:
    source = Bm25Source(bm25_index, name="wiki")
    queries = [passage["title"] for passage in PASSAGES]

    found = source.search(queries, 3)

    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    best = found[7].passages[0]
    assert (best.source, best.title, best.text) == ("wiki", PASSAGES[7]["title"], PASSAGES[7]["text"])
    for hits in found:
        assert [passage.rank for passage in hits.passages] == [0, 1, 2]
        assert hits.passages[0].score > hits.passages[1].score


def test_bm25_stems_and_answers_a_query_without_any_known_word_with_nothing(bm25_index: Path) -> None:
    source = Bm25Source(bm25_index, name="wiki")

    stemmed, nothing, empty = source.search(["visitor camels of Corva", "xylophone", ""], 5)

    assert stemmed.passages[0].key == "p37"
    assert nothing == empty == Hits()


def test_a_very_long_question_is_searched(bm25_index: Path) -> None:
    source = Bm25Source(bm25_index, name="wiki")
    short = "Where did the sonar and the hull of Bexley draw visitors?"
    of_short, of_long = source.search([short, f"{short} " + " ".join(f"word{n}" for n in range(3_000))], 5)
    assert of_long == of_short != Hits()


def test_dense_numbers_rows_across_shards(dense_index: Path) -> None:
    source = DenseSource(dense_index, name="wiki", encoder=WordEncoder())

    found = source.search([f"{passage['title']} {passage['text']}" for passage in PASSAGES], 2)

    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    assert found[0].passages[0].score == pytest.approx(1.0, abs=1e-3)
    assert len(list(dense_index.glob("faiss/*.index"))) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "no such folder or file 'nowhere', and unknown source"),
        ("nowhere.pdf", r"no such folder or file 'nowhere\.pdf'"),
        (".", "this folder holds no readable document"),
        ("missing.jsonl", "missing.jsonl: cannot be read"),
    ],
)
def test_a_specification_that_names_nothing_is_refused(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UserError, match=message):
        open_source("wiki", spec)


def test_an_entry_of_a_missing_index_says_that_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_every_row_comes_back(count: int, tmp_path: Path) -> None:
    passages = [StoredPassage(f"id{n}", f"Ünïcode {n}", f"text\n\t{n}") for n in range(count)]

    written = write_passages(tmp_path / "p.arrow", passages)
    store = PassageStore(tmp_path / "p.arrow")

    assert written == len(store) == count
    assert [store[row] for row in range(count)] == passages


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.arrow").write_text("not arrow")

    with pytest.raises(UserError, match=r"p\.arrow: cannot be read as a passage store"):
        PassageStore(tmp_path / "p.arrow")


def test_a_store_with_flipped_bits_is_refused(tmp_path: Path) -> None:
    write_passages(tmp_path / "p.arrow", [StoredPassage("1", "T", "In Arlen the volcano")])
    content = (tmp_path / "p.arrow").read_bytes()
    (tmp_path / "p.arrow").write_bytes(content.replace(b"In Arlen", b"\xff\xff Arlen", 1))

    with pytest.raises(UserError, match=r"p\.arrow: damaged at row 0 "):
        PassageStore(tmp_path / "p.arrow")[0]
