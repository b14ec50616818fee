"""MMLU (Hendrycks et al., 2021), and the six medical subjects that the literature calls MMLU-Med.

A subject is a CSV file without header: question, four options, letter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from madke.core.errors import UserError
from madke.data.formats.record import Format, Item, Row, short
from madke.data.formats.rows import csv_rows

MEDICAL = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)
_LETTERS = "ABCD"
_COLUMNS = ("question", *_LETTERS, "answer")
_SPLIT = re.compile(r"_(test|val|dev)$")


def _rows(subjects: Collection[str], path: Path) -> Iterator[Row]:
    """The rows of one subject's file, or of a folder's ``*_test.csv``; of these subjects only, if any are named."""
    if path.is_dir():
        files = {file.stem.removesuffix("_test"): file for file in sorted(path.glob("*_test.csv"))}
        if missing := [subject for subject in subjects if subject not in files]:
            raise UserError(f"there is no {missing[0]}_test.csv in it", file=path)
        if not files:
            raise UserError("there is no *_test.csv in it; expected MMLU's folder test", file=path)
        chosen = [(subject, files[subject]) for subject in subjects or files]
    else:
        chosen = [(_SPLIT.sub("", path.name.removesuffix(".gz").removesuffix(".csv")), path)]
        if subjects and chosen[0][0] not in subjects:
            expected = ", ".join(subjects)
            raise UserError(f"the subject {chosen[0][0]!r} is not one of {expected}", file=path)
    for subject, file in chosen:
        for row in csv_rows(file, _COLUMNS, header=False):
            yield Row(fields={**row.fields, "subject": subject}, file=file, line=row.line, number=row.number)


def _item(row: Row) -> Item:
    letter = row.fields.get("answer")
    if type(letter) is int and 0 <= letter < len(_LETTERS):
        letter = _LETTERS[letter]
    if not isinstance(letter, str) or letter.strip() not in tuple(_LETTERS):
        raise row.error(f"the answer is {short(letter)}; expected a letter of A to D")
    choices = row.list_of("choices") if "choices" in row.fields else [row.fields[letter] for letter in _LETTERS]
    subject = row.text("subject")
    return Item(
        series=subject,
        question=row.text("question"),
        answers=(letter.strip(),),
        choices=tuple(row.checked(choice, "option") for choice in choices),
        metadata={"subject": subject},
    )


MMLU = Format(name="mmlu", task="choice", rows=partial(_rows, ()), item=_item)
MMLU_MED = Format(name="mmlu_med", task="choice", rows=partial(_rows, MEDICAL), item=_item)
