"""Human grading: write a blind sheet of answers and its key, and score filled sheets."""

import csv
import io
import logging
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, Field, FiniteFloat

from madke._util.assets import require
from madke._util.files import atomic_write, refuse_repeated, sheet_rows
from madke._util.yaml_file import read_json
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.signals import stated_answer
from madke.report.tables import Cell, Table, count_cell, csv_cell, percent_cell, score_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.scoring.outside import external_values
from madke.scoring.statistics import Estimate
from madke.tasks import get_task
from madke.tasks.base import Scale
from madke.tasks.choice import lettered

_log = logging.getLogger(__name__)

_YES_NO = {"yes": 1.0, "no": 0.0}
_QUALITY = {str(n): float(n) for n in range(1, 6)}
_SCALES: Mapping[Scale, Mapping[str, float]] = {"right": _YES_NO, "ambiguity_resolved": _YES_NO, "quality": _QUALITY}
"""Column to fill -> allowed cell -> value. Translations have the last two (Liang et al., section 4.1)."""
F1_RIGHT = 0.5
"""Lowest F1 of an answer that counts as right (EVOUNA; Wang et al., 2023)."""

SheetGrades = Mapping[str, Mapping[str, float]]
"""Row code -> scale -> grade, without empty rows and cells."""


class KeyRow(BaseModel, frozen=True, extra="forbid"):
    """One row of the sheet, with what annotators must not see."""

    id: str
    shown: str
    answer: str | None = None
    """None in keys of earlier versions."""
    given: tuple[str, ...] = ()
    """The arms that gave the answer, once per repeat."""
    metrics: Mapping[str, FiniteFloat]
    """Scores of metrics, graders and scorers for the answer when the sheet was made."""
    cells: tuple[str, ...] = Field((), exclude=True)


class SheetKey(BaseModel, frozen=True, extra="forbid"):
    """The key of a sheet, which annotators must not see."""

    scales: tuple[Scale, ...]
    arms: tuple[str, ...]
    rows: Mapping[str, KeyRow]
    abstained: tuple[tuple[str, str], ...]
    """Arm and question id of each abstention, which counts as wrong without grading."""


def write_sheet(
    results: Sequence[Results], out: Path, *, sample: int | None = None, seed: int = 0, deferred: bool = False
) -> tuple[Path, SheetKey]:
    """Write the answers of arms as a sheet, ``sheet.csv``, with its key in ``sheet.key.json``.

    Uses the questions without a failure in any arm, or a random sample of them; ``deferred``: only those that every arm
    deferred. Equal answers to a question share a row. Rows are in random order. The byte order mark is for Excel.
    Returns the path of the key, and the key. UserError
    if a file exists, or the arms cannot share a sheet.
    """
    key_file = out.with_suffix(".key.json")
    if out.suffix.lower() != ".csv":
        raise UserError("expected a file name ending in .csv", file=out)
    if existing := [file for file in (out, key_file) if file.exists()]:
        raise UserError("already exists and may be filled in; choose another --out", file=existing[0])
    draw, ids = random.Random(seed), _shared_ids(results, deferred=deferred)
    if sample is not None and sample > len(ids):
        raise UserError(f"--sample {sample}: only {len(ids)} questions have a result in every arm")
    found, abstained, scales = _answers(results, set(ids if sample is None else draw.sample(ids, sample)))
    draw.shuffle(found)
    codes = [f"R{n:0{len(str(len(found)))}}" for n in range(1, len(found) + 1)]
    rows, arms = dict(zip(codes, found, strict=True)), tuple(result.name for result in results)
    key = SheetKey(scales=scales, arms=arms, rows=rows, abstained=tuple(abstained))
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["row", "question", "references", "answer", *scales])
    for code, row in rows.items():
        table.writerow([code, *map(csv_cell, row.cells), *("" for _ in scales)])
    with atomic_write(key_file) as keys, atomic_write(out) as sheet:
        keys.write(key.model_dump_json(indent=2).encode() + b"\n")
        sheet.write(text.getvalue().encode("utf-8-sig"))
    return key_file, key


def _shared_ids(results: Sequence[Results], *, deferred: bool) -> list[str]:
    kinds = ("deferred",) if deferred else ("ok", "abstained", "deferred")
    held = [{(t.id, t.question) for t in result.transcripts() if t.status in kinds} for result in results]
    if deferred and not any(held):
        raise UserError("no answer is deferred; expected a run with --error-at-most")
    ids = sorted(id_ for id_, _ in set.intersection(*held))
    if not ids:
        raise UserError("no question has a result in every arm")
    if left_out := len(set.union(*held)) - len(ids):
        _log.warning("%d questions are left out, because an arm has no result for them", left_out)
    return ids


_Abstained = list[tuple[str, str]]


def _answers(results: Sequence[Results], chosen: set[str]) -> tuple[list[KeyRow], _Abstained, tuple[Scale, ...]]:
    answers: dict[tuple[str, str], KeyRow] = {}
    abstained = []
    scales: dict[tuple[Scale, ...], str] = {}
    for result in results:
        outside = external_values(result)
        for t in result.transcripts():
            if t.id not in chosen or t.status == "failed":
                continue
            scales.setdefault(tuple(get_task(t.task).scales), t.task)
            if (answer := stated_answer(t)) is None:
                abstained.append((result.name, t.id))
                continue
            row = answers.get((t.id, answer)) or _row(t, answer)
            scores = {name: each[t.id, t.repeat] for name, each in outside.items() if (t.id, t.repeat) in each}
            update = {"given": (*row.given, result.name), "metrics": {**scores, **row.metrics}}
            answers[t.id, answer] = row.model_copy(update=update)
    if not answers:
        raise UserError("the arms have no answers to grade")
    if len(scales) > 1:
        first, other = scales.values()
        raise UserError(f"the tasks {first} and {other} have different scales; make a sheet for each")
    return [answers[key] for key in sorted(answers)], abstained, next(iter(scales))


def _row(transcript: Transcript, answer: str) -> KeyRow:
    question = question_of(transcript)
    options = (f"({letter}) {choice}" for letter, choice in lettered(transcript.choices))
    names = metrics_of(get_task(transcript.task)) if transcript.answers else ()
    metrics = {name: METRICS[name](answer, question) for name in names}
    cells = ("\n".join((transcript.question, *options)), " | ".join(transcript.answers), answer)
    return KeyRow(id=transcript.id, shown=cells[0], answer=answer, cells=cells, metrics=metrics)


def read_key(path: Path) -> SheetKey:
    """The key of a sheet. UserError if the file is not a key."""
    return read_json(path, SheetKey, "is not a key that `madke annotate sheet` wrote")


def read_sheet(path: Path, key: SheetKey) -> SheetGrades:
    """The grades of one person. Cells may be empty and rows missing, since people may share a sheet.

    Columns are in any order, separated by commas, semicolons or tabs. UserError names the first wrong line.
    """
    grades: dict[str, dict[str, float]] = {}
    seen: dict[str, int] = {}
    for line, cells in _cells(path, ["row", "question", *key.scales]):
        code, wrong = cells["row"], ""
        refuse_repeated(seen, code, line, file=path, what=f"row {code}")
        filled = {name: cells[name] for name in key.scales if cells[name]}
        odd = [name for name, cell in filled.items() if cell.casefold() not in _SCALES[name]]
        if code not in key.rows:
            wrong = f"column 'row': found {code!r}, which is not in the key"
        # Spreadsheet programs change line breaks and apostrophes, but not words.
        elif re.findall(r"\w+", cells["question"]) != re.findall(r"\w+", key.rows[code].shown):
            wrong = f"row {code}, column 'question': found {cells['question'][:60]!r}, which differs from the key"
        elif odd:
            expected = "1 to 5" if odd[0] == "quality" else "yes or no"
            wrong = f"row {code}, column {odd[0]!r}: found {filled[odd[0]][:60]!r}; expected {expected}"
        if wrong:
            raise UserError(wrong, file=path, line=line)
        grades[code] = {name: _SCALES[name][cell.casefold()] for name, cell in filled.items()}
    if not any(grades.values()):
        raise UserError(f"has no grades; expected grades in {', '.join(key.scales)}", file=path)
    return grades


def _cells(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> stripped cell) of every row that is not empty."""
    for line, row in sheet_rows(path, needed):
        cells = {name: cell.strip() for name, cell in row.items()}
        if any(cells.values()):
            yield line, cells


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoJudges:
    """Agreement of two people, or of a person and a binary metric, on the rows that both graded."""

    person: str
    other: str
    is_metric: bool
    scale: str
    n: int
    same: Estimate
    """Share of rows with the same grade, averaged by question, with an interval over questions."""
    kappa: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanScores:
    """Results of human grading."""

    scores: Mapping[str, Mapping[str, Estimate]]
    """Arm -> scale -> mean over questions. An abstention counts as ``no`` and has no quality."""
    compared: tuple[TwoJudges, ...]
    ungraded: int
    """Rows that lack a grade on some scale. That scale's mean excludes them."""
    abstained: Mapping[str, int]


def human_scores(key: SheetKey, sheets: Mapping[str, SheetGrades]) -> HumanScores:
    """Scores by arm, and agreement of people with each other and with metrics. ``sheets``: person -> grades."""
    given = {
        name: {code: [each[code][name] for each in sheets.values() if name in each.get(code, {})] for code in key.rows}
        for name in key.scales
    }
    means = {arm: {name: _mean(arm, name, key, given[name]) for name in key.scales} for arm in key.arms}
    return HumanScores(
        scores={arm: {name: mean for name, mean in each.items() if mean} for arm, each in means.items()},
        compared=tuple(_compared(key, sheets)),
        ungraded=sum(not all(given[name][code] for name in key.scales) for code in key.rows),
        abstained={arm: sum(each == arm for each, _ in key.abstained) for arm in key.arms},
    )


def _mean(arm: str, scale: Scale, key: SheetKey, given: Mapping[str, Sequence[float]]) -> Estimate | None:
    rows: defaultdict[str, list[float]] = defaultdict(list)
    for code, row in key.rows.items():
        for _ in range(row.given.count(arm) if given[code] else 0):
            rows[row.id].append(fmean(given[code]))
    for each, id_ in key.abstained if scale != "quality" else ():
        if each == arm:
            rows[id_].append(0.0)
    return over_repeats(list(rows.values()))


def _compared(key: SheetKey, sheets: Mapping[str, SheetGrades]) -> Iterator[TwoJudges]:
    metrics: dict[str, dict[str, float]] = {}
    for code, row in key.rows.items():
        for name, value in row.metrics.items():
            metrics.setdefault(name, {})[code] = value
    if "f1" in metrics:
        metrics[f"f1 >= {F1_RIGHT}"] = {code: float(value >= F1_RIGHT) for code, value in metrics.pop("f1").items()}
    # The values of an external scorer are the only sign that it is binary.
    binary = [(name, by) for name, by in metrics.items() if is_binary(name) or {*by.values()} <= {0, 1}]
    for scale in key.scales:
        ordinal = scale == "quality"
        people = [
            (name, {code: row[scale] for code, row in held.items() if scale in row}) for name, held in sheets.items()
        ]
        pairs = [(two, False) for two in combinations(people, 2)]
        pairs += [(two, True) for two in product(people, () if ordinal else binary)]
        for ((person, ours), (other, theirs)), is_metric in pairs:
            both = [code for code in ours if code in theirs]
            equal: defaultdict[str, list[float]] = defaultdict(list)
            for code in both:
                equal[key.rows[code].id].append(float(ours[code] == theirs[code]))
            if same := over_repeats(list(equal.values())):
                k = kappa([ours[n] for n in both], [theirs[n] for n in both], ordinal=ordinal)
                who = partial(TwoJudges, person=person, other=other, is_metric=is_metric, scale=scale)
                yield who(n=len(both), same=same, kappa=k)


def kappa(left: Sequence[float], right: Sequence[float], *, ordinal: bool = False) -> float | None:
    """Cohen's kappa (1960) of two judges, with quadratic weights (1968) on an ordinal scale.

    None if all grades are the same or there are none. UserError if scikit-learn is missing.
    """
    require("agreement of people needs", "report", "sklearn")
    from sklearn.metrics import cohen_kappa_score

    if len({*left, *right}) < 2:
        return None
    steps = list(range(int(min(*left, *right)), int(max(*left, *right)) + 1))
    return float(cohen_kappa_score(left, right, labels=steps, weights="quadratic" if ordinal else None))


def human_tables(found: HumanScores) -> tuple[Table, Table]:
    """Tables of grades by arm, and of agreement."""
    scales = dict.fromkeys(name for scores in found.scores.values() for name in scores)
    rows = []
    for arm, scores in found.scores.items():
        means = [(scores.get(name), score_cell if name == "quality" else percent_cell) for name in scales]
        cells = [cell for mean, shown in means for cell in (shown(mean), count_cell(mean.n if mean else 0))]
        rows.append((Cell(text=arm), *cells, count_cell(found.abstained[arm])))
    headings = [text for name in scales for text in (name if name == "quality" else f"{name} %", f"n of {name}")]
    note = "Means of people's grades over questions, with 95 % intervals; an abstention is a no, and has no quality."
    people = Table(title="Grades", columns=("arm", *headings, "abst."), rows=tuple(rows), notes=(note,))
    judges = []
    for each in found.compared:
        words = (Cell(text=text) for text in (each.person, each.other, each.scale))
        judges.append((*words, count_cell(each.n), percent_cell(each.same), score_cell(each.kappa, digits=".2f")))
    note = (
        "same: share of equal grades for the n answers that both graded, averaged by question, with a 95 % interval "
        "over questions. kappa: Cohen's, with quadratic weights for quality."
    )
    columns = ("person", "and", "scale", "n", "same %", "kappa")
    return people, Table(title="Agreement", columns=columns, rows=tuple(judges), notes=(note,))
