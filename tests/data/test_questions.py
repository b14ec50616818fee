import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.data import read_dataset


def read(tmp_path: Path, *items: Any, task: Any = None) -> Any:
    path = tmp_path / "data.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(item) + "\n" for item in items)
    return read_dataset(path, task=task)


def test_a_line_becomes_a_question(tmp_path: Path) -> None:
    item = {"id": 7, "question": "Who?", "golden_answers": ["Ada", "A. L."], "metadata": {"dataset": "x"}}
    (question,) = read(tmp_path, item)
    assert (question.id, question.task, question.answers) == ("7", "short_answer", ("Ada", "A. L."))
    assert question.metadata == {"dataset": "x"}


def test_choices_make_a_choice_and_indices_become_letters(tmp_path: Path) -> None:
    (question,) = read(tmp_path, {"id": "1", "question": "?", "choices": ["x", "y", "z"], "golden_answers": [2]})
    assert (question.task, question.answers) == ("choice", ("C",))


def test_the_given_task_is_for_lines_that_name_none(tmp_path: Path) -> None:
    claims = read(
        tmp_path, {"id": "1", "question": "?"}, {"id": "2", "question": "?", "task": "short_answer"}, task="claim"
    )
    assert [question.task for question in claims] == ["claim", "short_answer"]


def test_a_given_task_that_no_line_takes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"each question names its own task \(short_answer\), so claim would apply to none"
    ):
        read(tmp_path, {"id": "1", "question": "?", "task": "short_answer"}, task="claim")


def test_a_question_without_gold_is_read(tmp_path: Path) -> None:
    (question,) = read(tmp_path, {"id": "1", "question": "?"})
    assert question.answers == ()


def test_the_sample_is_whole() -> None:
    questions = read_dataset(asset("eval", "samples", "questions.jsonl"))
    passages = {json.loads(line)["id"]: json.loads(line) for line in open_lines("indexes", "sample", "passages.jsonl")}
    assert len(questions) >= 120
    assert len(passages) >= 400
    assert all(len(passage["text"].split()) <= 100 for passage in passages.values())
    for question in questions:
        gold = [passages[key] for key in question.metadata["gold_passages"]]
        if question.task == "short_answer" and question.answers[0].lower() not in ("yes", "no"):
            text = " ".join(f"{passage['title']} {passage['text']}" for passage in gold).lower()
            assert question.answers[0].lower() in text, question.id
    labels = [question.answers[0] for question in questions if question.task == "claim"]
    assert set(labels) == {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}
    assert {q.metadata["kind"] for q in questions} == {"single_hop", "bridge", "comparison", "claim", "choice"}


def open_lines(*parts: Any) -> Any:
    return asset(*parts).read_text(encoding="utf-8").splitlines()
