"""Indexes as sources, and the passages that they store: whole, changed and damaged."""

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

needs("jnius_config", "wiki")
needs("faiss", "dense")


def test_bm25_stems_and_searches_questions_of_any_length(corpus: Path, tmp_path: Path) -> None:
    build_index(corpus, tmp_path / "index")
    short = "Where did the sonar and the hull of Bexley draw visitors?"
    long = f"{short} " + " ".join(f"word{n}" for n in range(3_000))
    queries = ["visitor camels of Corva", "xylophone", "", short, long]

    stemmed, nothing, empty, of_short, of_long = Bm25Source(tmp_path / "index", name="wiki").search(queries, 5)

    best, second = stemmed.passages[:2]
    assert (best.source, best.key, best.title, best.text) == ("wiki", *PASSAGES[37].values())
    assert best.score > second.score
    assert [passage.rank for passage in stemmed.passages] == [0, 1, 2, 3, 4]
    assert nothing == empty == Hits()
    assert of_long == of_short != Hits()


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


def test_a_foreign_file_and_a_store_with_flipped_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.arrow"
    path.write_text("not arrow")
    with pytest.raises(UserError, match=r"p\.arrow: cannot be read as a passage store"):
        PassageStore(path)

    write_passages(path, [StoredPassage("1", "T", "In Arlen the volcano")])
    path.write_bytes(path.read_bytes().replace(b"In Arlen", b"\xff\xff Arlen", 1))
    with pytest.raises(UserError, match=r"p\.arrow: damaged at row 0 "):
        PassageStore(path)[0]
