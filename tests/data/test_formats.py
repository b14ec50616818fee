"""Published files, each as its owner ships it, become questions."""

from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.dataset import DatasetEntry, card, read_published
from madke.data.formats import FORMATS
from tests.data.published import FILES, KILT, MMLU, write


def entries(tmp_path: Path, dataset: str, content: Any = None, name: str | None = None) -> list[DatasetEntry]:
    usual, sample = FILES[dataset]
    return read_published(write(tmp_path / (name or usual), sample if content is None else content), dataset)


def only(tmp_path: Path, dataset: str, content: Any = None, name: str | None = None) -> Question:
    (entry,) = entries(tmp_path, dataset, content, name)
    return entry.question


LAKES = ["Lake Ohrid", "Lake Baikal"]
FIRST: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "triviaqa": ("t1", ("Baikal", "Lake Baikal", "Baykal"), {}),
    "nq_open": ("nq_open-0001", ("Baikal", "Lake Baikal"), {}),
    "hotpotqa": ("h1", ("Baikal",), {"type": "comparison", "level": "hard", "gold_titles": LAKES}),
    "2wikimultihopqa": ("h1", ("Baikal",), {"type": "comparison", "level": "hard", "gold_titles": LAKES}),
    "fever": ("7", ("REFUTES",), {"gold_titles": ["Ohrid (lake)", "Caf\u00e9: A [x]"]}),
    "mmlu": ("geography-000", ("B",), {"subject": "geography"}),
    "mmlu_med": ("anatomy-000", ("B",), {"subject": "anatomy"}),
    "commonmt": ("commonmt-0001", ("Destroy, all.",), {}),
    "ciar": ("ciar-0001", ("1.5", "3/2"), {"wrong_answers": ["2"]}),
    "math500": ("test/algebra/1.json", ("2",), {"subject": "Algebra", "level": "1"}),
    "bbh_logical_deduction": ("bbh_logical_deduction-0001", ("C",), {}),
    "bbh_geometric_shapes": ("bbh_geometric_shapes-0001", ("B",), {}),
    "gsm8k": ("gsm8k-0001", ("4,000",), {}),
    "ramdocs": (
        "ramdocs-0001",
        ("288", "288 metres"),
        {
            "wrong_answers": ["5", "7"],
            "gold_passages": ["ramdocs-0001/1"],
            "misinformation_passages": ["ramdocs-0001/0"],
        },
    ),
}


@pytest.mark.parametrize("dataset", FORMATS)
def test_an_entry_becomes_a_question_of_its_dataset_and_task(tmp_path: Path, dataset: str) -> None:
    id_, answers, metadata = FIRST[dataset]
    question = entries(tmp_path, dataset)[0].question
    assert (question.id, question.answers, question.task) == (id_, answers, FORMATS[dataset].task)
    assert question.metadata == {"dataset": dataset, **metadata}


def test_triviaqa_without_labels_plain_and_of_kilt(tmp_path: Path) -> None:
    hidden = {"Data": [{"QuestionId": "t2", "Question": "Which?"}]}
    assert only(tmp_path, "triviaqa", hidden).answers == ()
    plain = {"id": "p", "question": "Which?", "answers": ["Baikal"]}
    assert only(tmp_path, "triviaqa", plain, "dev.jsonl").answers == ("Baikal",)
    kilt = only(tmp_path, "triviaqa", KILT, "kilt.jsonl")
    assert (kilt.id, kilt.question) == ("k1", "Which is the deepest lake?")
    assert kilt.answers == ("Baikal", "Lake Baikal")
    assert kilt.metadata["gold_titles"] == ["Lake Baikal", "Lake"]


def test_entries_without_ids_are_numbered(tmp_path: Path) -> None:
    many = [{"question": f"question {n}", "answer": ["a"]} for n in range(12)]
    assert entries(tmp_path, "nq_open", many)[-1].question.id == "nq_open-0012"


@pytest.mark.parametrize("dataset", ["hotpotqa", "2wikimultihopqa"])
def test_paragraphs_become_passages_of_context_and_with_evidence_of_gold(tmp_path: Path, dataset: str) -> None:
    (entry,) = entries(tmp_path, dataset)
    assert [(p.source, p.key, p.title, p.rank) for p in entry.passages] == [
        ("gold", "h1/1", "Lake Baikal", 0),
        ("gold", "h1/2", "Lake Ohrid", 1),
        ("context", "h1/0", "Lake Como", 0),
        ("context", "h1/1", "Lake Baikal", 1),
        ("context", "h1/2", "Lake Ohrid", 2),
    ]
    assert entry.passages[0].text == "It is in Siberia. It is 1,642 metres deep."


def test_fever_without_evidence_and_without_labels(tmp_path: Path) -> None:
    assert "gold_titles" not in entries(tmp_path, "fever")[1].question.metadata
    assert only(tmp_path, "fever", {"id": 9, "claim": "Ohrid is old."}).answers == ()


def test_mmlu_of_a_file_and_of_a_folder(tmp_path: Path) -> None:
    first, second = (entry.question for entry in entries(tmp_path / "test", "mmlu"))
    assert (first.id, second.id) == ("geography-000", "geography-001")
    assert first.question == 'Which lake, the "deepest"\nof all, is it?'
    assert first.choices == ("Como", "Baikal", "Ohrid", "Garda")
    write(tmp_path / "test" / "anatomy_test.csv", MMLU)
    ids = [question.id for question in read_dataset(tmp_path / "test", dataset="mmlu")]
    assert ids == ["anatomy-000", "anatomy-001", "geography-000", "geography-001"]


def test_commonmt_of_a_table_and_of_two_files(tmp_path: Path) -> None:
    table = only(tmp_path, "commonmt")
    assert (table.question, table.answers) == ("吃掉。", ("Destroy, all.",))
    write(tmp_path / "set.en", "Destroy, all.\r\n")
    lines = only(tmp_path, "commonmt", "吃掉。\r\n", "set.zh")
    assert (lines.id, lines.question, lines.answers) == ("commonmt-0001", table.question, table.answers)


def test_bbh_options_become_choices(tmp_path: Path) -> None:
    question = only(tmp_path, "bbh_logical_deduction")
    assert question.question == "Lakes arranged in a fixed order. Which is first?"
    assert question.choices == ("Como", "Ohrid", "Lake Garda")


def test_ramdocs_keys_do_not_tell_what_a_document_is(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, "ramdocs")
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
