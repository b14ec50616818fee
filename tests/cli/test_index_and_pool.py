"""``madke index`` and ``madke pool`` on a real Lucene index."""

import json
from pathlib import Path

import pytest

from tests.data.published import write
from tests.support.cli import madke, refused
from tests.support.corpus import write_corpus
from tests.support.installed import needs

needs("pyserini", "wiki")


@pytest.mark.slow
def test_an_index_is_built_described_and_searched_alone_and_for_pools_beside_other_sources(tmp_path: Path) -> None:
    index, pools = tmp_path / "bm25", tmp_path / "pools.jsonl"
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    built = madke("index", "build", corpus, "--kind", "bm25", "--out", index)
    assert built.returncode == 0, built.stderr
    assert json.loads(madke("index", "info", index).stdout)["passages"] == 50
    found = madke("index", "search", index, "lighthouse at Corva", "--k", 2, "--json")
    assert next(json.loads(line)["key"] for line in found.stdout.splitlines()) == "p22"

    question = "Which lighthouse lamp drew visitors?"
    questions = write(tmp_path / "q.jsonl", {"id": "q1", "question": question, "golden_answers": ["Corva"]})
    result = {"title": "T", "snippet": "A lamp.", "link": "https://a.example"}
    web = write(tmp_path / "web.jsonl", {"query": question, "results": [result]})
    done = madke("pool", "build", questions, "--sources", f"wiki={index},google={web}", "--k", 7, "--out", pools)
    assert done.returncode == 0, done.stderr
    assert "wiki: passages for 1 of 1 questions, 0 failed" in done.stderr
    record = json.loads(pools.read_text())
    assert [passage["source"] for passage in record["passages"]].count("wiki") == 7
    assert record["passages"][-1]["url"] == "https://a.example"


def test_a_pool_with_a_failed_question_ends_with_1_and_says_why(tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", [{"id": "q1", "question": "Who?"}, {"id": "q2", "question": "Why?"}])
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


def test_what_cannot_be_built_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path / "bad.jsonl", [{"id": "1", "title": "a", "text": "b"}, {"id": "2"}])
    build = ("index", "build", "bad.jsonl", "--out", "out")
    assert "bad.jsonl:2:" in refused(*build, cwd=tmp_path)
    assert "--k1 requires --kind bm25" in refused(*build, "--kind", "dense", "--k1", "1", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]
