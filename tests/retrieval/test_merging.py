"""Several pool files as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.retrieval.pools.pool_file import merged_pools, read_pools, write_pools

QUESTIONS = [Question(id="a", question="A?"), Question(id="b", question="B?")]


def pool_file(path: Any, source: Any, ids: Any = ("a", "b"), **more: Any) -> Any:
    lines = [
        {
            "id": id_,
            "question": f"{id_.upper()}?",
            "passages": [{"source": source, "key": f"{source}-{id_}", "title": "T", "text": f"{source} says {id_}."}],
            **more,
        }
        for id_ in ids
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def merge_pools(files: list[Path], questions: list[Question], out: Path, **sources: Any) -> None:
    write_pools(out, merged_pools(files, questions, **sources))


def test_every_question_has_what_each_file_holds(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / f"{s}.jsonl", s, ids=("b", "a", "c")) for s in ("wiki", "gold")]
    merge_pools(files, QUESTIONS, tmp_path / "out.jsonl")
    merged = read_pools(tmp_path / "out.jsonl")
    assert list(merged) == ["a", "b"]
    assert [passage.key for passage in merged["a"].passages] == ["wiki-a", "gold-a"]


def test_two_files_may_not_hold_a_source_for_the_same_question(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / f"{n}.jsonl", "wiki", ids=ids) for n, ids in enumerate([("a",), ("b", "a")])]
    with pytest.raises(UserError, match=r"1\.jsonl: both this file and .*0\.jsonl hold source 'wiki' for question 'a'"):
        merge_pools(files, QUESTIONS, tmp_path / "out.jsonl")
    with pytest.raises(UserError, match="leave one file out"):
        merge_pools([files[1], files[1]], QUESTIONS, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_ids_that_two_datasets_share_are_told_apart_by_their_texts(tmp_path: Path) -> None:
    questions = [Question(id="nq/7", question="A?"), Question(id="trivia/7", question="B?")]
    files = [
        pool_file(tmp_path / f"{source}.jsonl", source, ids=("7",), question=text)
        for source, text in (("one", "A?"), ("two", "B?"))
    ]
    merge_pools(files, questions, tmp_path / "out.jsonl")
    merged = read_pools(tmp_path / "out.jsonl")
    assert {id_: (r.question, [p.key for p in r.passages]) for id_, r in merged.items()} == {
        "nq/7": ("A?", ["one-7"]),
        "trivia/7": ("B?", ["two-7"]),
    }


def test_a_source_that_is_needed_must_have_been_asked_for_every_question(tmp_path: Path) -> None:
    files = [pool_file(tmp_path / "one.jsonl", "wiki"), pool_file(tmp_path / "two.jsonl", "gold", ids=("a",))]
    merge_pools(files, QUESTIONS, tmp_path / "out.jsonl", sources=["wiki"])
    with pytest.raises(UserError, match="nothing from source 'gold' for 1 question: 'b'"):
        merge_pools(files, QUESTIONS, tmp_path / "out.jsonl", sources=["wiki", "gold"])
