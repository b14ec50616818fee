"""``madke index`` and ``madke pool`` on a real Lucene index."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke, refused
from tests.support.corpus import write_corpus
from tests.support.installed import needs

needs("pyserini", "wiki")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("index")
    corpus = write_corpus(folder / "corpus.jsonl")
    done = madke("index", "build", corpus, "--kind", "bm25", "--out", folder / "bm25")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_search_info_and_verify(index: Any) -> None:
    found = madke("index", "search", index / "bm25", "lighthouse at Corva", "--k", 2, "--json")
    assert next(json.loads(line)["key"] for line in found.stdout.splitlines()) == "p22"
    assert json.loads(madke("index", "info", index / "bm25").stdout)["passages"] == 50


def test_pools_hold_what_every_source_returned(index: Any, tmp_path: Path) -> None:
    question = {"id": "q1", "question": "Which lighthouse lamp drew visitors?", "golden_answers": ["Corva"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    web = {
        "query": question["question"],
        "results": [{"title": "T", "snippet": "A lamp.", "link": "https://a.example"}],
    }
    (tmp_path / "web.jsonl").write_text(json.dumps(web) + "\n")
    sources = f"wiki={index / 'bm25'},google={tmp_path / 'web.jsonl'}"
    done = madke("pool", "build", tmp_path / "q.jsonl", "--sources", sources, "--k", 7, "--out", tmp_path / "p.jsonl")
    assert done.returncode == 0, done.stderr
    assert "wiki: passages for 1 of 1 questions, 0 failed" in done.stderr
    record = json.loads((tmp_path / "p.jsonl").read_text())
    assert [passage["source"] for passage in record["passages"]].count("wiki") == 7
    assert record["passages"][-1]["url"] == "https://a.example"


def test_a_pool_with_a_failed_question_ends_with_1_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "q1", "question": "Who?"}\n{"id": "q2", "question": "Why?"}\n')
    (tmp_path / "broken.py").write_text(
        "import madke\n"
        "class Broken:\n"
        "    name = description = fingerprint = 'broken'\n"
        "    def search(self, queries, k):\n"
        "        return [madke.Hits(error='no\\nroute') if query == 'Why?' else madke.Hits() for query in queries]\n"
    )
    done = madke("pool", "build", "q.jsonl", "--sources", "s=broken:Broken", "--out", "p.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "s: passages for 0 of 2 questions, 1 failed (first: no route)" in done.stderr
    assert "1 search failed; the file has the reasons under 'partial'" in done.stderr
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[1])["partial"] == {"s": "no\nroute"}


def test_a_broken_corpus_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": "1", "title": "a", "text": "b"}\n{"id": "2"}\n')
    assert "bad.jsonl:2:" in refused("index", "build", "bad.jsonl", "--out", "out", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_options_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c.jsonl")
    said = refused("index", "build", "c.jsonl", "--kind", "dense", "--k1", "1", "--out", "out", cwd=tmp_path)
    assert "--k1 requires --kind bm25" in said
