"""Published files, each as its owner ships it, become questions."""

from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.data import read_dataset
from madke.data.dataset import card, read_published
from madke.data.formats import FORMATS
from tests.data.published import FILES, KILT, MMLU, write


def entries(tmp_path: Path, dataset: Any, content: Any = None, name: Any = None) -> Any:
    usual, sample = FILES[dataset]
    return read_published(write(tmp_path / (name or usual), sample if content is None else content), dataset)


def only(tmp_path: Path, dataset: Any, content: Any = None, name: Any = None) -> Any:
    (entry,) = entries(tmp_path, dataset, content, name)
    return entry.question


@pytest.mark.parametrize("dataset", FORMATS)
def test_questions_name_their_dataset_and_its_task(tmp_path: Path, dataset: Any) -> None:
    for entry in entries(tmp_path, dataset):
        assert entry.question.metadata["dataset"] == dataset
        assert entry.question.task == FORMATS[dataset].task


def test_triviaqa(tmp_path: Path) -> None:
    question = only(tmp_path, "triviaqa")
    assert (question.id, question.answers) == ("t1", ("Baikal", "Lake Baikal", "Baykal"))
    hidden = {"Data": [{"QuestionId": "t2", "Question": "Which?"}]}
    assert only(tmp_path, "triviaqa", hidden).answers == ()
    plain = {"id": "p", "question": "Which?", "answers": ["Baikal"]}
    assert only(tmp_path, "triviaqa", plain, "dev.jsonl").answers == ("Baikal",)
    kilt = only(tmp_path, "triviaqa", KILT, "kilt.jsonl")
    assert (kilt.id, kilt.question) == ("k1", "Which is the deepest lake?")
    assert kilt.answers == ("Baikal", "Lake Baikal")
    assert kilt.metadata["gold_titles"] == ["Lake Baikal", "Lake"]


def test_nq_open_is_numbered(tmp_path: Path) -> None:
    assert only(tmp_path, "nq_open").id == "nq_open-0001"
    many = [{"question": f"question {n}", "answer": ["a"]} for n in range(12)]
    assert [entry.question.id for entry in entries(tmp_path, "nq_open", many)][-1] == "nq_open-0012"


@pytest.mark.parametrize("dataset", ["hotpotqa", "2wikimultihopqa"])
def test_multihop(tmp_path: Path, dataset: str) -> None:
    (entry,) = entries(tmp_path, dataset)
    question = entry.question
    assert (question.id, question.answers) == ("h1", ("Baikal",))
    assert question.metadata == {
        "dataset": dataset,
        "type": "comparison",
        "level": "hard",
        "gold_titles": ["Lake Ohrid", "Lake Baikal"],
    }
    assert [(p.key, p.title, p.rank) for p in entry.passages if p.source == "context"] == [
        ("h1/0", "Lake Como", 0),
        ("h1/1", "Lake Baikal", 1),
        ("h1/2", "Lake Ohrid", 2),
    ]
    assert [(p.source, p.key, p.rank) for p in entry.passages[:2]] == [("gold", "h1/1", 0), ("gold", "h1/2", 1)]
    assert entry.passages[0].text == "It is in Siberia. It is 1,642 metres deep."


def test_fever_titles_are_those_of_pages(tmp_path: Path) -> None:
    refuted, unknown = (entry.question for entry in entries(tmp_path, "fever"))
    assert (refuted.id, refuted.answers) == ("7", ("REFUTES",))
    assert refuted.metadata["gold_titles"] == ["Ohrid (lake)", "Caf\u00e9: A [x]"]
    assert "gold_titles" not in unknown.metadata
    assert only(tmp_path, "fever", {"id": 9, "claim": "Ohrid is old."}).answers == ()


def test_mmlu_of_a_file_and_of_a_folder(tmp_path: Path) -> None:
    first, second = (entry.question for entry in entries(tmp_path / "test", "mmlu"))
    assert (first.id, second.id) == ("geography-000", "geography-001")
    assert first.question == 'Which lake, the "deepest"\nof all, is it?'
    assert (first.choices, first.answers) == (("Como", "Baikal", "Ohrid", "Garda"), ("B",))
    assert first.metadata["subject"] == "geography"
    write(tmp_path / "test" / "anatomy_test.csv", MMLU)
    ids = [question.id for question in read_dataset(tmp_path / "test", dataset="mmlu")]
    assert ids == ["anatomy-000", "anatomy-001", "geography-000", "geography-001"]


def test_commonmt_of_a_table_and_of_two_files(tmp_path: Path) -> None:
    table = only(tmp_path, "commonmt")
    assert (table.question, table.answers) == ("吃掉。", ("Destroy, all.",))
    write(tmp_path / "set.en", "Destroy, all.\r\n")
    lines = only(tmp_path, "commonmt", "吃掉。\r\n", "set.zh")
    assert (lines.id, lines.question, lines.answers) == ("commonmt-0001", table.question, table.answers)


def test_ciar_keeps_its_traps(tmp_path: Path) -> None:
    question = only(tmp_path, "ciar")
    assert (question.answers, question.metadata["wrong_answers"]) == (("1.5", "3/2"), ["2"])


def test_mathematics(tmp_path: Path) -> None:
    algebra = only(tmp_path, "math500")
    assert (algebra.id, algebra.answers) == ("test/algebra/1.json", ("2",))
    assert (algebra.metadata["subject"], algebra.metadata["level"]) == ("Algebra", "1")
    assert only(tmp_path, "gsm8k").answers == ("4,000",)


def test_bbh_options_become_choices(tmp_path: Path) -> None:
    question = only(tmp_path, "bbh_logical_deduction")
    assert question.question == "Lakes arranged in a fixed order. Which is first?"
    assert (question.choices, question.answers) == (("Como", "Ohrid", "Lake Garda"), ("C",))


def test_ramdocs_keys_do_not_tell_what_a_document_is(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, "ramdocs")
    assert entry.question.answers == ("288", "288 metres")
    assert entry.question.metadata == {
        "dataset": "ramdocs",
        "wrong_answers": ["5", "7"],
        "gold_passages": ["ramdocs-0001/1"],
        "misinformation_passages": ["ramdocs-0001/0"],
    }
    assert [p.key for p in entry.passages[1:]] == ["ramdocs-0001/0", "ramdocs-0001/1", "ramdocs-0001/2"]
    assert (entry.passages[0].source, entry.passages[0].text) == ("gold", "It is 288 metres deep.")


def test_each_dataset_has_a_card_and_each_card_a_dataset() -> None:
    assert {path.stem for path in asset("eval", "datasets").glob("*.yaml")} == set(FORMATS)
    needed = {"title", "about", "paper", "owner", "licence", "get", "files", "splits", "scored", "faults"}
    for name in FORMATS:
        found = card(name)
        assert needed <= found.keys() <= needed | {"papers", "knowledge", "hugging_face"}
        assert all(found[key] for key in needed)
        assert all(type(size) is int and size > 0 for size in found["splits"].values())
