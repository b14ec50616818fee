"""Rows of Hugging Face repositories, from folders with the layout of a copy of one."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.data.dataset import card, cards, read_hugging_face, read_published
from madke.data.formats import FORMATS
from tests.data.published import BBH, FILES, GSM, HOTPOT, MATH, RAMDOCS, SHAPES, write

CONTEXT = {
    "title": [title for title, _ in HOTPOT["context"]],
    "sentences": [sentences for _, sentences in HOTPOT["context"]],
}
FACTS = {
    "title": [title for title, _ in HOTPOT["supporting_facts"]],
    "sent_id": [number for _, number in HOTPOT["supporting_facts"]],
}
COLUMNS = {"id": "h1", "supporting_facts": FACTS, "context": CONTEXT}
MULTIHOP = {key: value for key, value in HOTPOT.items() if key != "_id"} | COLUMNS
QUESTION = 'Which lake, the "deepest"\nof all, is it?'
MMLU = [
    {"question": QUESTION, "choices": ["Como", "Baikal", "Ohrid", "Garda"], "answer": 1},
    {"question": "Which is in Italy?", "choices": ["Como", "Baikal", "Ohrid", "Titicaca"], "answer": 0},
]
ROWS = {
    "triviaqa": [
        {
            "question": "Which is the deepest lake?",
            "question_id": "t1",
            "answer": {"aliases": ["Baikal", "Lake Baikal", "Baykal"], "type": "WikipediaEntity", "value": "Baikal"},
        }
    ],
    "nq_open": [FILES["nq_open"][1]],
    "hotpotqa": [MULTIHOP],
    "2wikimultihopqa": [MULTIHOP],
    "mmlu": [row | {"subject": "geography"} for row in MMLU],
    "mmlu_med": [row | {"subject": "anatomy"} for row in MMLU],
    "math500": [MATH],
    "bbh_logical_deduction": BBH["examples"],
    "bbh_geometric_shapes": SHAPES["examples"],
    "gsm8k": [GSM],
    "ramdocs": [RAMDOCS],
}


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded, and what is prepared stays in the test's folder."""
    config = pytest.importorskip("datasets").config
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(pytest.importorskip("huggingface_hub").constants, "HF_HUB_OFFLINE", True)


def copy_of_repository(folder: Any, dataset: Any, rows: Any) -> Any:
    """A folder as one gets by cloning: a file a config and split, and a README that lists them."""
    import pyarrow
    from pyarrow import parquet

    where = card(dataset).hugging_face
    listed = []
    for config in where.configs:
        name = config or "default"
        subjects = [row for row in rows if row.get("subject", config) == config or len(where.configs) == 1]
        path = folder / name / f"{where.split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(subjects or rows), path)
        files = [{"split": where.split, "path": f"{name}/{where.split}-*"}]
        listed.append({"config_name": name, "data_files": files})
    write(folder / "README.md", f"---\n{json.dumps({'configs': listed})}\n---\n")
    return folder


@pytest.mark.parametrize("dataset", [name for name in ROWS if name != "mmlu_med"])
def test_rows_give_what_files_give(tmp_path: Path, dataset: Any) -> None:
    copy = copy_of_repository(tmp_path / "copy", dataset, ROWS[dataset])
    name, content = FILES[dataset]
    assert read_hugging_face(dataset, copy=copy) == read_published(write(tmp_path / name, content), dataset)


def test_hidden_answers_are_none(tmp_path: Path) -> None:
    rows = [{"question": "Which?", "question_id": "t", "answer": {"value": "<unk>", "aliases": ["<unk>"]}}]
    (entry,) = read_hugging_face("triviaqa", copy=copy_of_repository(tmp_path / "copy", "triviaqa", rows))
    assert entry.question.answers == ()


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    copy = copy_of_repository(tmp_path / "copy", "gsm8k", [GSM, GSM | {"answer": "4"}])
    with pytest.raises(UserError, match=r"copy main test: item 2: 'answer' does not end in ####"):
        read_hugging_face("gsm8k", copy=copy)


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"openai/gsm8k main test: cannot be loaded from Hugging Face: "):
        read_hugging_face("gsm8k")
    copy = copy_of_repository(tmp_path / "copy", "gsm8k", [GSM])
    with pytest.raises(UserError, match=r"copy main dev: cannot be loaded from Hugging Face: .*dev"):
        read_hugging_face("gsm8k", split="dev", copy=copy)
    with pytest.raises(UserError, match="no such folder"):
        read_hugging_face("gsm8k", copy=tmp_path / "nowhere")
    with pytest.raises(UserError, match="the card of fever names no Hugging Face repository"):
        read_hugging_face("fever")


def test_each_dataset_has_a_card_and_each_card_a_dataset() -> None:
    assert {path.stem for path in asset("eval", "datasets").glob("*.yaml")} == set(FORMATS)
    assert list(cards()) == list(FORMATS)
