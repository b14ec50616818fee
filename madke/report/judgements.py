"""What people said of answers: filled sheets read back, scores by arm, agreement with each other and with metrics."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from madke.core.errors import UserError
from madke.report.annotation import FIXED, SCALES, Scale, SheetKey
from madke.scoring.agreement import Agreement, agreement, one_judge_interval, rank_agreement
from madke.scoring.metrics import METRICS, RIGHT_OR_WRONG
from madke.scoring.rows import over_questions
from madke.scoring.statistics import Estimate

Grades = Mapping[str, Mapping[str, float]]
"""Row code -> scale -> grade; rows and scales that were left empty are not in it."""

_Given = Mapping[str, tuple[float, ...]]
"""Scale -> the grades of all who graded a row; a scale on which nobody did is not in it."""

F1_RIGHT = 0.5
"""From which F1 on an answer counts as right beside people, who know no degrees (EVOUNA; Wang et al., 2023)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoJudges:
    """Two judges of the same rows: two people, or a person and a metric."""

    person: str
    other: str
    """Another person's sheet, or a metric."""
    is_metric: bool
    scale: str
    n: int
    """Rows that both graded."""
    questions: int
    """Those that they answer."""
    agreement: Agreement | None
    """None where one grades right or wrong and the other has degrees."""
    tau: float | None
    """Kendall's tau-b of a metric and a person where there is no agreement to count; None too where one of them says
    the same of all rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanScores:
    """What people found."""

    scores: Mapping[str, Mapping[str, Estimate]]
    """Arm -> scale -> the mean over questions, of a row's grades by several people first, then of repeats; where
    people differ, with the interval of one person's grades (:func:`madke.scoring.agreement.one_judge_interval`).
    Abstentions count as ``no``; a grade of quality they do not have."""
    compared: tuple[TwoJudges, ...]
    graded: Mapping[str, int]
    """Sheet -> rows of which it grades something."""
    ungraded: int
    """Rows that nobody graded on every scale; in no mean."""
    abstained: Mapping[str, int]
    """Arm -> abstentions."""


def read_sheet(path: Path, key: SheetKey) -> Grades:
    """The grades of one person.

    A cell that is empty is a grade not given, a row that is missing one not graded: annotators may share a sheet.
    Columns may stand in any order, separated by commas, semicolons or tabs, as spreadsheet programs write them.

    Args:
        path: The filled sheet.
        key: The key that was written with it.

    Raises:
        UserError: The file is no such sheet, or not in UTF-8; a row stands twice, or is none of the key's, or its
            question is another; a cell holds no grade.
    """
    scales = [SCALES[name] for name in key.scales]
    grades: dict[str, dict[str, float]] = {}
    line_of: dict[str, int] = {}
    for line, cells in _rows(path, [*FIXED[:2], *key.scales]):
        code = cells["row"]
        if code not in key.rows:
            raise UserError(f"column 'row': found {code!r}, which the key does not hold", file=path, line=line)
        if code in line_of:
            found = f"row {code} stands on line {line_of[code]} already; expected each once"
            raise UserError(found, file=path, line=line)
        line_of[code] = line
        if _words(cells["question"]) != _words(key.rows[code].shown):
            found = f"row {code}, column 'question': found {cells['question'][:60]!r}, another question than in the key"
            raise UserError(
                f"{found}; expected the sheet that the key was written with, its rows whole", file=path, line=line
            )
        given = {scale.name: _grade(cells[scale.name], scale, code, path, line) for scale in scales}
        grades[code] = {name: grade for name, grade in given.items() if grade is not None}
    if not any(grades.values()):
        raise UserError(f"nothing is filled in; expected grades in {', '.join(key.scales)}", file=path)
    return grades


def human_scores(key: SheetKey, sheets: Mapping[str, Grades]) -> HumanScores:
    """Scores by arm, and agreement of each two people, and of each with every metric.

    Args:
        key: The key to all sheets.
        sheets: A person's name -> their grades.
    """
    given = {code: _given([grades.get(code, {}) for grades in sheets.values()], key.scales) for code in key.rows}
    pairs = [
        compared
        for (one, ours), (other, theirs) in combinations(sheets.items(), 2)
        for name in key.scales
        if (compared := _people(one, ours, other, theirs, key, SCALES[name]))
    ]
    metrics = dict.fromkeys(name for row in key.rows.values() for name in row.metrics)
    against = [
        compared
        for person, grades in sheets.items()
        for name in key.scales
        for metric in metrics
        if (compared := _metric(person, grades, metric, key, SCALES[name]))
    ]
    return HumanScores(
        scores={arm: dict(_scores(arm, key, given)) for arm in key.arms},
        compared=(*pairs, *against),
        graded={person: sum(bool(given) for given in grades.values()) for person, grades in sheets.items()},
        ungraded=sum(len(found) < len(key.scales) for found in given.values()),
        abstained={arm: sum(each.arm == arm for each in key.abstained) for arm in key.arms},
    )


def _given(given: Sequence[Mapping[str, float]], scales: Sequence[str]) -> _Given:
    """Several people's grades of one row."""
    grades = {name: tuple(each[name] for each in given if name in each) for name in scales}
    return {name: found for name, found in grades.items() if found}


def _rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> cell without white space around it) of every row that is not empty."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8; save it as 'CSV UTF-8'", file=path) from None
    heading = text.partition("\n")[0]
    delimiter = max(",;\t", key=heading.count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        if missing := [name for name in needed if name not in (table.fieldnames or ())]:
            found = ", ".join(repr(name) for name in table.fieldnames or ()) or "nothing"
            raise UserError(f"there is no column {missing[0]!r}; found {found:.200}", file=path, line=1)
        for row in table:
            cells = {name: (row[name] or "").strip() for name in needed}
            if any(cells.values()):
                yield table.line_num, cells
    except csv.Error as error:
        raise UserError(f"is no table: {error}", file=path, line=table.line_num) from None


def _words(text: str) -> list[str]:
    """What spreadsheet programs leave of a text: its words, not its line breaks or a leading apostrophe."""
    return re.findall(r"\w+", text)


def _grade(cell: str, scale: Scale, code: str, path: Path, line: int) -> float | None:
    if not cell:
        return None
    if (grade := scale.grades.get(cell.casefold())) is None:
        found = f"row {code}, column {scale.name!r}: found {cell[:60]!r}; expected {scale.expected}"
        raise UserError(found, file=path, line=line)
    return grade


def _scores(arm: str, key: SheetKey, given: Mapping[str, _Given]) -> Iterator[tuple[str, Estimate]]:
    rows: dict[str, list[_Given]] = {}
    for code, row in key.rows.items():
        for by in row.given:
            if by.arm == arm:
                rows.setdefault(row.id, []).append(given[code])
    wrong = {name: (0.0,) for name in key.scales if not SCALES[name].ordinal}
    for each in key.abstained:
        if each.arm == arm:
            rows.setdefault(each.id, []).append(wrong)
    for name in key.scales:
        grades = {id_: found for id_, held in rows.items() if (found := [row[name] for row in held if name in row])}
        means = {id_: [{name: sum(row) / len(row)} for row in found] for id_, found in grades.items()}
        if mean := over_questions(means, name):
            if any(len(set(row)) > 1 for found in grades.values() for row in found):
                low, high = one_judge_interval(list(grades.values()))
                mean = replace(mean, low=low, high=high)
            yield name, mean


def _people(one: str, ours: Grades, other: str, theirs: Grades, key: SheetKey, scale: Scale) -> TwoJudges | None:
    both = [code for code in ours if scale.name in ours[code] and scale.name in theirs.get(code, {})]
    left, right = ([grades[code][scale.name] for code in both] for grades in (ours, theirs))
    if not both:
        return None
    questions = [key.rows[code].id for code in both]
    return TwoJudges(
        person=one,
        other=other,
        is_metric=False,
        scale=scale.name,
        n=len(both),
        questions=len(set(questions)),
        agreement=agreement(left, right, questions, ordinal=scale.ordinal),
        tau=None,
    )


def _metric(person: str, grades: Grades, metric: str, key: SheetKey, scale: Scale) -> TwoJudges | None:
    both = [code for code in grades if scale.name in grades[code] and metric in key.rows[code].metrics]
    if not both:
        return None
    left = [grades[code][scale.name] for code in both]
    right = [key.rows[code].metrics[metric] for code in both]
    name = metric
    if metric == "f1":
        name, right = f"f1 >= {F1_RIGHT}", [float(value >= F1_RIGHT) for value in right]
    graded = not scale.ordinal and _is_right_or_wrong(metric, right)
    questions = [key.rows[code].id for code in both]
    return TwoJudges(
        person=person,
        other=name,
        is_metric=True,
        scale=scale.name,
        n=len(both),
        questions=len(set(questions)),
        agreement=agreement(left, right, questions) if graded else None,
        tau=None if graded else rank_agreement(left, right),
    )


def _is_right_or_wrong(metric: str, values: Sequence[float]) -> bool:
    """Whether a metric has no degrees. Of a scorer outside nothing is known but what it said."""
    if metric in METRICS:
        return metric == "f1" or metric in RIGHT_OR_WRONG
    return all(value in (0.0, 1.0) for value in values)
