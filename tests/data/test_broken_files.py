"""What cannot be read is refused in one line: with its place, what was found and what was expected."""

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from madke._util.yaml_file import read_mapping
from madke.core.errors import UserError
from madke.data import read_dataset, rows
from madke.retrieval.pools import read_pools
from tests.data.published import BBH, FEVER, FILES, GSM, HOTPOT, SHAPES, TRIVIA, write

BROKEN: list[tuple[str, str, Any, str]] = [
    ("triviaqa", "d.json", [], "the file contains no question"),
    ("triviaqa", "d.json", {"Data": [TRIVIA["Data"][0] | {"Answer": "Baikal"}]}, "item 1: 'Answer' is 'Baikal'"),
    ("nq_open", "d.jsonl", {"question": "Which?", "answer": []}, "d.jsonl:1: 'answer' is []; expected a list of texts"),
    ("nq_open", "d.jsonl", '{"question": "Which?"\n', "d.jsonl:1: is not JSON"),
    ("hotpotqa", "d.json", [HOTPOT, HOTPOT], "item 2: id 'h1' was already used on item 1; ids must be unique"),
    ("hotpotqa", "d.json", [HOTPOT | {"context": [["Lake", "text"]]}], "the sentences of 'Lake' are str"),
    ("fever", "d.jsonl", [FEVER[0] | {"label": "SUPPORTED"}], "golden answer 'SUPPORTED' of a claim is not one of"),
    ("mmlu", "law_test.csv", '"Which\none?",a,b,c,d,A\nWhich?,a,b,c,d,E\n', "law_test.csv:3: the answer is 'E'"),
    ("mmlu_med", "law_test.csv", "Which?,a,b,c,d,A\n", "found subject 'law', expected one of anatomy, "),
    ("commonmt", "set.en", "a\n", "expected CommonMT's .csv, or the .zh of two line-aligned files"),
    (
        "bbh_logical_deduction",
        "d.json",
        {"examples": [{"input": "Lakes arranged in a fixed order.\nOptions:\n(A) x\n(C) y", "target": "(A)"}]},
        "expected lines (A) ..., (B) ... in order",
    ),
    ("gsm8k", "d.jsonl", GSM | {"answer": "It is 4."}, "d.jsonl:1: 'answer' does not end in #### and a number"),
]
COMPOSITIONAL = HOTPOT | {"type": "compositional", "evidences": [["Baikal", "depth", "1642"]]}
OF_ANOTHER_DATASET: list[tuple[str, str, Any, str]] = [
    ("nq_open", "d.jsonl", GSM, "d.jsonl:1: 'answer' is '2+2=<<2+2=4>>4\\n#### 4,000'; expected a list"),
    ("hotpotqa", "d.json", [COMPOSITIONAL], "'type' is 'compositional'; expected bridge, comparison"),
    ("2wikimultihopqa", "d.json", [HOTPOT | {"type": "bridge"}], "'type' is 'bridge'; expected compo"),
    ("gsm8k", "d.jsonl", FILES["nq_open"][1], "'answer' is ['Baikal', 'Lake Baikal']; expected a text"),
    ("bbh_logical_deduction", "d.json", SHAPES, "that contains 'arranged in a fixed order'"),
    ("bbh_geometric_shapes", "d.json", BBH, "that contains 'SVG path element'"),
]


@pytest.mark.parametrize(("dataset", "name", "content", "said"), BROKEN + OF_ANOTHER_DATASET)
def test_an_entry_that_is_none_of_the_dataset(tmp_path: Path, dataset: str, name: str, content: Any, said: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as caught:
        read_dataset(path, dataset=dataset)
    assert said in str(caught.value)
    assert str(path.with_suffix("")) in str(caught.value)


@pytest.mark.parametrize("dataset", ["triviaqa", "fever", "mmlu", "commonmt", "math500", "bbh_geometric_shapes"])
def test_a_published_file_taken_for_ours_is_refused(tmp_path: Path, dataset: str) -> None:
    name, content = FILES[dataset]
    with pytest.raises(UserError, match=r"a published file needs --dataset NAME$"):
        read_dataset(write(tmp_path / name, content))


def test_an_unknown_task_of_a_published_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown task 'chioce'; did you mean 'choice'"):
        read_dataset(tmp_path, dataset="hotpotqa", task="chioce")


@pytest.mark.parametrize("dataset", ["triviaqa", "nq_open", "mmlu"])
def test_no_file_no_text_no_document(tmp_path: Path, dataset: str) -> None:
    path = tmp_path / FILES[dataset][0]
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_dataset(path, dataset=dataset)
    path.write_bytes(b"\xff\xfe\x00[")
    with pytest.raises(UserError, match=r"is not (UTF-8 text|JSON)"):
        read_dataset(path, dataset=dataset)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(UserError):
        read_dataset(path, dataset=dataset)


@pytest.mark.parametrize("read", [read_dataset, read_pools, read_mapping])
def test_what_never_begins_or_never_ends_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    pipe, listening = tmp_path / "pipe", tmp_path / "socket"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(listening))
        for path, kind in ((pipe, "a pipe"), (listening, "a socket"), (Path("/dev/zero"), "a device")):
            with pytest.raises(UserError, match=f"is {kind}; expected a regular file"):
                read(path)


def test_a_document_that_unpacks_to_more_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_MAX_DOCUMENT", 1 << 20)
    path = tmp_path / "q.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (2 << 20) + b"]"))
    with pytest.raises(UserError, match=r"is longer than .* GiB; convert it to JSON Lines"):
        read_dataset(path)
