"""Folders in pyserini's formats, made by Anserini and FAISS themselves; and the Java that opens them."""

from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.retrieval.index_sources import fingerprint_of, open_index, stored_passage
from madke.retrieval.source import search_source
from tests.support.cli import refused
from tests.support.corpus import PASSAGES, WordEncoder
from tests.support.installed import needs

needs("jnius_config", "wiki")
needs("faiss", "wiki")

QUERIES = [passage["title"] for passage in PASSAGES]


def test_a_lucene_folder_opens_as_it_is(lucene: Path) -> None:
    source = open_index("wiki", lucene)

    found = search_source(source, QUERIES, 3)

    assert source.description == f"BM25 over 50 documents ({lucene}, {fingerprint_of(lucene)})"
    best = found[7].passages[0]
    assert (best.source, best.key, best.title, best.text) == ("wiki", *PASSAGES[7].values())
    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]


@pytest.mark.parametrize(
    ("stored", "title", "text"),
    [
        ('{"id": "1", "contents": "\\"Aaron\\"\\nA prophet."}', "Aaron", "A prophet."),
        ('{"id": "1", "contents": "First line\\nsecond line"}', "", "First line\nsecond line"),
        ('{"id": "1", "contents": "\\"Quoted\\" and one line"}', "", '"Quoted" and one line'),
        ('{"_id": "1", "title": "Aaron", "text": "A prophet."}', "Aaron", "A prophet."),
        ('{"id": "1", "vector": {"a": 1}}', "", '{"id": "1", "vector": {"a": 1}}'),
        ('"Aaron"\nA prophet.', "Aaron", "A prophet."),
        ("", "", ""),
    ],
)
def test_what_was_stored_becomes_title_and_text(stored: str, title: str, text: str) -> None:
    assert stored_passage("1", {"raw": stored}) == ("1", title, text)


def test_faiss_opens_with_an_encoder_and_texts(vectors: Path, lucene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    words = WordEncoder()
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda name, **_: asked.append(name) or words)

    source = open_index("wiki", vectors, encoder="words", texts=lucene)
    found = search_source(source, [f"{passage['title']} {passage['text']}" for passage in PASSAGES], 2)

    best = found[7].passages[0]
    assert (best.source, best.key, best.title, best.text) == ("wiki", *PASSAGES[7].values())
    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    assert [passage.rank for passage in found[0].passages] == [0, 1]
    assert asked == ["words"]


def test_what_a_faiss_folder_does_not_say_is_asked_for(vectors: Path, lucene: Path) -> None:
    with pytest.raises(UserError, match=r"give encoder and texts, .*wiki: \{index: FOLDER, encoder: "):
        open_index("wiki", vectors, texts=lucene)
    with pytest.raises(UserError, match="holds no texts; expected a Lucene index"):
        open_index("wiki", vectors, encoder="minilm", texts=vectors)


PYSERINI = {
    "Corva lighthouse": {"p22": 2.6259, "p20": 1.5359, "p21": 1.5359, "p23": 1.5359},
    "the visitors' telescopes in Elstow and Bexley": {"p26": 2.6311, "p29": 2.6311, "p25": 1.5411, "p27": 1.5411},
    "lava lava lava moraine": {"p0": 3.5164, "p1": 3.5164, "p2": 3.5164, "p3": 3.5164},
}
"""What LuceneSearcher of pyserini 1.6.0 finds for each query, best first, with its scores."""


def test_the_results_are_those_of_pyserini(lucene: Path) -> None:
    found = search_source(open_index("wiki", lucene), list(PYSERINI), 4)

    for hits, expected in zip(found, PYSERINI.values(), strict=True):
        assert [passage.key for passage in hits.passages] == list(expected)
        assert [passage.score for passage in hits.passages] == pytest.approx(list(expected.values()), rel=1e-5)


def test_a_java_that_does_not_start_is_one_line(corpus: Path, tmp_path: Path) -> None:
    said = refused("index", "build", corpus, "--out", tmp_path / "index", MADKE_JAVA_HEAP="plenty")

    assert "does not start" in said
    assert "Xmxplenty" in said
