"""Question files of users: every usual form with obvious columns is read, and what was understood is said."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.data import read_dataset
from madke.data.questions import own_rows, questions_in
from madke.scoring.metrics import METRICS

RIVER, LAKE = "Which river leaves Lake Baikal?", "Which lake is deeper?"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pairs(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    return [(question.question, question.answers) for question in read_dataset(path)]


EXPECTED = [(RIVER, ("Angara", "Angara River")), (LAKE, ("Baikal",))]
ROWS = [{"Query": RIVER, "Answers": ["Angara", "Angara River"]}, {"Query": LAKE, "Answers": ["Baikal"]}]
FORMS = {
    "q.csv": f'Query,Answers\n{RIVER},"[""Angara"", ""Angara River""]"\n{LAKE},Baikal\n',
    "semicolons.csv": f"Query;Answers\n{RIVER};['Angara', 'Angara River']\n{LAKE};Baikal\n",
    "q.tsv": f"Query\tAnswers\n{RIVER}\t['Angara', 'Angara River']\n{LAKE}\tBaikal\n",
    "bom.csv": f"\ufeffQuery,Answers\r\n{RIVER},\"['Angara', 'Angara River']\"\r\n,\r\n\r\n{LAKE},Baikal\r\n",
    "q.json": json.dumps(ROWS, indent=2),
    "q.jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS),
    "bom.jsonl": "\ufeff" + "".join(json.dumps(row) + "\r\n" for row in ROWS),
    "lines.json": "".join(json.dumps(row) + "\n" for row in ROWS),
    "topics.txt": f"{RIVER}\t['Angara', 'Angara River']\n{LAKE}\t[\"Baikal\"]\n",
    "topics.csv": f'{RIVER}\t"[\'Angara\', ""Angara River""]"\n{LAKE}\t[\'Baikal\']\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read(tmp_path: Path, name: str) -> None:
    assert pairs(write(tmp_path / name, FORMS[name])) == EXPECTED


@pytest.mark.parametrize("name", ["q.csv", "q.json", "q.jsonl", "topics.txt"])
def test_every_form_may_be_gzipped(tmp_path: Path, name: str) -> None:
    assert pairs(write(tmp_path / f"{name}.gz", gzip.compress(FORMS[name].encode()))) == EXPECTED


def test_parquet_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "q.parquet")
    assert pairs(tmp_path / "q.parquet") == EXPECTED
    write(tmp_path / "broken.parquet", (tmp_path / "q.parquet").read_bytes()[:-9])
    with pytest.raises(UserError, match=r"broken\.parquet: cannot be read as Parquet: "):
        read_dataset(tmp_path / "broken.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"q\.parquet: Parquet files need pyarrow: pip install"):
        read_dataset(write(tmp_path / "q.parquet", b"PAR1"))


def understood(path: Path, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        questions_in(own_rows(path), path)
    return caplog.text.split(f"{path}: ")[1].strip() if caplog.text else ""


def test_what_was_understood_is_said_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "q.csv", "Query,golden_answers,Level\nWhich?,a,easy\nWho?,b,hard\nWho?,c,hard\n")
    assert understood(path, caplog) == (
        "3 questions; question from `Query`, answers from `golden_answers`, ids made from the text, "
        "1 with the text of an earlier question, not used: `Level`"
    )
    path = write(tmp_path / "q.jsonl", '{"qid": 7, "question": "Who?"}\n{"qid": 8, "prompt": "Which?", "answer": 4}\n')
    assert understood(path, caplog) == (
        "2 questions; question from `question`, `prompt`, answers from `answer`, ids from `qid`"
    )
    topics = write(tmp_path / "topics.tsv", FORMS["topics.txt"])
    assert understood(topics, caplog).startswith("2 questions; question from `column 1`, answers from `column 2`, ids")


def test_nothing_is_said_of_our_own_form(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    item = {"id": "1", "question": "Who?", "golden_answers": ["a"], "task": "short_answer", "metadata": {"level": 1}}
    assert understood(write(tmp_path / "q.jsonl", json.dumps(item)), caplog) == ""


def test_made_ids_depend_on_the_text_only(tmp_path: Path) -> None:
    first = read_dataset(write(tmp_path / "a.csv", "question,answer\nWho?,a\nWhich?,b\n"))
    second = read_dataset(write(tmp_path / "b.jsonl", '{"query": "Which?"}\n{"query": "Who?"}\n{"query": "Who?"}'))
    assert {question.question: question.id for question in first} == {
        question.question: question.id for question in second[:2]
    }
    assert second[2].id == f"{second[1].id}-2"


def test_choices_in_a_table(tmp_path: Path) -> None:
    (question,) = read_dataset(write(tmp_path / "q.csv", "question,choices,answer\nWhich?,\"['x', 'y']\",B\n"))
    assert (question.task, question.choices, question.answers) == ("choice", ("x", "y"), ("B",))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.csv", "question,answer\nA?,True\nB?,False\n"),
        ("q.jsonl", '{"question": "A?", "answer": true}\n{"question": "B?", "answer": false}\n'),
        ("q.json", '[{"question": "A?", "answers": [true]}, {"question": "B?", "answers": [false]}]'),
    ],
)
def test_a_gold_true_is_met_by_yes(tmp_path: Path, name: str, content: str) -> None:
    right, wrong = read_dataset(write(tmp_path / name, content))
    for metric in ("em", "f1", "match"):
        assert [METRICS[metric](answer, right) for answer in ("Yes", "No")] == [1, 0]
        assert [METRICS[metric](answer, wrong) for answer in ("yes.", "no.")] == [0, 1]


def test_an_interval_is_one_answer(tmp_path: Path) -> None:
    assert pairs(write(tmp_path / "q.csv", 'question,answer\nWhere?,"[1, 2]"\nWhen?,[sic]\n')) == [
        ("Where?", ("[1, 2]",)),
        ("When?", ("[sic]",)),
    ]


BROKEN: dict[str, tuple[str, str | bytes, str]] = {
    "no header": ("q.csv", "a,b\nc,d\n", "q.csv:1: expected CSV, TSV, JSON, JSON Lines or Parquet with a column"),
    "misspelt question": (
        "q.csv",
        "qestion,answer\nWho?,a\n",
        "q.csv:1: unknown field 'qestion'; did you mean 'question'?",
    ),
    "another name": ("q.jsonl", '{"question_text": "Who?"}', "found 'question_text'; did you mean 'question'?"),
    "misspelt answer": (
        "q.jsonl",
        '{"question": "Who?", "asnwer": "a"}',
        "q.jsonl:1: unknown field 'asnwer'; did you mean 'answer'?",
    ),
    "no question": ("q.jsonl", '{"claim": "So."}', "expected a field 'question', 'query' or 'prompt', found 'claim'"),
    "an empty question": ("q.csv", "Query,answer\nWho?,a\n ,b\n", "q.csv:3: 'Query' is ' '; expected a text"),
    "an empty id": ("q.csv", "id,query\n,Who?\n", "q.csv:2: 'id' is ''; expected a text"),
    "a truth value as question": ("q.jsonl", '{"question": true}', "q.jsonl:1: 'question' is True; expected a text"),
    "a truth value as choice": (
        "q.jsonl",
        '{"question": "Which?", "choices": ["a", "b"], "answer": true}',
        "q.jsonl:1: 'answer' is True; expected a letter from A to B, or the text of one option",
    ),
    "a repeated id": ("q.csv", "id,query\n1,Who?\n2,Which?\n1,When?\n", "q.csv:4: id '1' is already on line 2"),
    "too many cells": (
        "q.csv",
        "query,answer\nWho, and why?,a\n",
        "q.csv:2: expected 2 cells (query, answer), found 3",
    ),
    "an open quote": ("q.csv", 'query,answer\nWho?,a\n"Which?,b\nWhen?,c\n', "q.csv:3: is not CSV: "),
    "a name twice": ("q.csv", "query,answer,answer\nWho?,a,b\n", "q.csv:1: the header has 'answer' twice"),
    "no UTF-8": ("q.csv", b"query,answer\nWho?,a\nWho?,\xe9\n", "q.csv:3: is not UTF-8 text: "),
    "half a list": ("q.tsv", "query\tanswer\nWho?\t['a', 'b\n", "q.tsv:2: expected a list such as ['a', 'b'], found"),
    "code": ("q.tsv", "query\tanswer\nWho?\t['a', print(1)]\n", "q.tsv:2: expected a list such as ['a', 'b'], found"),
    "lists with and without commas": (
        "q.csv",
        "query,answer\nWho?,\"['a', 'b' 'c']\"\n",
        "q.csv:2: expected a list such as ['a', 'b'], found \"['a', 'b' 'c']\" in 'answer': only some elements",
    ),
    "texts that touch": ("q.csv", "query,answer\nWho?,['it''s']\n", "q.csv:2: expected a list such as ['a', 'b']"),
    "a shortened array": ("q.csv", "query,answer\nWho?,['a' 'b' ... 'z']\n", "q.csv:2: expected a list such as"),
    "numbers": ("q.csv", "query,answer\nWho?,[1 2]\n", "q.csv:2: 'answer' is '[1 2]': one answer or several?"),
    "an object": ("q.jsonl", '{"query": "Who?", "answer": {"value": "a"}}', "q.jsonl:1: 'answer' is {'value': 'a'}"),
    "one object": (
        "q.json",
        '{\n"query": "Who?"\n}',
        "q.json: expected a list of objects, found dict with the keys 'query'",
    ),
    "nothing": ("q.csv", "", "q.csv: the file contains no question"),
    "only a header": ("q.csv", "query,answer\n", "q.csv: the file contains no question"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    name, content, said = BROKEN[case]
    with pytest.raises(UserError) as caught:
        read_dataset(write(tmp_path / name, content))
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(said) or said in str(caught.value)


def test_files_of_plain_questions_are_no_published_dataset(tmp_path: Path) -> None:
    """Once such files were offered to the reader of 2WikiMultiHopQA."""
    item = {"dataset": "nq_open", "qid": "nq-1", "question": "Who?", "answers": ["a"], "gold_titles": ["A"]}
    path = write(tmp_path / "q.jsonl", json.dumps(item) + "\n" + json.dumps(item | {"qid": "nq-2", "answers": 2.5}))
    assert [question.id for question in read_dataset(path)] == ["nq-1", "nq-2"]
    broken = write(tmp_path / "broken.jsonl", json.dumps(item | {"answers": {}}))
    with pytest.raises(UserError) as caught:
        read_dataset(broken)
    assert "--dataset" not in str(caught.value)
    with pytest.raises(UserError, match=r"'answer' is missing"):
        read_dataset(path, dataset="nq_open")


def test_2wiki_with_lists_of_answers_and_capitals(tmp_path: Path) -> None:
    item = {"_id": "w1", "Question": "Who?", "Answer": ["a", "b"], "Type": "inference"}
    (question,) = read_dataset(write(tmp_path / "q.jsonl", json.dumps(item)), dataset="2wikimultihopqa")
    assert (question.id, question.answers, question.metadata["type"]) == ("w1", ("a", "b"), "inference")


@pytest.mark.parametrize("name", ["q.csv", "q.jsonl"])
def test_a_huge_file_is_read_row_by_row(tmp_path: Path, name: str) -> None:
    rows = [{"query": f"Who is {n}?", "answer": "a", "context": "word " * 20_000} for n in range(200)]
    with (tmp_path / name).open("w", encoding="utf-8") as file:
        if name == "q.csv":
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    size = (tmp_path / name).stat().st_size
    rows.clear()
    tracemalloc.start()
    try:
        assert len(read_dataset(tmp_path / name)) == 200
        assert tracemalloc.get_traced_memory()[1] < size / 5
    finally:
        tracemalloc.stop()


def is_text(text: str) -> bool:
    """Not blank, and not a truth value, which gets an alias."""
    return text.strip().lower() not in ("", "true", "false")


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=20).filter(is_text)
ANSWERS = st.lists(TEXT, max_size=3, unique=True)


@given(st.lists(st.tuples(TEXT, ANSWERS), min_size=1, max_size=5), st.sampled_from([",", "\t", ";"]), st.booleans())
def test_any_table_that_was_written_is_read_as_it_was(rows: Any, delimiter: str, as_json: bool) -> None:
    table = io.StringIO(newline="")
    writer = csv.writer(table, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["Question", "Answers"])
    writer.writerows((text, json.dumps(answers) if as_json else repr(answers)) for text, answers in rows)
    with tempfile.TemporaryDirectory() as folder:
        assert pairs(write(Path(folder) / "q.csv", table.getvalue())) == [(text, tuple(all_)) for text, all_ in rows]


@given(st.lists(st.tuples(TEXT, ANSWERS), min_size=1, max_size=5), st.booleans())
def test_any_json_lines_are_read_as_they_were(rows: Any, ascii_only: bool) -> None:
    lines = [json.dumps({"query": text, "answer": answers}, ensure_ascii=ascii_only) for text, answers in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "q.jsonl", "\n".join(lines))
        assert pairs(path) == [(text, tuple(answers)) for text, answers in rows]


@given(
    st.sampled_from(["q.csv", "q.tsv", "q.jsonl", "q.json", "q"]),
    st.sampled_from(["", "question,answer\n", '{"query"']),
    st.binary(),
)
def test_any_bytes_are_read_or_refused(name: str, start: str, rest: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read_dataset(write(Path(folder) / name, start.encode() + rest))
        except UserError as error:
            assert str(Path(folder) / name) in str(error)
