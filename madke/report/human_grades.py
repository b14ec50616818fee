"""What people say of answers, on one sheet: blind grades, and corrections of gold answers.

A sheet has a row for each distinct answer to a question. People fill in ``right`` (translations: two scales), and
``gold`` where the gold answers are wrong. Graded, it gives scores of the runs; as corrections, it
changes gold answers.
"""

from __future__ import annotations

import csv
import io
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from pydantic import BaseModel, Field, FiniteFloat

from madke._util.files import atomic_write, refuse_repeated, sheet_rows
from madke._util.yaml_file import read_json
from madke.core.errors import UserError, count_of
from madke.core.transcript import Transcript
from madke.engine.deferral import stated_answer
from madke.report.files import csv_cell
from madke.report.tables import Table, TableRow, count_cell, percent_cell, score_cell, table_of
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct, over_repeats
from madke.scoring.metrics import HUMAN, METRICS, is_binary, is_grader, metrics_of, question_of
from madke.scoring.outside import answers_of, external_values, grader_of, keep_scores
from madke.scoring.statistics import Estimate
from madke.tasks import get_task
from madke.tasks.base import Scale
from madke.tasks.choice import lettered

_log = logging.getLogger(__name__)

_YES_NO = {"yes": 1.0, "no": 0.0}
_QUALITY = {str(n): float(n) for n in range(1, 6)}
_SCALES: Mapping[Scale, Mapping[str, float]] = {"right": _YES_NO, "ambiguity_resolved": _YES_NO, "quality": _QUALITY}
"""Column to fill -> allowed cell -> value. Translations have the last two (Liang et al., section 4.1)."""

_Place = TypeVar("_Place")
"""What is graded."""

SheetGrades = Mapping[str, Mapping[str, float]]
"""Row code -> scale -> grade, without empty rows and cells."""


class KeyRow(BaseModel, frozen=True, extra="forbid"):
    """One row of the sheet, with what annotators must not see."""

    id: str
    shown: str
    answer: str
    given: tuple[str, ...] = ()
    """The arms that gave the answer, once per repeat."""
    metrics: Mapping[str, FiniteFloat]
    """Scores of metrics, graders and scorers for the answer when the sheet was made."""
    golds: str = Field("", exclude=True)


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
    Returns the path of the key, and the key. UserError if a file exists, or the arms cannot share a sheet.
    """
    key_file = out.with_suffix(".key.json")
    if out.suffix.lower() != ".csv":
        raise UserError("expected a file name ending in .csv", file=out)
    if existing := [file for file in (out, key_file) if file.exists()]:
        raise UserError("already exists and may be filled in; choose another --out", file=existing[0])
    draw, ids = random.Random(seed), _shared_ids(results, deferred=deferred)
    if sample is not None and sample > len(ids):
        raise UserError(f"--sample {sample}: only {len(ids)} questions have a result in every arm")
    rows, abstained, scales = _answers(results, set(ids if sample is None else draw.sample(ids, sample)))
    draw.shuffle(rows)
    codes = (f"R{n:0{len(str(len(rows)))}}" for n in range(1, len(rows) + 1))
    arms = tuple(result.name for result in results)
    key = SheetKey(scales=scales, arms=arms, rows=dict(zip(codes, rows, strict=True)), abstained=tuple(abstained))
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["row", "question", "references", "answer", *scales, "gold"])
    for code, row in key.rows.items():
        table.writerow([code, *map(csv_cell, (row.shown, row.golds, row.answer)), *("" for _ in scales), ""])
    with atomic_write(key_file) as keys, atomic_write(out) as sheet:
        keys.write(key.model_dump_json(indent=2).encode() + b"\n")
        sheet.write(text.getvalue().encode("utf-8-sig"))
    return key_file, key


def _shared_ids(results: Sequence[Results], *, deferred: bool) -> list[str]:
    kinds = ("deferred",) if deferred else ("ok", "abstained", "deferred")
    of_arms = [{(t.id, t.question) for t in result.transcripts() if t.status in kinds} for result in results]
    if deferred and not any(of_arms):
        raise UserError("no answer is deferred; expected a run with --error-at-most")
    ids = sorted(id_ for id_, _ in set.intersection(*of_arms))
    if not ids:
        raise UserError("no question has a result in every arm")
    if left_out := len(set.union(*of_arms)) - len(ids):
        _log.warning("%d questions are left out, because an arm has no result for them", left_out)
    return ids


def _answers(
    results: Sequence[Results], chosen: set[str]
) -> tuple[list[KeyRow], list[tuple[str, str]], tuple[Scale, ...]]:
    """The rows, the abstentions (arm, question id), and the scales of the questions' task."""
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
    names = metrics_of(get_task(transcript.task)) if transcript.answers else ()
    metrics = {name: METRICS[name](answer, question) for name in names}
    golds = " | ".join(transcript.answers)
    return KeyRow(id=transcript.id, shown=_shown(transcript), answer=answer, golds=golds, metrics=metrics)


def _shown(transcript: Transcript) -> str:
    """The question as a sheet shows it, with its options."""
    options = (f"({letter}) {choice}" for letter, choice in lettered(transcript.choices))
    return "\n".join((transcript.question, *options))


def _words(text: str) -> tuple[str, ...]:
    """What a spreadsheet program leaves of a text: it changes line breaks and apostrophes, but not words."""
    return tuple(re.findall(r"\w+", text))


def read_key(path: Path) -> SheetKey:
    """The key of a sheet. UserError if the file is not a key."""
    return read_json(path, SheetKey, "is not a key that `madke annotate sheet` wrote")


def read_sheet(path: Path, key: SheetKey) -> SheetGrades:
    """The grades of one person. Cells may be empty and rows missing, since people may share a sheet.

    Columns are in any order, separated by commas, semicolons or tabs. UserError names the first wrong line.
    """
    grades: dict[str, dict[str, float]] = {}
    seen: dict[str, int] = {}
    for line, cells in _filled_rows(path, ["row", "question", *key.scales]):
        code = cells["row"]
        refuse_repeated(seen, code, line, file=path, what=f"row {code}")
        if code not in key.rows:
            raise UserError(f"column 'row': found {code!r}, which is not in the key", file=path, line=line)
        if _words(cells["question"]) != _words(key.rows[code].shown):
            found = f"row {code}, column 'question': found {cells['question'][:60]!r}, which differs from the key"
            raise UserError(found, file=path, line=line)
        given = {name: _grade(cells[name], name, path, line) for name in key.scales}
        grades[code] = {name: grade for name, grade in given.items() if grade is not None}
    if not any(grades.values()):
        raise UserError(f"has no grades; expected grades in {', '.join(key.scales)}", file=path)
    return grades


def _filled_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> stripped cell) of every row that is not empty."""
    for line, row in sheet_rows(path, needed):
        cells = {name: cell.strip() for name, cell in row.items()}
        if any(cells.values()):
            yield line, cells


def _grade(cell: str, scale: Scale, path: Path, line: int) -> float | None:
    if not cell:
        return None
    if cell.casefold() not in _SCALES[scale]:
        expected = "1 to 5" if scale == "quality" else "yes or no"
        raise UserError(f"column {scale!r}: found {cell[:60]!r}; expected {expected}", file=path, line=line)
    return _SCALES[scale][cell.casefold()]


_FORMULA = re.compile(r"^'(?=[=+\-@\t\r])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrections:
    """What a sheet changes in gold answers. Questions are known by their words, since a sheet has no ids."""

    accepted: Mapping[tuple[str, ...], Sequence[str]]
    """Question -> further right answers."""
    wrong: Collection[tuple[str, ...]]
    """Questions whose gold answers are wrong."""


def read_corrections(path: Path) -> Corrections:
    """What a sheet corrects: answers with ``yes`` in ``right``, and questions with ``wrong`` in ``gold``.

    It is a filled sheet of :func:`write_sheet`, or one with the columns ``question``, ``answer``, ``right`` and
    ``gold``. UserError names the first wrong line.
    """
    accepted: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    wrong = set()
    for line, cells in _filled_rows(path, ["question", "answer", "right", "gold"]):
        is_right = _grade(cells["right"], "right", path, line)
        if cells["gold"].casefold() not in ("", "wrong"):
            raise UserError(f"column 'gold': found {cells['gold'][:60]!r}; expected wrong", file=path, line=line)
        if needed := [name for name in ("question", "answer") if not cells[name] and (is_right or name == "question")]:
            raise UserError(f"column {needed[0]!r} is empty", file=path, line=line)
        question = _words(cells["question"])
        if cells["gold"]:
            wrong.add(question)
        elif is_right:
            accepted[question].append(_FORMULA.sub("", cells["answer"]))
    return Corrections(accepted=accepted, wrong=wrong)


def corrected(arms: Sequence[Results], corrections: Corrections) -> list[Results]:
    """The arms with corrected gold answers. UserError if no arm has a question of the sheet.

    An answer that is right joins the gold answers of its question, unless it counts as right already. A question with
    wrong gold answers loses them, so that it is in no mean.
    """
    known = {words for arm in arms for each in arm.transcripts() for words in _names_of(each)}
    accepted = {question: answers for question, answers in corrections.accepted.items() if question in known}
    wrong = known.intersection(corrections.wrong)
    if (corrections.accepted or corrections.wrong) and not (accepted or wrong):
        raise UserError("--corrections: no question of the sheet is in these results")
    note = (
        f"{count_of(sum(map(len, accepted.values())), 'answer')} accepted, "
        f"{count_of(len(wrong), 'question')} left out by corrections"
    )
    return [
        replace(arm, transcripts=partial(_corrected, arm.transcripts, accepted, wrong), corrected=note) for arm in arms
    ]


def _names_of(transcript: Transcript) -> set[tuple[str, ...]]:
    return {_words(transcript.question), _words(_shown(transcript))}


def _corrected(
    transcripts: Callable[[], Iterator[Transcript]],
    accepted: Mapping[tuple[str, ...], Sequence[str]],
    wrong: set[tuple[str, ...]],
) -> Iterator[Transcript]:
    for transcript in transcripts():
        names = _names_of(transcript)
        if names & wrong:
            yield replace(transcript, answers=())
            continue
        answers = [answer for name in names for answer in accepted.get(name, ())]
        further = [answer for answer in answers if correct(replace(transcript, answer=answer, status="ok")) != 1]
        yield replace(transcript, answers=tuple(dict.fromkeys((*transcript.answers, *further))))


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


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanScores:
    """Results of human grading."""

    scores: Mapping[str, Mapping[str, Estimate]]
    """Arm -> scale -> mean over questions. An abstention counts as ``no`` and has no quality."""
    agreement: tuple[Agreement, ...]
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
        agreement=tuple(_agreement(key, sheets)),
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


def _agreement(key: SheetKey, sheets: Mapping[str, SheetGrades]) -> Iterator[Agreement]:
    metrics: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for code, row in key.rows.items():
        for name, value in row.metrics.items():
            metrics[name][code] = value
    # The values of an external scorer are the only sign that it is binary.
    binary = {name: by for name, by in metrics.items() if is_binary(name) or {*by.values()} <= {0, 1}}
    for scale in key.scales:
        people = {name: {code: row[scale] for code, row in of.items() if scale in row} for name, of in sheets.items()}
        others = {} if scale == "quality" else binary
        for one, other in (*combinations(people, 2), *product(people, others)):
            yield from _agreement_of((one, other), people[one], {**others, **people}[other], scale)


def _agreement_of(
    names: tuple[str, str], left: Mapping[_Place, float], right: Mapping[_Place, float], scale: str
) -> Iterator[Agreement]:
    both = [place for place in left if place in right]
    if both:
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


def join_grades(results: Sequence[Results], key: SheetKey, sheets: Mapping[str, SheetGrades]) -> None:
    """Store people's grades with the arms: ``human_right``, ``human_quality``, ... are then values like others.

    An answer has the mean of its grades. An abstention in the sheet's sample is a no, and has no quality. Answers
    that are not in the sheet have no value. ``sheets``: person -> grades.
    UserError if the sheet has no answer of an arm.
    """
    if strange := [arm for arm in results if arm.name not in key.arms]:
        message = f"the sheet has no answers of this run; it has those of {', '.join(key.arms)}"
        raise UserError(message, file=strange[0].path)
    for arm, scale in product(results, key.scales):
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
    missing = {"not graded by people": left_out} if left_out else {}
    people = f"{len(sheets)} of people: {', '.join(sheets)}"
    keep_scores(arm.path, f"{HUMAN}{scale}", answers, command=people, scores=scores, missing=missing)


def human_table(found: HumanScores) -> Table:
    """Grades by arm, with kappa and the number of answers of each two who graded the same."""
    scales = dict.fromkeys(name for scores in found.scores.values() for name in scores)
    rows: list[TableRow] = []
    for arm, scores in found.scores.items():
        row: TableRow = {"arm": arm}
        for name in scales:
            mean, is_share = scores.get(name), name != "quality"
            row[f"{name} %" if is_share else name] = percent_cell(mean) if is_share else score_cell(mean)
            row[f"n of {name}"] = count_cell(mean.n if mean else 0)
        rows.append(row | {"abst.": count_cell(found.abstained[arm])})
    notes = [
        "Means of people's grades over questions, with 95 % intervals; an abstention is a no, and has no quality.",
        *(f"{each}." for each in found.agreement),
    ]
    return table_of("Grades", rows, notes)


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
