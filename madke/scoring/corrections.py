"""A sheet of people's corrections: answers that are right although they match no gold answer, and wrong gold answers.

A row corrects one question in all runs. ``right`` adds its answer to the gold answers; ``gold is wrong`` leaves the
question out of scores. The page of ``madke report --serve`` writes the sheet; any spreadsheet program can, too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, cast, get_args

from madke._util.files import atomic_write, sheet_rows
from madke.core.errors import UserError, count_of
from madke.core.transcript import Transcript
from madke.scoring.arms import Results

CorrectionKind = Literal["right", "gold is wrong"]
_KINDS: tuple[str, ...] = get_args(CorrectionKind)
_FORMULA = re.compile(r"^'([=+\-@'\t\r])")
_COLUMNS = ("id", "question", "answer", "correction")


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """One row of the sheet."""

    id: str
    question: str
    """The text of the question, since ids of several datasets may be equal."""
    answer: str = ""
    """The answer that is right; empty if the gold answer is wrong."""
    correction: CorrectionKind


def read_corrections(path: Path) -> list[Correction]:
    """The rows of a sheet, with columns in any order. UserError names the first bad line."""
    found = []
    for line, row in sheet_rows(path, _COLUMNS):
        cells = {name: _FORMULA.sub(r"\1", cell) for name, cell in row.items()}
        if not any(map(str.strip, cells.values())):
            continue
        kind, wrong = cells["correction"].strip().casefold(), ""
        if kind not in _KINDS:
            wrong = f"column 'correction': found {kind[:60]!r}, expected {' or '.join(_KINDS)}"
        elif not cells["question"].strip():
            wrong = "column 'question' is empty; expected the question's text"
        elif kind == "right" and not cells["answer"].strip():
            wrong = "column 'answer' is empty; expected the answer that is right"
        if wrong:
            raise UserError(wrong, file=path, line=line)
        id_, question, answer, _ = cells.values()
        found.append(Correction(id=id_, question=question, answer=answer, correction=cast(CorrectionKind, kind)))
    return found


def write_corrections(path: Path, corrections: Iterable[Correction]) -> None:
    """Write a sheet, atomically. The byte order mark is for Excel."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(_COLUMNS)
    table.writerows([_cell(getattr(each, name)) for name in _COLUMNS] for each in corrections)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode("utf-8-sig"))


def _cell(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet program would take for a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@'\t\r") else text


def _key(id_: str, question: str) -> tuple[str, str]:
    """A question, whatever spreadsheet programs do to white space."""
    return id_.strip(), " ".join(question.split())


def corrected(arms: Sequence[Results], corrections: Sequence[Correction]) -> list[Results]:
    """The arms with corrected gold answers. UserError if no arm has a question of the sheet."""
    asked = {_key(each.id, each.question) for arm in arms for each in arm.transcripts()}
    known = [each for each in corrections if _key(each.id, each.question) in asked]
    if corrections and not known:
        raise UserError("--corrections: no question of the sheet is in these results")
    right = sum(each.correction == "right" for each in known)
    words = f"{count_of(right, 'answer')} accepted, {count_of(len(known) - right, 'question')} left out by corrections"
    return [
        replace(arm, transcripts=partial(_corrected, arm.transcripts, known), corrected=words if known else "")
        for arm in arms
    ]


def _corrected(
    transcripts: Callable[[], Iterator[Transcript]], corrections: Sequence[Correction]
) -> Iterator[Transcript]:
    accepted: dict[tuple[str, str], list[str]] = {}
    wrong = set()
    for each in corrections:
        if each.correction == "right":
            accepted.setdefault(_key(each.id, each.question), []).append(each.answer.strip())
        else:
            wrong.add(_key(each.id, each.question))
    for transcript in transcripts():
        key = _key(transcript.id, transcript.question)
        if key in wrong:
            yield replace(transcript, answers=())
        elif key in accepted:
            yield replace(transcript, answers=tuple(dict.fromkeys((*transcript.answers, *accepted[key]))))
        else:
            yield transcript
