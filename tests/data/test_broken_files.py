"""What is wrong with a published file is said with its place, what was found and what was expected."""

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.data import read_dataset
from tests.data.published import BBH, FEVER, FILES, GSM, HOTPOT, RAMDOCS, SHAPES, TRIVIA, write

BROKEN: list[tuple[str, str, Any, str]] = [
    ("triviaqa", "d.json", [], "the file contains no question"),
    ("triviaqa", "d.json", {"Data": [TRIVIA["Data"][0] | {"Answer": "Baikal"}]}, "item 1: 'Answer' is 'Baikal'"),
    ("nq_open", "d.jsonl", {"question": "Which?", "answer": []}, "d.jsonl:1: 'answer' is []; expected a list of texts"),
    (
        "nq_open",
        "d.jsonl",
        [{"question": "Which?", "answer": ["a"]}, {"answer": ["a"]}],
        "d.jsonl:2: 'question' is missing",
    ),
    ("nq_open", "d.jsonl", '{"question": "Which?"\n', "d.jsonl:1: is not JSON"),
    ("nq_open", "d.json", r'[{"question": "\ud800", "answer": ["a"]}]', "half of a surrogate pair"),
    ("hotpotqa", "d.json", [HOTPOT, HOTPOT], "item 2: id 'h1' was already used on item 1; ids must be unique"),
    ("hotpotqa", "d.json", [HOTPOT | {"context": [["Lake", "text"]]}], "the sentences of 'Lake' are str"),
    ("fever", "d.jsonl", [FEVER[0] | {"label": "SUPPORTED"}], "golden answer 'SUPPORTED' of a claim is not one of"),
    ("mmlu", "law_test.csv", "Which?,a,b,c,d,A\nWhich?,a,b,c,B\n", "law_test.csv:2: expected 6 cells"),
    ("mmlu", "law_test.csv", '"Which\none?",a,b,c,d,A\nWhich?,a,b,c,d,E\n', "law_test.csv:3: the answer is 'E'"),
    ("mmlu_med", "law_test.csv", "Which?,a,b,c,d,A\n", "found subject 'law', expected one of anatomy, "),
    ("commonmt", "set.csv", "zh,en,wrong\na,b,c\n", "set.csv:2: 'chinese_source' is missing"),
    ("commonmt", "set.en", "a\n", "expected CommonMT's .csv, or the .zh of two line-aligned files"),
    ("ciar", "d.json", [{"question": "How?", "answer": ["1"]}], "item 1: 'incorrect answer' is missing"),
    (
        "math500",
        "d.jsonl",
        {"problem": "?"},
        "d.jsonl:1: 'unique_id' is missing; expected a text; found the keys 'problem'",
    ),
    (
        "bbh_geometric_shapes",
        "d.json",
        {"examples": [{"input": "Which?", "target": "(A)"}]},
        "expected a question that contains",
    ),
    (
        "bbh_logical_deduction",
        "d.json",
        {"examples": [{"input": "Lakes arranged in a fixed order.\nOptions:\n(A) x\n(C) y", "target": "(A)"}]},
        "expected lines (A) ..., (B) ... in order",
    ),
    ("gsm8k", "d.jsonl", GSM | {"answer": "It is 4."}, "d.jsonl:1: 'answer' does not end in #### and a number"),
    ("ramdocs", "d.jsonl", RAMDOCS | {"gold_answers": []}, "d.jsonl:1: 'gold_answers' is []"),
]


@pytest.mark.parametrize(("dataset", "name", "content", "said"), BROKEN)
def test_a_broken_entry(tmp_path: Path, dataset: Any, name: Any, content: Any, said: Any) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as caught:
        read_dataset(path, dataset=dataset)
    assert said in str(caught.value)
    assert str(path.with_suffix("")) in str(caught.value)


@pytest.mark.parametrize("dataset", ["triviaqa", "fever", "mmlu", "commonmt", "math500", "bbh_geometric_shapes"])
def test_a_published_file_taken_for_ours_is_refused(tmp_path: Path, dataset: Any) -> None:
    name, content = FILES[dataset]
    with pytest.raises(UserError, match=r"a published file needs --dataset NAME$"):
        read_dataset(write(tmp_path / name, content))


@pytest.mark.parametrize("dataset", FILES)
def test_no_file_no_text_no_document(tmp_path: Path, dataset: Any) -> None:
    path = tmp_path / FILES[dataset][0]
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_dataset(path, dataset=dataset)
    path.write_bytes(b"\xff\xfe\x00[")
    with pytest.raises(UserError, match=r"is not (UTF-8 text|JSON)"):
        read_dataset(path, dataset=dataset)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(UserError):
        read_dataset(path, dataset=dataset)


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown dataset 'hotpot_qa'; did you mean 'hotpotqa'"):
        read_dataset(tmp_path, dataset="hotpot_qa")
    with pytest.raises(UserError, match="unknown task"):
        read_dataset(tmp_path, dataset="hotpotqa", task="chioce")


def test_a_worked_solution_is_no_gold(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a worked solution; read GSM8K with --dataset gsm8k"):
        read_dataset(write(tmp_path / "d.jsonl", GSM))


WIKI = HOTPOT | {"type": "compositional", "evidences": [["Baikal", "depth", "1642"]]}
WRONG_DATASET = [
    ("nq_open", "d.jsonl", GSM, "d.jsonl:1: 'answer' is '2+2=<<2+2=4>>4\\n#### 4,000'; expected a list"),
    ("nq_open", "d.json", [HOTPOT], "d.json: item 1: 'answer' is 'Baikal'; expected a list"),
    ("hotpotqa", "d.jsonl", GSM, "'answer' contains '####' like the worked solutions of GSM8K"),
    ("hotpotqa", "d.json", [WIKI], "'type' is 'compositional'; expected bridge, comparison"),
    ("2wikimultihopqa", "d.json", [HOTPOT | {"type": "bridge"}], "'type' is 'bridge'; expected compo"),
    ("gsm8k", "d.jsonl", FILES["nq_open"][1], "'answer' is ['Baikal', 'Lake Baikal']; expected a text"),
    ("triviaqa", "d.json", {"Data": [HOTPOT]}, "'QuestionId' is missing"),
    ("bbh_logical_deduction", "d.json", SHAPES, "that contains 'arranged in a fixed order'"),
    ("bbh_geometric_shapes", "d.json", BBH, "that contains 'SVG path element'"),
]


@pytest.mark.parametrize(("dataset", "name", "content", "said"), WRONG_DATASET)
def test_a_file_of_another_dataset_is_refused(tmp_path: Path, dataset: Any, name: Any, content: Any, said: Any) -> None:
    with pytest.raises(UserError) as caught:
        read_dataset(write(tmp_path / name, content), dataset=dataset)
    assert said in str(caught.value)
