"""Blind grades of answers by people, and corrections of gold answers, on one sheet.

A sheet has a row for each distinct answer to a question. People fill in ``right`` (translations: two scales), and
``gold`` where the gold answers are wrong. As grades, a filled sheet gives scores of the runs that it was made from; as
corrections, it changes gold answers. The code of a row is a hash of its question and answer, so a sheet needs no key.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

from madke._util.files import atomic_write, refuse_repeated, sheet_rows, short_hash
from madke.core.errors import UserError, count_of
from madke.core.transcript import Transcript
from madke.engine.deferral import stated_answer
from madke.report.tables import csv_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct
from madke.scoring.metrics import HUMAN, METRICS, is_binary, is_grader, metrics_of, question_of
from madke.scoring.scored import answers_of, external_values, grader_of, keep_scores
from madke.tasks import get_task
from madke.tasks.base import Scale, with_letters

_log = logging.getLogger(__name__)

_YES_NO = {"yes": 1.0, "no": 0.0}
_QUALITY = {str(n): float(n) for n in range(1, 6)}
_SCALES: Mapping[Scale, Mapping[str, float]] = {"right": _YES_NO, "ambiguity_resolved": _YES_NO, "quality": _QUALITY}
"""Column to fill -> allowed cell -> value. Translations have the last two (Liang et al., section 4.1)."""

SheetGrades = Mapping[str, Mapping[str, float]]
"""Row code -> scale -> grade, without empty rows and cells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SheetRow:
    """A distinct answer to a question."""

    id: str
    question: str
    """With its options, as the sheet shows it."""
    golds: str
    answer: str
    """Empty: the debate abstained, which is a no."""
    scales: tuple[Scale, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    """The answer by binary metrics and graders."""


def rows_of(results: Sequence[Results]) -> dict[str, SheetRow]:
    """Code -> row of every answer of the arms. UserError if their tasks have different scales."""
    rows: dict[str, SheetRow] = {}
    tasks: dict[tuple[Scale, ...], str] = {}
    for arm in results:
        graders = {name: values for name, values in external_values(arm).items() if not name.startswith(HUMAN)}
        for t in arm.transcripts():
            if t.status == "failed":
                continue
            code, answer = _code(t), stated_answer(t) or ""
            scales = tuple(get_task(t.task).scales)
            tasks.setdefault(scales, t.task)
            if code not in rows:
                shown, golds = _question_text(t), " | ".join(t.answers)
                rows[code] = SheetRow(id=t.id, question=shown, golds=golds, answer=answer, scales=scales)
                question, names = question_of(t), metrics_of(get_task(t.task)) if t.answers and answer else ()
                rows[code].metrics.update({each: METRICS[each](answer, question) for each in names if is_binary(each)})
            grades = {name: values[t.id, t.repeat] for name, values in graders.items() if (t.id, t.repeat) in values}
            rows[code].metrics.update(grades if answer else {})
    if len(tasks) > 1:
        first, other = [*tasks.values()][:2]
        raise UserError(f"the tasks {first} and {other} have different scales; make a sheet for each")
    return rows


def _code(transcript: Transcript) -> str:
    parts = (transcript.id, transcript.question, stated_answer(transcript) or "")
    return "R" + short_hash("\n".join(parts).encode("utf-8", "replace"))


def write_sheet(results: Sequence[Results], out: Path, *, deferred: bool = False) -> int:
    """Write the answers of arms as a sheet (``.csv``); returns the number of answers to grade.

    Uses the questions without a failure in any arm; ``deferred``: only those that every arm deferred. Equal answers to
    a question share a row, and so do abstentions, which are filled in as a no. Rows are in the order of their codes,
    which is random: the first rows alone are a sample. The byte order mark is for Excel.
    UserError if the file exists, or the arms cannot share a sheet.
    """
    if out.suffix.lower() != ".csv":
        raise UserError("expected a file name ending in .csv", file=out)
    if out.exists():
        raise UserError("already exists and may be filled in; choose another --out", file=out)
    ids = _shared_ids(results, deferred=deferred)
    rows = {code: row for code, row in sorted(rows_of(results).items()) if row.id in ids}
    answers = sum(bool(row.answer) for row in rows.values())
    if not answers:
        raise UserError("the arms have no answers to grade")
    text = io.StringIO(newline="")
    table = csv.writer(text)
    scales = next(iter(rows.values())).scales
    table.writerow(["row", "question", "references", "answer", *scales, "gold"])
    for code, row in rows.items():
        filled = ("" if row.answer or scale == "quality" else "no" for scale in scales)
        table.writerow([code, *map(csv_cell, (row.question, row.golds, row.answer)), *filled, ""])
    with atomic_write(out) as sheet:
        sheet.write(text.getvalue().encode("utf-8-sig"))
    return answers


def _shared_ids(results: Sequence[Results], *, deferred: bool) -> set[str]:
    kinds = ("deferred",) if deferred else ("ok", "abstained", "deferred")
    of_arms = [{(t.id, t.question) for t in result.transcripts() if t.status in kinds} for result in results]
    if deferred and not any(of_arms):
        raise UserError("no answer is deferred; expected a run with --error-at-most")
    ids = {id_ for id_, _ in set.intersection(*of_arms)}
    if not ids:
        raise UserError("no question has a result in every arm")
    if left_out := len(set.union(*of_arms)) - len(ids):
        _log.warning("%d questions are left out, because an arm has no result for them", left_out)
    return ids


def _question_text(transcript: Transcript) -> str:
    """The question as a sheet shows it, with its options."""
    options = (f"({letter}) {choice}" for letter, choice in with_letters(transcript.choices))
    return "\n".join((transcript.question, *options))


def _words(text: str) -> tuple[str, ...]:
    """The words of a text. Spreadsheet programs keep words, but change line breaks and apostrophes."""
    return tuple(re.findall(r"\w+", text))


def read_sheet(path: Path, rows: Mapping[str, SheetRow]) -> SheetGrades:
    """The grades of one person. Cells may be empty and rows missing, since people may share a sheet.

    ``rows``: :func:`rows_of` the runs that the sheet was made from. Columns are in any order, separated by commas,
    semicolons or tabs. UserError names the first wrong line.
    """
    scales = next(iter(rows.values())).scales if rows else ()
    grades: dict[str, dict[str, float]] = {}
    seen: dict[str, int] = {}
    for line, cells in sheet_rows(path, ["row", *scales]):
        code = cells["row"]
        refuse_repeated(seen, code, line, file=path, what=f"row {code}")
        if code not in rows:
            raise UserError(f"column 'row': found {code!r}, which is no answer of these runs", file=path, line=line)
        row_grades = {name: _grade(cells[name], name, path, line) for name in scales}
        grades[code] = {name: grade for name, grade in row_grades.items() if grade is not None}
    if not any(grades[code] for code in grades if rows[code].answer):
        raise UserError(f"has no grades; expected grades in {', '.join(scales)}", file=path)
    return grades


def _grade(cell: str, scale: Scale, path: Path, line: int) -> float | None:
    if not cell:
        return None
    if cell.casefold() not in _SCALES[scale]:
        expected = "1 to 5" if scale == "quality" else "yes or no"
        raise UserError(f"column {scale!r}: found {cell[:60]!r}; expected {expected}", file=path, line=line)
    return _SCALES[scale][cell.casefold()]


def with_corrections(arms: Sequence[Results], path: Path) -> list[Results]:
    """The arms with the gold answers that a sheet corrects.

    An answer with ``yes`` in ``right`` joins the gold answers of its question, unless it counts as right already. A
    question with ``wrong`` in ``gold`` loses its gold answers; means exclude it. The sheet is a filled one of
    :func:`write_sheet`, or has the columns ``question``, ``answer``, ``right`` and ``gold``. Questions are known by
    their words. UserError names the first wrong line, or if no arm has a question of the sheet.
    """
    known = {words for arm in arms for each in arm.transcripts() for words in _names_of(each)}
    accepted: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    wrong, others = set(), 0
    for line, cells in sheet_rows(path, ["question", "answer", "right", "gold"]):
        is_right = _grade(cells["right"], "right", path, line)
        if cells["gold"].casefold() not in ("", "wrong"):
            raise UserError(f"column 'gold': found {cells['gold'][:60]!r}; expected wrong", file=path, line=line)
        if needed := [name for name in ("question", "answer") if not cells[name] and (is_right or name == "question")]:
            raise UserError(f"column {needed[0]!r} is empty", file=path, line=line)
        question = _words(cells["question"])
        if not (cells["gold"] or is_right):
            continue
        if question not in known:
            others += 1
        elif cells["gold"]:
            wrong.add(question)
        else:
            accepted[question].append(re.sub(r"^'(?=[=+\-@\t\r])", "", cells["answer"]))
    if others and not (accepted or wrong):
        raise UserError("--corrections: no question of the sheet is in these results")
    note = (
        f"{count_of(sum(map(len, accepted.values())), 'answer')} accepted, "
        f"{count_of(len(wrong), 'question')} left out by corrections"
    )

    def corrected_transcripts(arm: Results) -> Iterator[Transcript]:
        for t in arm.transcripts():
            names = _names_of(t)
            answers = [answer for name in names for answer in accepted.get(name, ())]
            further = [answer for answer in answers if correct(replace(t, answer=answer, status="ok")) != 1]
            yield replace(t, answers=() if names & wrong else tuple(dict.fromkeys((*t.answers, *further))))

    return [replace(arm, transcripts=partial(corrected_transcripts, arm), corrected=note) for arm in arms]


def _names_of(transcript: Transcript) -> set[tuple[str, ...]]:
    return {_words(transcript.question), _words(_question_text(transcript))}


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Agreement of two people, or of a person and a binary metric or grader."""

    person: str
    other: str
    scale: str
    n: int
    """Answers that both graded."""
    kappa: float | None

    def __str__(self) -> str:
        shown = "undefined" if self.kappa is None else f"{self.kappa:.2f}"
        return f"{self.person} and {self.other}, {self.scale}: kappa {shown}, n = {self.n:,}"


def keep_grades(results: Sequence[Results], sheets: Mapping[str, Path]) -> tuple[list[Agreement], int]:
    """Store the grades of filled sheets (person -> file) with the arms.

    The grades become ``human_right``, ``human_quality``, ..., values like others: an answer has the mean of its grades,
    an abstention in the sheet is a no. Answers in no sheet have no value. UserError names the first wrong line of a
    sheet.

    Returns the agreement of people with each other and with metrics, and the number of answers in the sheets that lack
    a grade on some scale.
    """
    rows = rows_of(results)
    people = {name: read_sheet(path, rows) for name, path in sheets.items()}
    scales = next(iter(rows.values())).scales
    by_scale: dict[str, dict[str, list[float]]] = {
        scale: {code: [each[code][scale] for each in people.values() if scale in each.get(code, {})] for code in rows}
        for scale in scales
    }
    who = f"{len(people)} of people: {', '.join(people)}"
    for arm, scale in product(results, scales):
        answers = answers_of(arm.transcripts())
        stored, left_out = {}, 0
        for t in arm.transcripts():
            if t.status in ("ok", "abstained") and (grades := by_scale[scale][_code(t)]):
                stored[t.id, t.repeat] = fmean(grades)
            elif (t.id, t.repeat) in answers:
                left_out += 1
        missing = {"not graded by people": left_out} if left_out else {}
        keep_scores(arm.path, f"{HUMAN}{scale}", answers, command=who, scores=stored, missing=missing)
    in_sheets = {code for grades in people.values() for code in grades if rows[code].answer}
    ungraded = sum(not all(by_scale[scale][code] for scale in scales) for code in in_sheets)
    return [*_agreement(rows, people, scales)], ungraded


def _agreement(
    rows: Mapping[str, SheetRow], sheets: Mapping[str, SheetGrades], scales: Sequence[Scale]
) -> Iterator[Agreement]:
    metrics: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for code, row in rows.items():
        for name, value in row.metrics.items():
            metrics[name][code] = value
    # The values of an external scorer are the only sign that it is binary.
    binary = {name: by for name, by in metrics.items() if is_binary(name) or {*by.values()} <= {0, 1}}
    for scale in scales:
        people = {
            name: {code: grades[scale] for code, grades in of.items() if scale in grades and rows[code].answer}
            for name, of in sheets.items()
        }
        others = {} if scale == "quality" else binary
        for one, other in (*combinations(people, 2), *product(people, others)):
            yield from _agreement_of((one, other), people[one], {**others, **people}[other], scale)


def _agreement_of(
    names: tuple[str, str], left: Mapping[Any, float], right: Mapping[Any, float], scale: str
) -> Iterator[Agreement]:
    if both := [place for place in left if place in right]:
        k = kappa([left[each] for each in both], [right[each] for each in both], ordinal=scale == "quality")
        yield Agreement(person=names[0], other=names[1], scale=scale, n=len(both), kappa=k)


def kappa(left: Sequence[float], right: Sequence[float], *, ordinal: bool = False) -> float | None:
    """Cohen's kappa (1960) of two judges, with quadratic weights (1968) on an ordinal scale.

    None if all grades are the same or there are none.
    """
    if len({*left, *right}) < 2:
        return None

    def distance(one: float, other: float) -> float:
        return (one - other) ** 2 if ordinal else float(one != other)

    ours, theirs = Counter(left), Counter(right)
    observed = sum(map(distance, left, right))
    by_chance = sum(n * m * distance(one, other) for one, n in ours.items() for other, m in theirs.items())
    return 1 - observed * len(left) / by_chance


def grader_agreement(arms: Sequence[Results]) -> list[Agreement]:
    """Agreement of each two graders. An answer to a question counts once, in however many arms it is."""
    graded: dict[str, dict[tuple[str, str, str], float]] = {}
    models: dict[str, str] = {}
    for arm in arms:
        answers = answers_of(arm.transcripts())
        for name, values in external_values(arm).items():
            if is_grader(name):
                models[name] = grader_of(arm, name) or name
                for key in answers.keys() & values.keys():
                    question, answer = answers[key]
                    graded.setdefault(name, {})[question.id, question.question, answer] = values[key]
    pairs = combinations(graded, 2)
    return [each for a, b in pairs for each in _agreement_of((models[a], models[b]), graded[a], graded[b], "right")]
