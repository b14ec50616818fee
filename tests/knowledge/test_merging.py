"""Several pool files as one."""

import json

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.knowledge.merging import merge_pools
from madke.knowledge.pools import read_pools

QUESTIONS = [Question(id="a", question="A?"), Question(id="b", question="B?")]


def pool_file(path, source, ids=("a", "b"), **more):
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


def test_every_question_has_what_each_file_holds(tmp_path):
    files = [pool_file(tmp_path / f"{s}.jsonl", s, ids=("b", "a", "c")) for s in ("wiki", "gold")]
    merge_pools(files, QUESTIONS, tmp_path / "out.jsonl")
    merged = read_pools(tmp_path / "out.jsonl")
    assert list(merged) == ["a", "b"]
    assert [passage.key for passage in merged["a"].passages] == ["wiki-a", "gold-a"]


def test_what_failed_stays_known(tmp_path):
    one = pool_file(tmp_path / "one.jsonl", "wiki", partial={"google": "no answer"})
    two = pool_file(tmp_path / "two.jsonl", "gold")
    merge_pools([one, two], QUESTIONS, tmp_path / "out.jsonl")
    assert read_pools(tmp_path / "out.jsonl")["a"].partial == {"google": "no answer"}


def test_a_source_stands_in_one_file_only(tmp_path):
    files = [pool_file(tmp_path / f"{n}.jsonl", "wiki") for n in range(2)]
    with pytest.raises(UserError, match=r"1\.jsonl: holds source 'wiki', and so does .*0\.jsonl"):
        merge_pools(files, QUESTIONS, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_question_that_a_file_lacks_is_named(tmp_path):
    files = [pool_file(tmp_path / "one.jsonl", "wiki"), pool_file(tmp_path / "two.jsonl", "gold", ids=("a",))]
    with pytest.raises(UserError, match="has no pool for question 'b'"):
        merge_pools(files, QUESTIONS, tmp_path / "out.jsonl")
