"""TriviaQA (Joshi et al., 2017): the release's JSON, KILT's JSON Lines, plain JSON Lines, and Hugging Face rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from madke.data.formats.record import Format, Item, Row, short, unique
from madke.data.formats.rows import json_rows

_HIDDEN = "<unk>"
"""The value of an answer in the test splits on Hugging Face."""


def _rows(path: Path) -> Iterator[Row]:
    return json_rows(path, under="Data")


def _item(row: Row) -> Item:
    if "output" in row.fields:
        return _kilt(row)
    return Item(
        id=row.text("QuestionId", "question_id", "id"),
        question=row.text("Question", "question"),
        answers=row.texts("answers") if "answers" in row.fields else _answers(row),
    )


def _answers(row: Row) -> tuple[str, ...]:
    """The value, its aliases and what people answered; none in a split without labels."""
    key = "Answer" if "Answer" in row.fields else "answer"
    answer = row.fields.get(key)
    if answer is None:
        return ()
    if not isinstance(answer, Mapping):
        raise row.error(f"{key!r} is {short(answer)}; expected an object with a value and aliases")
    found = {name.lower(): value for name, value in answer.items()}
    if found.get("value") in (None, "", _HIDDEN):
        return ()
    inner = Row(fields=found, file=row.file, line=row.line, number=row.number)
    texts = [inner.text("value")]
    for name in ("aliases", "humananswers"):
        if found.get(name):
            texts += inner.texts(name)
    return unique(iter(texts))


def _kilt(row: Row) -> Item:
    """KILT (Petroni et al., 2021): each output may hold an answer, and the pages that it stands on."""
    answers: list[str] = []
    titles: list[str] = []
    for output in row.list_of("output"):
        if not isinstance(output, Mapping):
            raise row.error(f"'output' holds {short(output)}; expected objects")
        if output.get("answer"):
            answers.append(row.checked(output["answer"], "answer"))
        pages = output.get("provenance") or []
        if not isinstance(pages, list):
            raise row.error(f"'provenance' is {short(pages)}; expected a list")
        titles += [_title(row, page) for page in pages]
    if not answers:
        raise row.error("'output' holds no 'answer'")
    metadata = {"gold_titles": list(dict.fromkeys(titles))} if titles else {}
    return Item(
        id=row.text("id"), question=row.text("question", "input"), answers=unique(iter(answers)), metadata=metadata
    )


def _title(row: Row, page: Any) -> str:
    if not isinstance(page, Mapping):
        raise row.error(f"'provenance' holds {short(page)}; expected objects with a title")
    return row.checked(page.get("title"), "title")


TRIVIAQA = Format(
    name="triviaqa",
    task="short_answer",
    rows=_rows,
    item=_item,
    signs=(
        frozenset({"Question", "Answer"}),
        frozenset({"id", "output", "answer"}),
        frozenset({"question", "question_id", "answer"}),
        frozenset({"question", "answers"}),
    ),
)
