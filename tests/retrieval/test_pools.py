"""Pool files: built from sources, resumed, written by hand and merged; and the pools that debaters read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage, SourceCounts
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.retrieval.pools import PoolRecord, merged_pools, pool_of, read_pools, retrieve_pools
from tests.data.published import write


class FakeSource:
    """``k`` passages for each query, an error for some; records its batches, and cannot work after some of them."""

    def __init__(self, name: str, *, errors: dict[str, str] | None = None, lasts: int | None = None) -> None:
        self.name = name
        self.description = f"a fake {name}"
        self.batches: list[list[str]] = []
        self._errors = errors or {}
        self._lasts = lasts

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        if len(self.batches) == self._lasts:
            raise UserError("no credits left")
        self.batches.append(list(queries))
        return [self._one(query, k) for query in queries]

    def _one(self, query: str, k: int) -> Hits:
        if query in self._errors:
            return Hits(error=self._errors[query])
        return Hits(passages=tuple(passage(self.name, f"{self.name} on {query} {n}", rank=n) for n in range(k)))


def passage(source: str, text: str, *, rank: int = 0, url: str | None = None, score: float = 1.0) -> Passage:
    return Passage(source=source, key=f"{source}{rank}", title="T", text=text, score=score, rank=rank, url=url)


def record(*passages: Passage, partial: dict[str, str] | None = None) -> PoolRecord:
    return PoolRecord(id="q", question="?", passages=passages, partial=partial or {}, sources={})


def load_pool(record: PoolRecord, *, sources: Sequence[str], **settings: Any) -> KnowledgePool:
    """The pool under these settings of ``knowledge``."""
    return pool_of(record, Knowledge.model_validate({"sources": tuple(sources), **settings}))


def test_a_pool_file_holds_everything_every_source_returned_and_the_reason_of_each_failure(tmp_path: Path) -> None:
    questions = [Question(id=f"id{n}", question=f"q{n}") for n in range(3)]
    sources = [FakeSource("wiki"), FakeSource("google", errors={"q1": "HTTP 500"})]

    retrieve_pools(questions, sources, 2, tmp_path / "p.jsonl")
    records = read_pools(tmp_path / "p.jsonl")

    assert [(id_, record.question) for id_, record in records.items()] == [("id0", "q0"), ("id1", "q1"), ("id2", "q2")]
    of_both = ["wiki on q0 0", "wiki on q0 1", "google on q0 0", "google on q0 1"]
    assert [p.text for p in records["id0"].passages] == of_both
    assert [p.text for p in records["id1"].passages] == ["wiki on q1 0", "wiki on q1 1"]
    assert [record.partial for record in records.values()] == [{}, {"google": "HTTP 500"}, {}]


ELEVEN = [Question(id=f"id{n}", question=f"q{n}") for n in range(11)]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven questions are three chunks."""
    monkeypatch.setattr("madke.retrieval.pools._CHUNK_QUESTIONS", 5)


def stop_after(chunks: int, folder: Path, *, errors: dict[str, str] | None = None) -> None:
    """A build of ``p.jsonl`` that comes no further."""
    sources = [FakeSource("wiki"), FakeSource("google", lasts=chunks, errors=errors)]
    with pytest.raises(UserError, match="no credits left"):
        retrieve_pools(ELEVEN, sources, 2, folder / "p.jsonl")


def undisturbed(folder: Path) -> tuple[bytes, dict[str, SourceCounts]]:
    found = retrieve_pools(ELEVEN, [FakeSource("wiki"), FakeSource("google")], 2, folder / "other.jsonl")
    content = (folder / "other.jsonl").read_bytes()
    (folder / "other.jsonl").unlink()
    return content, found


@pytest.mark.usefixtures("small_chunks")
def test_a_build_that_was_stopped_asks_only_for_the_missing_chunks(tmp_path: Path) -> None:
    content, counts = undisturbed(tmp_path)
    stop_after(1, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".p.jsonl.asking"]
    wiki, google = FakeSource("wiki"), FakeSource("google")
    seen: list[tuple[int, int]] = []

    found = retrieve_pools(ELEVEN, [wiki, google], 2, tmp_path / "p.jsonl", progress=lambda *done: seen.append(done))

    assert google.batches == [["q5", "q6", "q7", "q8", "q9"], ["q10"]]
    assert wiki.batches == [["q10"]]  # its answers were stored before google was asked
    assert found == counts == dict.fromkeys(("wiki", "google"), SourceCounts(asked=11, found=11))
    assert seen == [(5, 11), (10, 11), (11, 11)]
    assert (tmp_path / "p.jsonl").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]


@pytest.mark.usefixtures("small_chunks")
def test_a_chunk_in_which_a_source_failed_is_asked_again(tmp_path: Path) -> None:
    stop_after(2, tmp_path, errors={"q3": "HTTP 500"})
    wiki, google = FakeSource("wiki"), FakeSource("google")

    found = retrieve_pools(ELEVEN, [wiki, google], 2, tmp_path / "p.jsonl")

    assert wiki.batches == []
    assert google.batches == [["q0", "q1", "q2", "q3", "q4"], ["q10"]]
    assert ((tmp_path / "p.jsonl").read_bytes(), found) == undisturbed(tmp_path)


def test_a_file_written_by_hand_needs_little(tmp_path: Path) -> None:
    line = {"id": 7, "question": "?", "passages": [{"source": "wiki", "text": t} for t in ("a", "b")], "note": "mine"}

    found = read_pools(write(tmp_path / "p.jsonl", line))["7"]

    assert [(p.text, p.key, p.rank, p.url) for p in found.passages] == [
        ("a", "wiki-0", 0, None),
        ("b", "wiki-1", 1, None),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "b", "question": "\\ud800", "passages": []}', ":2: contains a lone surrogate"),
        ('{"id": "b", "question": "?", "passages": [{"text": "x"}]}', r":2: passages\.0\.source: Field required"),
        ('{"id": "a", "question": "?", "passages": []}', ":2: id 'a' is already on line 1"),
    ],
)
def test_a_broken_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    whole = '{"id": "a", "question": "?", "passages": []}'
    with pytest.raises(UserError, match=message):
        read_pools(write(tmp_path / "p.jsonl", f"{whole}\n{line}\n"))


def test_duplicates_by_words_or_url_go_before_the_cap() -> None:
    full = record(
        passage("wiki", "bird", rank=3),
        passage("wiki", "dog", rank=2),
        passage("wiki", "The cat sat .", rank=0),
        passage("wiki", "the  cat, sat", rank=1),
        passage("google", "The cat sat", rank=0),
        passage("google", "x", rank=1, url="https://a.example"),
        passage("google", "y", rank=2, url="https://a.example"),
        passage("google", "The cat sat down", rank=3),
    )

    pool = load_pool(full, sources=["wiki", "google"], per_source=2)

    assert [p.text for p in pool.passages] == ["The cat sat .", "dog", "x", "The cat sat down"]


def test_in_a_fusion_a_passage_that_two_sources_found_is_the_first_ones() -> None:
    full = record(
        passage("bm25", "A", rank=0, score=20),
        passage("bm25", "C", rank=1, score=10),
        passage("dense", "c .", rank=0, score=0.9),
        passage("dense", "D", rank=1, score=0.8),
    )

    pool = load_pool(full, sources=["dense", "bm25"], fusion="rrf")

    assert [(p.text, p.source) for p in pool.passages] == [("c .", "dense"), ("A", "bm25"), ("D", "dense")]
    assert [p.rank for p in pool.passages] == [0, 1, 2]


TWO = [Question(id="a", question="A?"), Question(id="b", question="B?")]


def pool_file(path: Path, source: str, ids: Sequence[str] = ("a", "b"), **more: Any) -> Path:
    def line(id_: str) -> dict[str, Any]:
        passages = [{"source": source, "key": f"{source}-{id_}", "text": f"{source} says {id_}."}]
        return {"id": id_, "question": f"{id_.upper()}?", "passages": passages, **more}

    return write(path, list(map(line, ids)))


def test_every_question_has_what_each_file_holds(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / f"{s}.jsonl", s, ids=("b", "a", "c")) for s in ("wiki", "gold")]
    merged = merged_pools(files, TWO)
    assert [record.id for record in merged] == ["a", "b"]
    assert [passage.key for passage in merged[0].passages] == ["wiki-a", "gold-a"]


def test_two_files_may_not_hold_a_source_for_the_same_question(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / f"{n}.jsonl", "wiki", ids=ids) for n, ids in enumerate([("a",), ("b", "a")])]
    with pytest.raises(UserError, match=r"1\.jsonl: both this file and .*0\.jsonl hold source 'wiki' for question 'a'"):
        merged_pools(files, TWO)


def test_ids_that_two_datasets_share_are_told_apart_by_their_texts(tmp_path: Path) -> None:
    questions = [Question(id="nq/7", question="A?"), Question(id="trivia/7", question="B?")]
    files = [
        pool_file(tmp_path / f"{source}.jsonl", source, ids=("7",), question=text)
        for source, text in (("one", "A?"), ("two", "B?"))
    ]
    assert {r.id: (r.question, [p.key for p in r.passages]) for r in merged_pools(files, questions)} == {
        "nq/7": ("A?", ["one-7"]),
        "trivia/7": ("B?", ["two-7"]),
    }


def test_a_source_that_is_needed_must_have_been_asked_for_every_question(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / "one.jsonl", "wiki"), pool_file(tmp_path / "two.jsonl", "gold", ids=("a",))]
    assert len(merged_pools(files, TWO, sources=["wiki"])) == 2
    with pytest.raises(UserError, match="nothing from source 'gold' for 1 question: 'b'"):
        merged_pools(files, TWO, sources=["wiki", "gold"])
