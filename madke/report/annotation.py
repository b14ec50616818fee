"""Answers for people to grade: a blind sheet for a spreadsheet program, and the key to it, kept apart."""

from __future__ import annotations

import csv
import io
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, ValidationError

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.files import replacing
from madke.report.tables import csv_cell
from madke.runs.results import Results
from madke.runs.scored import external_values
from madke.scoring.metrics import METRICS, question_of
from madke.tasks import get_task
from madke.tasks.choice import lettered

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """What people say of an answer: a column to fill."""

    name: str
    grades: Mapping[str, float]
    """What a cell may hold -> its value."""
    ordinal: bool = False
    """Whether the grades are steps, and not right and wrong."""

    @property
    def expected(self) -> str:
        """The grades, for people."""
        first, *_, last = self.grades
        return f"{first} to {last}" if self.ordinal else f"{first} or {last}"


_YES_NO = {"yes": 1.0, "no": 0.0}
RIGHT = Scale(name="right", grades=_YES_NO)
RESOLVED = Scale(name="ambiguity_resolved", grades=_YES_NO)
QUALITY = Scale(name="quality", grades={str(grade): float(grade) for grade in range(1, 6)}, ordinal=True)
SCALES = {scale.name: scale for scale in (RIGHT, RESOLVED, QUALITY)}


def scales_of(task: str) -> tuple[Scale, ...]:
    """What people grade in an answer to a task: whether it is right.

    In a translation whether its ambiguous words came out right, and how good it is, 1 to 5 (Liang et al., section 4.1).
    """
    return (RESOLVED, QUALITY) if task == "translation" else (RIGHT,)


class GivenBy(BaseModel):
    """Who gave an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    repeat: NonNegativeInt


class KeyRow(BaseModel):
    """What a row of the sheet is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    """The question's."""
    shown: str
    """The question as the sheet shows it; tells whether a filled sheet belongs to this key."""
    given: tuple[GivenBy, ...]
    metrics: Mapping[str, FiniteFloat]
    """What metrics, graders and scorers outside said of the answer when the sheet was made."""


class Abstained(GivenBy):
    """An arm that gave no answer to a question: nothing to grade, and wrong."""

    id: str


class SheetKey(BaseModel):
    """What annotators must not see."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    scales: tuple[str, ...]
    """Names of :data:`SCALES`: the columns to fill."""
    arms: tuple[str, ...]
    rows: Mapping[str, KeyRow]
    """The row's code -> what it is."""
    abstained: tuple[Abstained, ...]


FIXED = ("row", "question", "references", "answer")
"""The columns in front of those to fill."""


@dataclass(kw_only=True, slots=True)
class _Answer:
    """One answer to one question, and who gave it."""

    id: str
    shown: str
    references: str
    answer: str
    metrics: dict[str, float]
    given: list[GivenBy] = field(default_factory=list)


def write_sheet(
    results: Sequence[Results], out: Path, *, sample: int | None = None, seed: int = 0
) -> tuple[Path, SheetKey]:
    """Write the answers of arms as a sheet to grade, and beside it the key: ``sheet.csv`` and ``sheet.key.json``.

    The questions are those to which every arm has an outcome. Equal answers to one question are one row, whoever gave
    them; rows stand in random order. The file is UTF-8 with a byte order mark, without which Excel takes it for another
    encoding; LibreOffice and Google Sheets understand it too.

    Args:
        results: The arms.
        out: The sheet. Neither it nor the key may be there yet.
        sample: How many questions, drawn at random; None for all.
        seed: Of the draw and of the order.

    Returns:
        Where the key is, and the key.

    Raises:
        UserError: The name does not end in ``.csv``; a file is there already; arms share no question, fewer than the
            sample, or tasks that are graded differently.
    """
    if out.suffix.lower() != ".csv":
        raise UserError("expected a file that ends in .csv", file=out)
    key_file = out.with_suffix(".key.json")
    for file in (out, key_file):
        if file.exists():
            raise UserError("is there already, perhaps filled in; choose another --out", file=file)
    draw = random.Random(seed)
    ids = _shared(results)
    if sample is not None and sample > len(ids):
        raise UserError(f"--sample {sample}: there are {len(ids)} questions to which every arm has an outcome")
    chosen = set(ids if sample is None else draw.sample(ids, sample))
    answers, abstained, scales = _answers(results, chosen)
    draw.shuffle(answers)
    digits = len(str(len(answers)))
    codes = [f"R{n:0{digits}}" for n in range(1, len(answers) + 1)]
    key = SheetKey(
        seed=seed,
        scales=tuple(scale.name for scale in scales),
        arms=tuple(result.name for result in results),
        rows={
            code: KeyRow(id=answer.id, shown=answer.shown, given=tuple(answer.given), metrics=answer.metrics)
            for code, answer in zip(codes, answers, strict=True)
        },
        abstained=tuple(abstained),
    )
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow([*FIXED, *key.scales])
    for code, answer in zip(codes, answers, strict=True):
        cells = (answer.shown, answer.references, answer.answer)
        table.writerow([code, *map(csv_cell, cells), *("" for _ in scales)])
    with replacing(key_file) as keys:
        keys.write(key.model_dump_json(indent=2).encode() + b"\n")
    with replacing(out) as sheet:
        sheet.write(text.getvalue().encode("utf-8-sig"))
    return key_file, key


def read_key(path: Path) -> SheetKey:
    """The key to a sheet.

    Raises:
        UserError: The file is not one.
    """
    try:
        key = SheetKey.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except ValidationError:
        raise UserError("is not the key to a sheet, as `madke annotate sheet` writes it", file=path) from None
    if unknown := [name for name in key.scales if name not in SCALES]:
        raise UserError(f"names a scale {unknown[0]!r}; known: {', '.join(SCALES)}", file=path)
    return key


def _shared(results: Sequence[Results]) -> list[str]:
    """The ids of the questions to which every arm has an outcome, sorted: transcripts stand as they finished."""
    held = []
    for result in results:
        finished = (t for t in result.transcripts() if t.status != "failed")
        held.append(dict.fromkeys((t.id, t.question) for t in finished))
    ids = sorted(id_ for id_, question in held[0] if all((id_, question) in other for other in held))
    if not ids:
        raise UserError("the arms have no question in common to which each has an outcome")
    if left_out := len(set().union(*held)) - len(ids):
        _log.warning("%d questions are left out: not every arm has an outcome for them", left_out)
    return ids


def _answers(results: Sequence[Results], chosen: set[str]) -> tuple[list[_Answer], list[Abstained], tuple[Scale, ...]]:
    answers: dict[tuple[str, str], _Answer] = {}
    abstained: list[Abstained] = []
    scales: dict[str, tuple[Scale, ...]] = {}
    for result in results:
        outside = external_values(result)
        for transcript in result.transcripts():
            if transcript.id not in chosen or transcript.status == "failed":
                continue
            scales[transcript.task] = scales_of(transcript.task)
            given = GivenBy(arm=result.name, repeat=transcript.repeat)
            if transcript.answer is None:
                abstained.append(Abstained(id=transcript.id, **given.model_dump()))
                continue
            key = (transcript.id, transcript.answer)
            if key not in answers:
                answers[key] = _answer(transcript, transcript.answer)
            answers[key].given.append(given)
            for name, values in outside.items():
                if (value := values.get((transcript.id, transcript.repeat))) is not None:
                    answers[key].metrics.setdefault(name, value)
    if not answers:
        raise UserError("the arms gave no answer that could be graded")
    (first, graded), *others = scales.items()
    if other := [task for task, scale in others if scale != graded]:
        raise UserError(f"answers of the tasks {first} and {other[0]} are graded differently; make a sheet for each")
    return [answers[key] for key in sorted(answers)], abstained, graded


def _answer(transcript: Transcript, answer: str) -> _Answer:
    question = question_of(transcript)
    options = (f"({letter}) {choice}" for letter, choice in lettered(transcript.choices))
    metrics = get_task(transcript.task).metrics if transcript.answers else ()
    return _Answer(
        id=transcript.id,
        shown="\n".join((transcript.question, *options)),
        references=" | ".join(transcript.answers),
        answer=answer,
        metrics={name: METRICS[name](answer, question) for name in metrics},
    )
