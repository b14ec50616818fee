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
_SPLITS = ("test", "val", "dev")
_SPLIT = re.compile(rf"_({'|'.join(_SPLITS)})$")


def _rows(subjects: Collection[str], path: Path) -> Iterator[Row]:
    """The rows of one subject's file, or of a folder of one split; of these subjects only, if any are named."""
    if path.is_dir():
        split = _split_in(path)
        files = {file.stem.removesuffix(f"_{split}"): file for file in sorted(path.glob(f"*_{split}.csv"))}
        if missing := [subject for subject in subjects if subject not in files]:
            raise UserError(f"there is no {missing[0]}_{split}.csv in it", file=path)
        chosen = [(subject, files[subject]) for subject in subjects or files]
    else:
        chosen = [(_SPLIT.sub("", path.name.removesuffix(".gz").removesuffix(".csv")), path)]
        if subjects and chosen[0][0] not in subjects:
            expected = ", ".join(subjects)
            raise UserError(f"the subject {chosen[0][0]!r} is not one of {expected}", file=path)
    for subject, file in chosen:
        for row in csv_rows(file, _COLUMNS, header=False):
            yield Row(fields={**row.fields, "subject": subject}, file=file, line=row.line, number=row.number)


def _split_in(folder: Path) -> str:
    """The split whose files a folder holds."""
    found = [split for split in _SPLITS if any(folder.glob(f"*_{split}.csv"))]
    if len(found) > 1:
        names = " and ".join(f"*_{split}.csv" for split in found)
        raise UserError(f"holds {names}; expected the files of one split in a folder", file=folder)
    if found:
        return found[0]
    below = [folder / split for split in _SPLITS if any((folder / split).glob(f"*_{split}.csv"))]
    instead = f"; did you mean {below[0]}?" if below else "; expected MMLU's folder test, val or dev"
    raise UserError(f"there is no *_test.csv, *_val.csv or *_dev.csv in it{instead}", file=folder)


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
