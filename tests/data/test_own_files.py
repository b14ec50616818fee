"""Question files of users: every usual form with obvious columns is read as a person means it, or refused in a line."""

import csv
import gzip
import io
import json
import logging
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import madke
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.questions import columns_from, question_from_fields, questions_of_records

RIVER, LAKE = "Which river leaves Lake Baikal?", "Which lake is deeper?"
EXPECTED = [(RIVER, ("Angara", "Angara River")), (LAKE, ("Baikal",))]
ROWS = [{"Query": RIVER, "Answers": ["Angara", "Angara River"]}, {"Query": LAKE, "Answers": ["Baikal"]}]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(path: Path, *rows: dict[str, Any]) -> Path:
    """A CSV file whose cells are the texts of these values, as ``DataFrame.to_csv`` writes them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def parquet(path: Path, *rows: dict[str, Any]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(list(rows)), path)
    return path


def sheet(path: Path, *sheets: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        page = book.active if number == 0 else book.create_sheet()
        for row in rows:
            page.append(row)
    book.save(path)
    return path


def pairs(path: Path, **options: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(question.question, question.answers) for question in read_dataset(path, **options)]


def only(path: Path, **options: Any) -> Question:
    (question,) = read_dataset(path, **options)
    return question


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        read_dataset(path, **options)
    return str(caught.value).removeprefix(f"{path.parent}/")


def understood(path: Path, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read_dataset(path)
    return " ".join(record.getMessage().removeprefix(f"{path}: ") for record in caplog.records)


FORMS = {
    "q.csv": f'Query,Answers\n{RIVER},"[""Angara"", ""Angara River""]"\n{LAKE},Baikal\n',
    "semicolons.csv": f"Query;Answers\n{RIVER};['Angara', 'Angara River']\n{LAKE};Baikal\n",
    "q.tsv": f"Query\tAnswers\n{RIVER}\t['Angara', 'Angara River']\n{LAKE}\tBaikal\n",
    "bom.csv": f"\ufeffQuery,Answers\r\n{RIVER},\"['Angara', 'Angara River']\"\r\n,\r\n\r\n{LAKE},Baikal\r\n",
    "q.json": json.dumps(ROWS, indent=2),
    "q.jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS),
    "lines.json": "".join(json.dumps(row) + "\n" for row in ROWS),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_also_gzipped(tmp_path: Path, name: str) -> None:
    assert pairs(write(tmp_path / name, FORMS[name])) == EXPECTED
    assert pairs(write(tmp_path / f"{name}.gz", gzip.compress(FORMS[name].encode()))) == EXPECTED


def test_parquet_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "q.parquet", *ROWS)
    assert pairs(path) == EXPECTED
    broken = write(tmp_path / "broken.parquet", path.read_bytes()[:-9])
    assert refusal(broken).startswith("broken.parquet: cannot be read as Parquet: ")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "q.parquet: Parquet files need pyarrow: pip install" in refusal(path)


def test_excel_files_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    golds: list[Any] = [[RIVER, "Angara|Angara River"], ["How deep?", 1642.0], ["Deep?", True]]
    path = sheet(tmp_path / "q.xlsx", [["Question", "Answer", None], [], *golds], [["Notes"], ["see the other sheet"]])
    assert pairs(path) == [EXPECTED[0], ("How deep?", ("1642",)), ("Deep?", ("true",))]
    assert "only the first sheet 'Sheet' of 2 is read" in understood(path, caplog)
    misnamed = write(tmp_path / "q.csv", path.read_bytes())
    assert len(pairs(misnamed)) == 3
    assert refusal(sheet(tmp_path / "x.xlsx", [["question", "answer"], ["", "a"]])).startswith("x.xlsx:2: 'question'")
    assert "cannot be read as an Excel file" in refusal(write(tmp_path / "y.xlsx", path.read_bytes()[:-50]))
    assert "save it as 'CSV UTF-8' in Excel" in refusal(write(tmp_path / "z.xls", b"\xd0\xcf\x11\xe0"))


@pytest.mark.parametrize(("encoding", "word"), [("cp1252", "Zürich"), ("shift_jis", "東京"), ("utf-16", "Zürich")])
def test_a_file_in_another_code_page_is_refused_with_what_to_do(tmp_path: Path, encoding: str, word: str) -> None:
    found = refusal(write(tmp_path / "q.csv", f"question,answer\nWho?,{word}\n".encode(encoding)))
    assert "is not UTF-8 text" in found
    assert "convert the file: save it as 'CSV UTF-8' in Excel" in found
    mixed = "question,answer\nZürich?,a\n".encode() + f"{word}?,b\n".encode(encoding)
    assert refusal(write(tmp_path / "q.csv", mixed)).startswith("q.csv:3: is not UTF-8 text")


SENTENCES = "They pass; Nothing much happens to you if you eat them"
GOLDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a bar": ({"answer": "NYC|New York City"}, ("NYC", "New York City")),
    "semicolons": ({"answer": "NYC; New York City"}, ("NYC", "New York City")),
    "a title with a list": ({"answer": "Crosby, Stills & Nash; live"}, ("Crosby, Stills & Nash; live",)),
    "inverted names": ({"answer": "Turner, Ted; Wayne, John"}, ("Turner, Ted", "Wayne, John")),
    "lines of a cell": ({"answer": "NYC\nNew York City"}, ("NYC", "New York City")),
    "one with a slash": ({"answer": "AC/DC"}, ("AC/DC",)),
    "one with a comma": ({"answer": "Turner, Ted"}, ("Turner, Ted",)),
    "a bar in brackets": ({"answer": "P(A|B)"}, ("P(A|B)",)),
    "a sentence": ({"answer": SENTENCES}, (SENTENCES,)),
    "a list": ({"answer": ["Ted; Robert Turner"]}, ("Ted; Robert Turner",)),
    "no short answer": ({"answer": "|x|; |y|", "task": "translation"}, ("|x|; |y|",)),
    "aliases": ({"answer": "Ted", "aliases": ["R. E.", "Ted"]}, ("Ted", "R. E.")),
    "TruthfulQA": ({"Best Answer": "They pass", "Correct Answers": SENTENCES}, tuple(SENTENCES.split("; "))),
    "TriviaQA": ({"answer": {"value": "Ted", "aliases": ["R. E."], "normalized_value": "t"}}, ("Ted", "R. E.")),
    "contexts alone": ({"answer": "carbon", "contexts": ["c"]}, ()),
    "camel case": ({"groundTruth": "iron", "answerType": "metal"}, ("iron",)),
    "a reference": ({"answer": "carbon", "Reference Answer": "iron"}, ("iron",)),
    "an empty one": ({"answer": "iron", "target": None}, ("iron",)),
    "about an answer": ({"answer": "iron", "answer_start": 3, "gold_titles": ["A"], "target_form": "x"}, ("iron",)),
    "a list of objects": ({"answers": [{"text": "iron"}, {"text": "Fe"}]}, ("iron", "Fe")),
    "a number": ({"answers": [8.0]}, ("8.0",)),
}


@pytest.mark.parametrize("case", GOLDS)
def test_golds_are_those_that_a_person_means(tmp_path: Path, case: str) -> None:
    """Also in Python: a mapping is read as the same line of a file."""
    fields, golds = GOLDS[case]
    row = {"question": "Which?", **fields}
    assert only(lines(tmp_path / "q.jsonl", row)).answers == golds
    assert question_from_fields(row).answers == golds


def test_a_column_of_another_name_is_a_gold_if_the_user_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = lines(tmp_path / "q.jsonl", {"question": "Which?", "final_answer": "iron"})
    told = understood(path, caplog)
    assert "no answers (--columns answers=NAME), ids made from the text, not used: `final_answer`" in told
    assert only(path, columns={"answers": "final_answer"}).answers == ("iron",)


def test_wrong_answers_are_kept_as_wrong(tmp_path: Path) -> None:
    row = {"question": "Which?", "correct_answer": "a", "incorrect_answers": "b; c"}
    question = only(lines(tmp_path / "q.jsonl", row))
    assert (question.answers, question.metadata) == (("a",), {"wrong_answers": ["b", "c"]})


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", "Nr;Frage;Antwort\n1;Wer?;Ich|Du\n")
    assert "for example --columns 'question=Frage,answers=Antwort'" in refusal(path)
    question = only(path, columns=columns_from("id=Nr, question=Frage,answers=antwort"))
    assert question == Question(id="1", question="Wer?", answers=("Ich", "Du"))
    assert refusal(path, columns={"question": "Fragen"}).startswith("q.csv:1: expected CSV")
    misspelt = {"question": "Frage", "answers": "Anwort"}
    assert "--columns answers=Anwort: no row has this column" in refusal(path, columns=misspelt)
    with pytest.raises(UserError, match="--columns: 'anwser' is no field of a question; expected id, question"):
        read_dataset(path, columns={"anwser": "Antwort"})
    with pytest.raises(UserError, match="expected FIELD=COLUMN"):
        columns_from("Frage")


def test_what_was_understood_is_said_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "q.csv", "Query,golden_answers,Level\nWhich?,a,easy\nWho?,b|c,hard\nWho?,d,hard\n")
    assert understood(path, caplog) == (
        "3 questions, 4 golds, such as 'b' or 'c' for one question; question from `Query`, answers from "
        "`golden_answers`, ids made from the text, 1 with the text of an earlier question, not used: `Level`"
    )
    row = {"id": 7, "question": "Who?", "answer": "me", "contexts": [], "ground_truth": "I"}
    assert understood(lines(tmp_path / "q.jsonl", row), caplog) == (
        "1 question, 1 gold, such as 'I' for one question; question from `question`, answers from `ground_truth`, "
        "ids from `id`, taken for what a system said: `answer`, not used: `contexts`"
    )


def test_a_task_is_for_lines_that_name_none(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", {"question": "A?"}, {"question": "B?", "task": "short_answer"})
    assert [question.task for question in read_dataset(path, task="claim")] == ["claim", "short_answer"]
    own = lines(tmp_path / "own.jsonl", {"question": "A?", "task": "short_answer"})
    assert "each question names its own task (short_answer), so claim would apply to none" in refusal(own, task="claim")


@pytest.mark.parametrize("cell", ["['Jane Austen' 'Austen']", "[\"Jane Austen\" 'Austen']"])
def test_a_list_in_a_cell_is_a_list_also_as_numpy_writes_it(tmp_path: Path, cell: str) -> None:
    path = table(tmp_path / "q.csv", {"question": "Who wrote Emma?", "golden_answers": cell})
    assert only(path).answers == ("Jane Austen", "Austen")


OPTIONS: dict[str, dict[str, str]] = {
    "letters": {"A": "x", "B": "y", "C": "z"},
    "Option A": {"Option A": "x", "Option B": "y", "Option C": "z"},
    "choice_1": {"choice_1": "x", "choice_2": "y", "choice_3": "z"},
    "a list": {"choices": "['x' 'y' 'z']"},
    "an object": {"options": "{'A': 'x', 'B': 'y', 'C': 'z'}"},
    "labels": {"choices": "{'text': ['x', 'y', 'z'], 'label': ['1', '2', '3']}"},
}


@pytest.mark.parametrize("form", OPTIONS)
def test_options_make_a_choice(tmp_path: Path, form: str) -> None:
    for answer in ("2" if form == "labels" else "B", "y"):
        question = only(table(tmp_path / "q.csv", {"question": "Which?", **OPTIONS[form], "answer": answer}))
        assert (question.task, question.choices, question.answers) == ("choice", ("x", "y", "z"), ("B",))


@pytest.mark.parametrize("answer", ["B", "b", "(B)", "Lake Baikal", ["Lake Baikal"], 1, 1.0])
def test_the_answer_of_a_choice_is_a_letter_a_text_or_a_number_of_an_option(tmp_path: Path, answer: Any) -> None:
    row = {"question": "Which?", "choices": ["Lake Geneva", "Lake Baikal"], "answer": answer}
    assert only(lines(tmp_path / "q.jsonl", row)).answers == ("B",)
    assert question_from_fields({**row, "choices": tuple(row["choices"])}).answers == ("B",)


def who(*answers: str) -> Question:
    return Question(id="1", question="Who?", answers=answers)


def which(answer: str) -> Question:
    return Question(id="1", question="Which?", choices=("x", "y"), answers=(answer,), task="choice")


WHO, WHICH = {"id": "1", "question": "Who?"}, {"id": "1", "question": "Which?"}
PROGRAMS: dict[str, tuple[dict[str, Any], Question]] = {
    "SQuAD": ({**WHO, "title": "T", "context": "C", "answers": {"text": ["a"], "answer_start": [1]}}, who("a")),
    "SQuAD 2, unanswerable": ({**WHO, "answers": {"text": [], "answer_start": []}}, who()),
    "ARC with numbers": ({**WHICH, "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "1"}, which("A")),
    "MMLU": ({**WHICH, "choices": ["x", "y"], "answer": 1}, which("B")),
    "MedQA": ({**WHICH, "options": {"A": "x", "B": "y"}, "answer": "y", "answer_idx": "B"}, which("B")),
    "Inspect": ({"id": 1, "input": "Who?", "target": ["a", "b"]}, who("a", "b")),
    "ragas": ({"id": 1, "user_input": "Who?", "reference_contexts": [], "response": "b", "reference": "a"}, who("a")),
    "BoolQ": ({**WHO, "passage": "P", "answer": True}, who("true")),
}


@pytest.mark.parametrize("form", PROGRAMS)
def test_files_of_other_programs_are_read(tmp_path: Path, form: str) -> None:
    row, expected = PROGRAMS[form]
    assert only(lines(tmp_path / "q.jsonl", row)) == expected
    assert only(parquet(tmp_path / "q.parquet", row)) == expected
    if form not in ("MMLU", "BoolQ"):  # a cell has neither the number of an option nor a truth value
        assert only(table(tmp_path / "q.csv", row)) == expected


def test_python_rows_are_read_like_lines_of_a_file() -> None:
    rows: list[Any] = [
        {"question": "A?", "answers": np.array(["x", "y"], dtype=object), "id": np.int64(7)},
        {"question": "B?", "answers": ("z",), "choices": float("nan")},
        Question(question="C?", answers=("q",), choices=("p", "q")),
        "D?",
    ]
    assert madke.run(rows, model=lambda _: "The answer is [x].", protocol="cot").scores["em"].value == 0.5
    found = [(each.question, each.answers) for each in questions_of_records(rows)]
    assert found == [("A?", ("x", "y")), ("B?", ("z",)), ("C?", ("B",)), ("D?", ())]
    with pytest.raises(UserError, match="question 2: unknown field 'asnwer'; did you mean 'answer'"):
        madke.run([{"question": "B?"}, {"question": "Who?", "asnwer": "a"}], model=lambda _: "x", protocol="cot")


CHOICE = '{"query": "Which?", "choices": ["a", "b"], "answer": %s}'
BROKEN: dict[str, tuple[str, str, str]] = {
    "no header": ("q.csv", "a,b\nc,d\n", "q.csv:1: expected CSV, TSV, XLSX, JSON, JSON Lines or Parquet with a column"),
    "misspelt question": ("q.csv", "qestion,answer\nWho?,a\n", "'qestion', 'answer'; did you mean 'question'?; say"),
    "misspelt answer": ("q.jsonl", '{"query": "Who?", "asnwer": "a"}', "unknown field 'asnwer'; did you mean 'answer'"),
    "an empty question": ("q.csv", "Query,answer\nWho?,a\n ,b\n", "q.csv:3: 'Query' is ' '; expected a text"),
    "a truth value": ("q.jsonl", CHOICE % "true", "q.jsonl:1: 'answer' is True; expected a letter from A to B"),
    "an index beyond": ("q.jsonl", CHOICE % "2", "q.jsonl:1: 'answer' contains 2; expected indices from 0 to 1"),
    "an index in a cell": ("q.csv", "query,A,B,answer\nWhich?,1,2,1\n", "q.csv:2: 'answer' is '1'; expected a letter"),
    "no option": ("q.csv", "query,A,B,answer\nWhich?,1,2,six\n", "q.csv:2: 'answer' is 'six'; expected a letter"),
    "a gap": ("q.csv", "query,A,B,D,answer\nWhich?,x,y,z,A\n", "q.csv:1: columns `A`, `B`, `D` are options without C"),
    "a repeated id": ("q.csv", "id,query\n1,Who?\n2,Which?\n1,When?\n", "q.csv:4: id '1' is already on line 2"),
    "too many cells": ("q.csv", "query,answer\nWho, and why?,a\n", "q.csv:2: expected 2 cells (query, answer)"),
    "an open quote": ("q.csv", 'query,answer\nWho?,a\n"Which?,b\nWhen?,c\n', "q.csv:3: is not CSV: "),
    "a name twice": ("q.csv", "query,answer,answer\nWho?,a,b\n", "q.csv:1: the header has 'answer' twice"),
    "half a list": ("q.tsv", "query\tanswer\nWho?\t['a', 'b\n", "q.tsv:2: expected a list such as ['a', 'b'], found"),
    "numbers": ("q.csv", "query,answer\nWho?,[1 2]\n", "q.csv:2: 'answer' is '[1 2]': one answer or several?"),
    "a solution": ("q.jsonl", r'{"query": "Who?", "answer": "2\n#### 2"}', "a worked solution; read GSM8K with"),
    "an unknown task": ("q.jsonl", '{"query": "Who?", "task": "clam"}', "q.jsonl:1: unknown task 'clam'; did you mean"),
    "no label": ("q.jsonl", '{"query": "Who?", "answer": "a", "task": "claim"}', "'a' of a claim is not one of"),
    "one object": ("q.json", '{\n"query": "Who?"\n}', "expected a list of objects, found dict with the keys 'query'"),
    "nothing": ("q.csv", "", "q.csv: the file contains no question"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    name, content, said = BROKEN[case]
    assert said in refusal(write(tmp_path / name, content))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=20).filter(str.strip)
ANSWERS = st.lists(TEXT, max_size=3, unique=True)


@given(st.lists(st.tuples(TEXT, ANSWERS), min_size=1, max_size=5), st.sampled_from([",", "\t", ";", "json"]))
def test_any_file_that_was_written_is_read_as_it_was(rows: Any, form: str) -> None:
    text = io.StringIO(newline="")
    if form == "json":
        text.writelines(json.dumps({"query": query, "answer": answers}) + "\n" for query, answers in rows)
    else:
        writer = csv.writer(text, delimiter=form, quoting=csv.QUOTE_ALL)
        writer.writerow(["Question", "Answers"])
        writer.writerows((query, repr(answers)) for query, answers in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / ("q.jsonl" if form == "json" else "q.csv"), text.getvalue())
        assert pairs(path) == [(query, tuple(answers)) for query, answers in rows]


@pytest.mark.parametrize("name", ["q.csv", "q.jsonl"])
def test_a_huge_file_is_read_row_by_row(tmp_path: Path, name: str) -> None:
    rows = [{"query": f"Who is {n}?", "answer": "a", "context": "word " * 20_000} for n in range(200)]
    size = (table if name == "q.csv" else lines)(tmp_path / name, *rows).stat().st_size
    rows.clear()
    tracemalloc.start()
    try:
        assert len(read_dataset(tmp_path / name)) == 200
        assert tracemalloc.get_traced_memory()[1] < size / 5
    finally:
        tracemalloc.stop()
