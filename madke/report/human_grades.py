"""Grades of people as scores of the runs whose answers they graded, next to metrics, graders and scorers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from madke.core.errors import UserError
from madke.report.annotation import SheetGrades, SheetKey
from madke.scoring.arms import Results
from madke.scoring.outside import answers_of, keep_scores
from madke.scoring.value_units import HUMAN
from madke.tasks.base import Scale

_NOT_GRADED = "not graded by people"


def join_grades(results: Sequence[Results], key: SheetKey, sheets: Mapping[str, SheetGrades]) -> None:
    """Store people's grades with the arms: ``human_right``, ``human_quality``, ... are then values like others.

    An answer has the mean of its grades. An abstention in the sheet's sample is a no, and has no quality. Answers
    that are not in the sheet have no value. ``sheets``: person -> grades.

    Raises:
        UserError: The key is of an earlier version, or the sheet has no answer of an arm.
    """
    if any(row.answer is None for row in key.rows.values()):
        raise UserError(
            "the key has no answers: an earlier version of madke wrote it; make a new sheet to join its grades"
        )
    if strange := [arm for arm in results if arm.name not in key.arms]:
        message = f"the sheet has no answers of this run; it has those of {', '.join(key.arms)}"
        raise UserError(message, file=strange[0].path)
    for arm in results:
        for scale in key.scales:
            _join(arm, scale, key, sheets)


def _join(arm: Results, scale: Scale, key: SheetKey, sheets: Mapping[str, SheetGrades]) -> None:
    given = {
        (row.id, row.answer): [each[code][scale] for each in sheets.values() if scale in each.get(code, {})]
        for code, row in key.rows.items()
        if arm.name in row.given
    }
    answers = answers_of(arm.transcripts())
    graded = {place: given.get((place[0], answer), []) for place, (_, answer) in answers.items()}
    scores = {place: fmean(grades) for place, grades in graded.items() if grades}
    if scale != "quality":
        silent = {id_ for name, id_ in key.abstained if name == arm.name}
        scores |= {(t.id, t.repeat): 0.0 for t in arm.transcripts() if t.status == "abstained" and t.id in silent}
    left_out = sum(not grades for grades in graded.values())
    missing = {_NOT_GRADED: left_out} if left_out else {}
    people = f"{len(sheets)} of people: {', '.join(sheets)}"
    keep_scores(arm.path, f"{HUMAN}{scale}", answers, command=people, scores=scores, missing=missing)
