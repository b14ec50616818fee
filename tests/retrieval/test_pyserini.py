"""Folders in pyserini's formats, made by Anserini and FAISS themselves; and the Java that opens them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.retrieval.index_sources import DenseSource, fingerprint_of, open_index, stored_passage
from madke.retrieval.source import search_source
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
        ('{"id": "1", "contents": "\\"The \\"Iron\\" Duke\\"\\nA general."}', 'The "Iron" Duke', "A general."),
        ('{"id": "1", "contents": "First line\\nsecond line"}', "", "First line\nsecond line"),
        ('{"id": "1", "contents": "\\"Quoted\\" and one line"}', "", '"Quoted" and one line'),
        ('{"_id": "1", "title": "Aaron", "text": "A prophet."}', "Aaron", "A prophet."),
        ('{"id": "1", "title": "Aaron", "contents": "A prophet."}', "Aaron", "A prophet."),
        ('{"id": "1", "vector": {"a": 1}}', "", '{"id": "1", "vector": {"a": 1}}'),
        ('"Aaron"\nA prophet.', "Aaron", "A prophet."),
        ("1984 was a year.", "", "1984 was a year."),
        ("1984", "", "1984"),
        ('{"contents": 7}', "", '{"contents": 7}'),
        ('"', "", '"'),
        ("", "", ""),
    ],
)
def test_what_was_stored_becomes_title_and_text(stored: str, title: str, text: str) -> None:
    assert stored_passage("1", {"raw": stored}) == ("1", title, text)


def test_a_faiss_folder_opens_with_an_encoder_and_texts(
    vectors: Path, lucene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda name, **_: asked.append(name) or WORDS)

    source = open_index("wiki", vectors, encoder="words", texts=lucene)
    found = search_source(source, [f"{passage['title']} {passage['text']}" for passage in PASSAGES], 2)

    best = found[7].passages[0]
    assert (best.source, best.key, best.title, best.text) == ("wiki", *PASSAGES[7].values())
    assert [hits.passages[0].key for hits in found] == [passage["id"] for passage in PASSAGES]
    assert [passage.rank for passage in found[0].passages] == [0, 1]
    assert asked == ["words"]
    assert source.description == (
        f"words vectors of 50 documents ({vectors}, {fingerprint_of(vectors)}), "
        f"texts from {lucene} ({fingerprint_of(lucene)})"
    )


WORDS = WordEncoder()


def dense(vectors: Path, texts: Path) -> DenseSource:
    return DenseSource(vectors, name="wiki", encoder=WORDS, texts=texts)


def test_what_a_faiss_folder_does_not_say_is_asked_for(vectors: Path, lucene: Path) -> None:
    with pytest.raises(UserError, match=r"give encoder and texts, .*wiki: \{index: FOLDER, encoder: "):
        open_index("wiki", vectors)
    with pytest.raises(UserError, match="give encoder and texts"):
        open_index("wiki", vectors, texts=lucene)
    with pytest.raises(UserError, match="holds no texts; expected a Lucene index"):
        open_index("wiki", vectors, encoder="minilm", texts=vectors)


def test_white_space_after_an_id_is_no_part_of_it(vectors: Path, lucene: Path, tmp_path: Path) -> None:
    spaced = Path(shutil.copytree(vectors, tmp_path / "spaced"))
    (spaced / "docid").write_bytes((vectors / "docid").read_bytes().replace(b"\n", b" \r\n"))
    found, expected = (search_source(dense(folder, lucene), QUERIES, 3) for folder in (spaced, vectors))
    assert found == expected


@pytest.mark.slow
def test_the_results_are_pyserinis_own(lucene: Path) -> None:
    script = (
        "import json, sys\n"
        "from madke.retrieval.indexes.lucene import start_jvm\n"
        "start_jvm()\n"
        "from pyserini.search.lucene import LuceneSearcher\n"
        "searcher = LuceneSearcher(sys.argv[1])\n"
        "found = [[[h.docid, float(h.score)] for h in searcher.search(q, 10)] for q in json.load(sys.stdin)]\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(lucene)],
        input=json.dumps(QUERIES),
        env={**os.environ, "OPENAI_API_KEY": "unused"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr

    ours = [[[p.key, p.score] for p in hits.passages] for hits in search_source(open_index("w", lucene), QUERIES, 10)]
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert ours == [[[key, pytest.approx(score, rel=1e-5)] for key, score in hits] for hits in theirs]


@pytest.mark.slow
def test_building_and_searching_write_nothing_and_load_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.support.corpus import write_corpus\n"
        "from madke.retrieval.indexes.build import build_index\n"
        "from madke.retrieval.index_sources import Bm25Source\n"
        "folder = Path(sys.argv[1])\n"
        "build_index(write_corpus(folder / 'c.jsonl'), folder / 'index')\n"
        "assert Bm25Source(folder / 'index', name='wiki').search(['lava'], 1)[0].passages\n"
        "assert 'torch' not in sys.modules and 'pyserini' not in sys.modules\n"
    )

    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_java_that_does_not_start_is_said_in_one_line(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.environ['MADKE_JAVA_HEAP'] = 'plenty'\n"
        "from madke.core.errors import UserError\n"
        "from madke.retrieval.indexes.lucene import start_jvm\n"
        "try: start_jvm()\n"
        "except UserError as error: sys.exit(str(error))\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)

    assert done.returncode != 0
    assert "does not start" in done.stderr
    assert "Xmxplenty" in done.stderr
    assert done.stderr.count("\n") == 1
