"""Question files as pandas, Excel and other programs write them: lists in cells, columns of options, other names."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import madke
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.cells import literal


def table(path: Path, *rows: dict[str, Any]) -> Path:
    """A CSV file whose cells are the texts of these values, as ``DataFrame.to_csv`` writes them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def only(path: Path, **options: Any) -> Question:
    (question,) = read_dataset(path, **options)
    return question


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_dataset(path)
    return str(caught.value)


LISTS = {
    "commas": "['Jane Austen', 'Austen']",
    "NumPy": "['Jane Austen' 'Austen']",
    "several lines": "['Jane Austen'\n 'Austen']",
    "both quotes": "[\"Jane Austen\" 'Austen']",
    "array": "array(['Jane Austen', 'Austen'], dtype=object)",
    "JSON": '["Jane Austen", "Austen"]',
    "SQuAD": "{'text': array(['Jane Austen', 'Austen'], dtype=object), 'answer_start': array([3, 8], dtype=int32)}",
    "SQuAD in JSON": '{"text": ["Jane Austen", "Austen"], "answer_start": [3, 8]}',
    "NumPy 2": "[np.str_('Jane Austen'), np.str_('Austen')]",
    "Python 2": "[u'Jane Austen', u'Austen']",
}


@pytest.mark.parametrize("form", LISTS)
def test_a_list_in_a_cell_is_a_list(tmp_path: Path, form: str) -> None:
    path = table(tmp_path / "q.csv", {"question": "Who wrote Emma?", "golden_answers": LISTS[form]})
    assert only(path).answers == ("Jane Austen", "Austen")


@given(st.lists(st.text(), min_size=0, max_size=12))
def test_any_array_that_numpy_prints_is_read(texts: list[str]) -> None:
    array = np.array(texts, dtype=object)
    assert literal(str(array)) == texts
    assert literal(repr({"text": array, "label": texts})) == {"text": texts, "label": texts}


@given(st.text(alphabet="[]{}(),:'\"\\ \nabu1.=-"))
def test_any_cell_is_read_or_refused(cell: str) -> None:
    try:
        literal(cell)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("cell", ["[" * 100_000, "['a'" * 50_000, "{'a':" * 50_000, "array(" * 50_000])
def test_deep_cells_are_refused(cell: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        literal(cell)


def test_cells_of_other_columns_are_texts(tmp_path: Path) -> None:
    row = {"question": "['Who', 'What']: which is older?", "answer": "Who", "context": "['half a list"}
    assert only(table(tmp_path / "q.csv", row)).question == row["question"]


OPTIONS: dict[str, dict[str, str]] = {
    "letters": {"A": "x", "B": "y", "C": "z"},
    "lower-case letters": {"a": "x", "b": "y", "c": "z"},
    "option_a": {"option_a": "x", "option_b": "y", "option_c": "z"},
    "Option A": {"Option A": "x", "Option B": "y", "Option C": "z"},
    "choices/0": {"choices/0": "x", "choices/1": "y", "choices/2": "z"},
    "choice_1": {"choice_1": "x", "choice_2": "y", "choice_3": "z"},
    "a list": {"choices": "['x' 'y' 'z']"},
    "options": {"options": "['x', 'y', 'z']"},
    "labels": {"choices": "{'text': array(['x', 'y', 'z'], dtype=object), 'label': array(['1', '2', '3'])}"},
}


@pytest.mark.parametrize("form", OPTIONS)
def test_options_make_a_choice(tmp_path: Path, form: str) -> None:
    answer = "2" if form == "labels" else "B"
    question = only(table(tmp_path / "q.csv", {"question": "Which?", **OPTIONS[form], "answer": answer}))
    assert (question.task, question.choices, question.answers) == ("choice", ("x", "y", "z"), ("B",))


@pytest.mark.parametrize(("answer", "letter"), [("B", "B"), ("b", "B"), ("(B)", "B"), ("Lake Baikal", "B")])
def test_the_answer_of_a_choice_is_a_letter_or_the_text_of_an_option(tmp_path: Path, answer: str, letter: str) -> None:
    row = {"question": "Which?", "A": "Lake Geneva", "B": "Lake Baikal", "answer": answer}
    assert only(table(tmp_path / "q.csv", row)).answers == (letter,)
    assert only(lines(tmp_path / "q.jsonl", row)).answers == (letter,)


def test_a_question_may_have_fewer_options_than_the_table(tmp_path: Path) -> None:
    rows = [
        {"question": "Which?", "A": "x", "B": "y", "C": "", "answer": "A"},
        {"question": "What?", "A": "", "B": "", "C": "", "answer": "z"},
    ]
    first, second = read_dataset(table(tmp_path / "q.csv", *rows))
    assert (first.choices, second.choices, second.task) == (("x", "y"), (), "short_answer")


def test_numbers_are_options(tmp_path: Path) -> None:
    row = {"question": "How many?", "choices": "[10 20 30]", "answer": "20"}
    assert only(table(tmp_path / "q.csv", row)).choices == ("10", "20", "30")
    assert only(lines(tmp_path / "q.jsonl", row | {"choices": [10, 20, 30]})).answers == ("B",)


@pytest.mark.parametrize("answer", ["\u00b2", "9" * 5_000])
def test_digits_that_are_no_number_are_no_letter(tmp_path: Path, answer: str) -> None:
    row = {"question": "Which?", "A": "x", "B": "y", "answer": answer}
    assert "expected a letter from A to B" in refusal(table(tmp_path / "q.csv", row))


def test_what_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    number = {"question": "How many?", "A": "1", "B": "2", "answer": "1"}
    assert "q.csv:2: 'answer' is '1'; expected a letter from A to B" in refusal(table(tmp_path / "q.csv", number))
    other = number | {"answer": "seven"}
    assert "q.csv:2: 'answer' is 'seven'; expected a letter from A to B, or the text of one option" in refusal(
        table(tmp_path / "q.csv", other)
    )
    gap = {"question": "Which?", "A": "x", "B": "y", "D": "z", "answer": "A"}
    assert "q.csv:1: columns `A`, `B`, `D` are options without C" in refusal(table(tmp_path / "q.csv", gap))
    text = {"question": "Which?", "choices": "x|y", "answer": "A"}
    assert "q.csv:2: 'choices' is 'x|y'; expected a list such as ['a', 'b'], or columns A, B" in refusal(
        table(tmp_path / "q.csv", text)
    )


FORMS: dict[str, tuple[dict[str, Any], Question]] = {
    "SQuAD": (
        {"id": "1", "title": "T", "context": "C", "question": "Who?", "answers": {"text": ["a"], "answer_start": [1]}},
        Question(id="1", question="Who?", answers=("a",)),
    ),
    "SQuAD 2, unanswerable": (
        {"id": "1", "question": "Who?", "answers": {"text": [], "answer_start": []}},
        Question(id="1", question="Who?"),
    ),
    "ARC": (
        {"id": "1", "question": "Which?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"},
        Question(id="1", question="Which?", choices=("x", "y"), answers=("B",), task="choice"),
    ),
    "ARC with numbers": (
        {"id": "1", "question": "Which?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "1"},
        Question(id="1", question="Which?", choices=("x", "y"), answers=("A",), task="choice"),
    ),
    "MMLU": (
        {"id": "1", "question": "Which?", "choices": ["x", "y"], "answer": 1},
        Question(id="1", question="Which?", choices=("x", "y"), answers=("B",), task="choice"),
    ),
    "Inspect": (
        {"id": 1, "input": "Who?", "target": ["a", "b"]},
        Question(id="1", question="Who?", answers=("a", "b")),
    ),
    "Inspect with choices": (
        {"id": 1, "input": "Which?", "choices": ["x", "y"], "target": "B"},
        Question(id="1", question="Which?", choices=("x", "y"), answers=("B",), task="choice"),
    ),
    "ragas": (
        {"id": 1, "user_input": "Who?", "retrieved_contexts": ["c"], "response": "b", "reference": "a"},
        Question(id="1", question="Who?", answers=("a",)),
    ),
    "BoolQ": (
        {"id": 1, "question": "is it deep", "passage": "P", "answer": True},
        Question(id="1", question="is it deep", answers=("true",)),
    ),
}


@pytest.mark.parametrize(
    ("form", "suffix"),
    # In a table, the number of an option is refused.
    [(form, suffix) for form in FORMS for suffix in ("jsonl", "parquet", "csv") if (form, suffix) != ("MMLU", "csv")],
)
def test_files_of_other_programs_are_read(tmp_path: Path, form: str, suffix: str) -> None:
    row, expected = FORMS[form]
    path = tmp_path / f"q.{suffix}"
    if suffix == "jsonl":
        lines(path, row)
    elif suffix == "csv":
        table(path, row)
        expected = csv_form(expected)
    else:
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist([row]), path)
    assert only(path) == expected


def csv_form(question: Question) -> Question:
    """Python's ``True`` in a cell is a text with a capital letter."""
    return replace(question, answers=("True",)) if question.answers == ("true",) else question


def test_names_that_mean_something_else_alone_are_not_used(tmp_path: Path) -> None:
    row = {"question": "Who?", "reference": "https://example.org", "target": "en", "input": "text"}
    assert only(lines(tmp_path / "q.jsonl", row)).answers == ()
    assert "expected a field 'question', 'query' or 'prompt', found 'input', 'output'" in refusal(
        lines(tmp_path / "alpaca.jsonl", {"input": "Who?", "output": "a"})
    )


def test_truth_values_are_refused_where_they_are_no_answer(tmp_path: Path) -> None:
    row = {"question": "It is deep.", "task": "claim", "answer": True}
    assert "q.jsonl:1: 'answer' is True; expected a text" in refusal(lines(tmp_path / "q.jsonl", row))


def test_yes_and_no_are_right_where_the_file_has_true_and_false(tmp_path: Path) -> None:
    rows = [
        {"question": "Is Baikal deeper than Geneva?", "answer": True},
        {"question": "Is Geneva deeper than Baikal?", "answer": False},
    ]

    def model(messages: Any) -> str:
        return f"The answer is [{'yes' if 'Is Baikal' in messages[-1]['content'] else 'no'}]."

    for path in (table(tmp_path / "q.csv", *rows), lines(tmp_path / "q.jsonl", *rows)):
        assert madke.run(path, model=model, protocol="cot").scores["em"].value == 1.0


@pytest.mark.parametrize("cell", ["[None, nan]", "[None 'Austen']", "[nan]", "['Jane Austen', None]"])
def test_a_list_with_a_missing_text_is_no_answer(tmp_path: Path, cell: str) -> None:
    assert ":2: " in refusal(table(tmp_path / "a.csv", {"question": "Who?", "answer": cell}))


def test_two_options_with_one_label_are_refused(tmp_path: Path) -> None:
    choices = {"text": ["Rome", "Oslo"], "label": ["A", "A"]}
    path = lines(tmp_path / "a.jsonl", {"question": "Where?", "choices": choices, "answerKey": "A"})
    assert f"{path}:1: 'choices' has the label 'A' twice; expected each once" == refusal(path)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_too_many_columns_are_refused(tmp_path: Path, form: str) -> None:
    row = {"question": "Who?"} | {f"column{number}": "" for number in range(200_000)}
    path = (table if form == "csv" else lines)(tmp_path / f"a.{form}", row)
    assert f"{path}:1: found 200,001 columns; expected at most 10,000" == refusal(path)
