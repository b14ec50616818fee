"""Options and gold answers in the forms in which question files have them, as texts and letters."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from madke.core.question import Question
from madke.data.cells import is_ambiguous, is_structured, literal
from madke.data.columns import Found
from madke.data.published_rows import Row, short
from madke.tasks.choice import Choice, lettered


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of one question."""

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The names that the file gives to the options, if it does (ARC: letters or numbers)."""


def parsed_if_structured(row: Row, value: Any, name: str) -> Any:
    """The value of a column; a text that begins like a list of texts or like an object is parsed."""
    return _parsed(row, value, name) if isinstance(value, str) and is_structured(value) else value


def _parsed(row: Row, cell: str, name: str) -> Any:
    try:
        return literal(cell)
    except ValueError as error:
        form = (
            "an object such as {'text': ['a', 'b']}" if cell.lstrip().startswith("{") else "a list such as ['a', 'b']"
        )
        found = cell if len(cell) <= 60 else f"{cell[:57]}..."
        raise row.error(f"expected {form}, found {found!r} in {name!r}: {error}") from None


def options_of(row: Row, found: Found) -> Options:
    """The options in a column of lists, of ``{"text": [...], "label": [...]}``, or in a column each."""
    if found.options:
        values = [(name, row.fields[name]) for name in found.options]
        while values and _is_empty(values[-1][1]):
            values.pop()
        return Options(texts=tuple(row.checked(value, name) for name, value in values))
    if "choices" not in found.names:
        return Options()
    name = found.names["choices"]
    value = row.fields[name]
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = _parsed(row, value, name)
    if _is_empty(value):
        return Options()
    if isinstance(value, Mapping) and {"text", "label"} == set(value):
        texts, labels = value["text"], value["label"]
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
            raise row.error(f"{name!r} is {short(value)}; expected as many labels as texts")
        labelled = Options(texts=_texts(row, texts, name), labels=_texts(row, labels, name))
        if twice := [label for label, count in Counter(labelled.labels).items() if count > 1]:
            raise row.error(f"{name!r} has the label {twice[0]!r} twice; expected each once")
        return labelled
    if not isinstance(value, list):
        raise row.error(f"{name!r} is {short(value)}; expected a list such as ['a', 'b'], or columns A, B, C ...")
    return Options(texts=_texts(row, value, name))


def _texts(row: Row, values: Sequence[Any], name: str) -> tuple[str, ...]:
    return tuple(row.checked(value, name) for value in values)


def gold_answers(row: Row, found: Found, options: Options, *, task: str | None) -> list[str | int]:
    """The gold answers: a text, a list, or SQuAD's ``{"text": [...]}``. With options: letters, or 0-based numbers."""
    if "golden_answers" not in found.names:
        return []
    name = found.names["golden_answers"]
    value = parsed_if_structured(row, row.fields[name], name)
    if _is_empty(value):
        return []
    if isinstance(value, str) and is_ambiguous(value):
        one, several = f"[{value!r}]", "['1', '2']"
        raise row.error(f"{name!r} is {short(value)}: one answer or several? Write {one}, or a list such as {several}")
    if isinstance(value, Mapping) and "text" in value and set(value) <= {"text", "answer_start"}:
        value = value["text"]
    answers = value if isinstance(value, list) else [value]
    if options.texts and task in (None, Choice.name):
        return [_letter(row, answer, options, name) for answer in answers]
    if options.texts:
        return answers
    read = row.answer if task in (None, "short_answer") else row.checked
    return list(dict.fromkeys(read(answer, name) for answer in answers))


def _letter(row: Row, answer: Any, options: Options, name: str) -> str | int:
    """The letter of the option that an answer names by its label, letter or text; a number stays one."""
    letters = [letter for letter, _ in lettered(options.texts)]
    if not isinstance(answer, bool) and str(answer) in options.labels:
        return letters[options.labels.index(str(answer))]
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    expected = f"expected a letter from A to {letters[-1]}" if letters else "expected a letter"
    if isinstance(answer, bool):
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    text = row.checked(answer, name)
    if re.fullmatch(r"\d{1,2}", text.strip()) and int(text) <= len(letters):
        why = "0-based numbers are for JSON, without quotes"
        raise row.error(f"{name!r} is {short(answer)}; {expected} ({why})")
    question = Question(question="", choices=options.texts)
    letter = Choice().read(text, question)
    if letter is None:
        raise row.error(f"{name!r} is {short(answer)}; {expected}, or the text of one option")
    return letter


def _is_empty(value: Any) -> bool:
    """Whether a cell has no value: nothing, blanks, an empty list, or not a number, as pandas writes it."""
    return (
        value is None
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, float) and math.isnan(value))
        or value == []
    )
