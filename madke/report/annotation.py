"""Answers for people to grade: a blind sheet, the key to it, and what filled sheets say."""

from __future__ import annotations

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
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.files import atomic_write, refuse_repeated
from madke.report.tables import Cell, Table, count_cell, csv_cell, percent_cell, score_cell
from madke.scoring.arms import Results
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import METRICS, is_binary, metrics_of, question_of
from madke.scoring.outside import external_values
from madke.scoring.statistics import Estimate
from madke.tasks import get_task
from madke.tasks.choice import lettered

_log = logging.getLogger(__name__)

Scale = Literal["right", "ambiguity_resolved", "quality"]
_YES_NO = {"yes": 1.0, "no": 0.0}
_QUALITY = {str(n): float(n) for n in range(1, 6)}
_SCALES: Mapping[Scale, Mapping[str, float]] = {"right": _YES_NO, "ambiguity_resolved": _YES_NO, "quality": _QUALITY}
"""Column to fill -> what a cell may hold -> its value. Translations have the last two (Liang et al., section 4.1)."""
F1_RIGHT = 0.5
"""From which F1 on an answer counts as right (EVOUNA; Wang et al., 2023)."""

Grades = Mapping[str, Mapping[str, float]]
"""Row code -> scale -> grade; rows and scales that were left empty are not in it."""


class KeyRow(BaseModel):
    """What a row of the sheet is."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    shown: str
    """The question as the sheet shows it."""
    given: tuple[str, ...] = ()
    """The arms that gave the answer, an arm once for each repeat."""
    metrics: Mapping[str, FiniteFloat]
    """What metrics, graders and scorers outside said of the answer when the sheet was made."""
    cells: tuple[str, ...] = Field((), exclude=True)
    """The sheet's question, references and answer."""


class SheetKey(BaseModel):
    """What annotators must not see."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    scales: tuple[Scale, ...]
    arms: tuple[str, ...]
    rows: Mapping[str, KeyRow]
    abstained: tuple[tuple[str, str], ...]
    """Arm and question id, for each time that the arm gave no answer: wrong without being graded."""


def write_sheet(
    results: Sequence[Results], out: Path, *, sample: int | None = None, seed: int = 0
) -> tuple[Path, SheetKey]:
    """Write the answers of arms as a sheet to grade, ``sheet.csv``, and beside it the key, ``sheet.key.json``.

    The questions are those to which every arm has an outcome, or a random sample of so many. Equal answers to one
    question are one row, whoever gave them; rows stand in random order. The byte order mark is for Excel. Returns where
    the key is, and the key. UserError where a file is there already, or the arms cannot be on one sheet.
    """
    key_file = out.with_suffix(".key.json")
    if out.suffix.lower() != ".csv":
        raise UserError("expected a file name ending in .csv", file=out)
    if there := [file for file in (out, key_file) if file.exists()]:
        raise UserError("is there already, perhaps filled in; choose another --out", file=there[0])
    draw, ids = random.Random(seed), _shared(results)
    if sample is not None and sample > len(ids):
        raise UserError(f"--sample {sample}: there are {len(ids)} questions to which every arm has an outcome")
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


def _shared(results: Sequence[Results]) -> list[str]:
    """The ids of the questions to which every arm has an outcome, sorted."""
    held = [{(t.id, t.question) for t in result.transcripts() if t.status != "failed"} for result in results]
    ids = sorted(id_ for id_, _ in set.intersection(*held))
    if not ids:
        raise UserError("the arms have no question in common to which each has an outcome")
    if left_out := len(set.union(*held)) - len(ids):
        _log.warning("%d questions are left out: not every arm has an outcome for them", left_out)
    return ids


_Abstained = list[tuple[str, str]]


def _answers(results: Sequence[Results], chosen: set[str]) -> tuple[list[KeyRow], _Abstained, tuple[Scale, ...]]:
    """Each different answer to a question, abstentions, and what people grade."""
    answers: dict[tuple[str, str], KeyRow] = {}
    abstained = []
    scales: dict[tuple[Scale, ...], str] = {}
    for result in results:
        outside = external_values(result)
        for t in result.transcripts():
            if t.id not in chosen or t.status == "failed":
                continue
            scales.setdefault(("ambiguity_resolved", "quality") if t.task == "translation" else ("right",), t.task)
            if t.answer is None:
                abstained.append((result.name, t.id))
                continue
            row = answers.get((t.id, t.answer)) or _row(t, t.answer)
            said = {name: each[t.id, t.repeat] for name, each in outside.items() if (t.id, t.repeat) in each}
            update = {"given": (*row.given, result.name), "metrics": {**said, **row.metrics}}
            answers[t.id, t.answer] = row.model_copy(update=update)
    if not answers:
        raise UserError("the arms gave no answer that could be graded")
    if len(scales) > 1:
        first, other = scales.values()
        raise UserError(f"answers of the tasks {first} and {other} are graded differently; make a sheet for each")
    return [answers[key] for key in sorted(answers)], abstained, next(iter(scales))


def _row(transcript: Transcript, answer: str) -> KeyRow:
    question = question_of(transcript)
    options = (f"({letter}) {choice}" for letter, choice in lettered(transcript.choices))
    names = metrics_of(get_task(transcript.task)) if transcript.answers else ()
    metrics = {name: METRICS[name](answer, question) for name in names}
    cells = ("\n".join((transcript.question, *options)), " | ".join(transcript.answers), answer)
    return KeyRow(id=transcript.id, shown=cells[0], cells=cells, metrics=metrics)


def read_key(path: Path) -> SheetKey:
    """The key to a sheet; UserError where the file is not one."""
    try:
        return SheetKey.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except ValidationError:
        raise UserError("is not the key to a sheet, as `madke annotate sheet` writes it", file=path) from None


def read_sheet(path: Path, key: SheetKey) -> Grades:
    """The grades of one person; cells may be empty and rows missing, since annotators may share a sheet.

    Columns may stand in any order, separated by commas, semicolons or tabs. UserError names the line that is wrong.
    """
    grades: dict[str, dict[str, float]] = {}
    seen: dict[str, int] = {}
    for line, cells in _cells(path, ["row", "question", *key.scales]):
        code, wrong = cells["row"], ""
        refuse_repeated(seen, code, line, file=path, what=f"row {code}")
        filled = {name: cells[name] for name in key.scales if cells[name]}
        odd = [name for name, cell in filled.items() if cell.casefold() not in _SCALES[name]]
        if code not in key.rows:
            wrong = f"column 'row': found {code!r}, which the key does not hold"
        # Spreadsheet programs change line breaks and apostrophes, and leave words.
        elif re.findall(r"\w+", cells["question"]) != re.findall(r"\w+", key.rows[code].shown):
            wrong = f"row {code}, column 'question': found {cells['question'][:60]!r}, another question than in the key"
        elif odd:
            expected = "1 to 5" if odd[0] == "quality" else "yes or no"
            wrong = f"row {code}, column {odd[0]!r}: found {filled[odd[0]][:60]!r}; expected {expected}"
        if wrong:
            raise UserError(wrong, file=path, line=line)
        grades[code] = {name: _SCALES[name][cell.casefold()] for name, cell in filled.items()}
    if not any(grades.values()):
        raise UserError(f"nothing is filled in; expected grades in {', '.join(key.scales)}", file=path)
    return grades


def _cells(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> cell without white space around it) of every row that is not empty."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8; save it as 'CSV UTF-8'", file=path) from None
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=text.partition("\n")[0].count))
    if missing := [name for name in needed if name not in (table.fieldnames or ())]:
        raise UserError(f"there is no column {missing[0]!r}", file=path, line=1)
    for row in table:
        cells = {name: (row[name] or "").strip() for name in needed}
        if any(cells.values()):
            yield table.line_num, cells


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoJudges:
    """Two people, or a person and a metric of right and wrong, on the rows that both graded."""

    person: str
    other: str
    is_metric: bool
    scale: str
    n: int
    same: Estimate
    """The share of rows with the same grade, averaged by question; its interval is over questions."""
    kappa: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanScores:
    """What people found."""

    scores: Mapping[str, Mapping[str, Estimate]]
    """Arm -> scale -> the mean over questions. An abstention is a ``no``, and has no quality."""
    compared: tuple[TwoJudges, ...]
    ungraded: int
    """Rows that nobody graded on every scale. They are excluded from means."""
    abstained: Mapping[str, int]


def human_scores(key: SheetKey, sheets: Mapping[str, Grades]) -> HumanScores:
    """Scores by arm; agreement of each two people, and of each with every metric. ``sheets``: person -> grades."""
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


def _compared(key: SheetKey, sheets: Mapping[str, Grades]) -> Iterator[TwoJudges]:
    metrics: dict[str, dict[str, float]] = {}
    for code, row in key.rows.items():
        for name, value in row.metrics.items():
            metrics.setdefault(name, {})[code] = value
    if "f1" in metrics:
        metrics[f"f1 >= {F1_RIGHT}"] = {code: float(value >= F1_RIGHT) for code, value in metrics.pop("f1").items()}
    # Of a scorer outside nothing is known but what it said.
    binary = [(name, said) for name, said in metrics.items() if is_binary(name) or {*said.values()} <= {0, 1}]
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
    """Cohen's kappa (1960) of two judges of the same answers, of steps of a scale with quadratic weights (1968).

    None where both always gave the same grade, or there is none. UserError where scikit-learn is not installed.
    """
    try:
        from sklearn.metrics import cohen_kappa_score
    except ImportError:
        raise UserError("agreement of people needs scikit-learn: pip install 'madke[report]'") from None
    if len({*left, *right}) < 2:
        return None
    steps = list(range(int(min(*left, *right)), int(max(*left, *right)) + 1))
    return float(cohen_kappa_score(left, right, labels=steps, weights="quadratic" if ordinal else None))


def human_tables(found: HumanScores) -> tuple[Table, Table]:
    """People's grades by arm, and how far judges agree."""
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
        "Of the n answers that both graded: the share with the same grade, averaged by question, with a 95 % interval "
        "over questions; Cohen's kappa, of qualities weighted by squares."
    )
    columns = ("person", "and", "scale", "n", "same %", "kappa")
    return people, Table(title="Agreement", columns=columns, rows=tuple(judges), notes=(note,))
