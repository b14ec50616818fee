"""``madke score``: compute scores of runs and of prediction files from the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say, say_json, say_wrapped
from madke.cli import flags
from madke.cli.flags import CALIBRATION, GRADING, OUTPUT, open_arms, option, refuse_overwriting, switch
from madke.core.errors import UserError, count_of
from madke.runs.directory import question_files

if TYPE_CHECKING:
    from madke._util.child_process import CommandScorer
    from madke.report.tables import TableRow
    from madke.scoring.arms import Results
    from madke.scoring.scores import Scores

    Rows = Mapping[str, Mapping[str | None, Scores]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_CONCURRENCY = 16
_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Shares of wrong answers for which a calibration shows thresholds."""

EPILOG = flags.epilog(
    flags.PREDICTION_FILES,
    flags.TASK_NAMES,
    "Grading: MODEL is named as for `madke run`. A COMMAND (COMET, BLEURT, ...) reads JSON lines of source, candidate "
    "and references, and answers each with a number. Grades and scores are kept in the run directory, or next to the "
    "prediction file: grades.sqlite, external.json. Finished grading calls are not repeated, "
    "also not for the same answer in another PATH. Two graders are compared by Cohen's kappa.",
    flags.PRICES,
    "Exit status: 0 done, 1 calls of the grader failed, 2 bad input, 130 interrupted.",
)


def command(
    paths: flags.Paths,
    data: flags.DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    corrections: flags.CorrectionsOption = None,
    grader: Annotated[
        str | None, option("Also let these models grade each answer; the first is the score.", "MODEL,...", GRADING)
    ] = None,
    base_url: Annotated[str | None, option("Endpoint of an openai/ or azure/ grader.", "URL", GRADING)] = None,
    concurrency: Annotated[
        int | None, option(f"Grader's calls at a time. Default: {_CONCURRENCY}.", "N", GRADING, min=1)
    ] = None,
    max_cost: Annotated[
        float | None, option("Start no grading call once grading has cost this much.", "X", GRADING, min=0)
    ] = None,
    scorer: Annotated[
        list[str] | None, option("Also score the answers with a program. Repeatable.", "NAME=COMMAND", GRADING)
    ] = None,
    details: Annotated[
        bool, switch("--details", "Also print whole intervals, and calls, tokens and cost by stage.", OUTPUT)
    ] = False,
    prices: flags.PricesOption = None,
    by_dataset: Annotated[
        bool, switch("--by-dataset", "Score each dataset of the questions separately.", OUTPUT)
    ] = False,
    tables: Annotated[
        list[Path] | None, option("Write the score table: .csv or .tex. Repeatable.", "FILE", OUTPUT)
    ] = None,
    calibrate: Annotated[
        Path | None, option("Only learn when answers can be acted on: write a calibration.", "FILE", CALIBRATION)
    ] = None,
    signal: Annotated[
        str, option("Signal that --calibrate sets thresholds on.", "NAME", CALIBRATION)
    ] = "agreement_last",
    as_json: Annotated[bool, switch("--json", "Print one JSON object per PATH.")] = False,
) -> None:
    """Compute and print the scores of runs or prediction files. Update metrics.json of each run.

    Examples:
      madke score runs/first runs/second --details
      madke score predictions.jsonl --data questions.jsonl --json
      madke score runs/dev --calibrate calibration.json
    """
    if calibrate:
        refuse_overwriting({"--calibrate": calibrate}, paths)
        _calibrate(open_arms(paths, data, dataset, task, corrections, columns=columns), calibrate, signal)
        return
    from madke.cli.progress import resumable, run_progress
    from madke.models.prices import read_prices
    from madke.report.scores import row_name, score_table
    from madke.report.tables import TABLE_FILES, check_ending, write_table
    from madke.runs.meter import Budget
    from madke.scoring.scored import ask_outside, graders_of, score_run, scores_by_dataset

    for path in tables or ():  # before any grading is paid
        check_ending(path, TABLE_FILES)
    commands = _scorers(scorer or ())
    if grader is None and any(value is not None for value in (base_url, concurrency, max_cost)):
        raise UserError("--base-url, --concurrency and --max-cost need --grader MODEL")
    graders = graders_of(grader, base_url=base_url, concurrency=concurrency or _CONCURRENCY) if grader else []
    written = {f"--tables {n}": path for n, path in enumerate(tables or (), start=1)}
    refuse_overwriting(written, [*paths, *question_files(data), corrections, prices])
    priced = read_prices(prices) if prices else {}
    budget = Budget(prices=priced, max_cost=max_cost) if graders else None
    arms = open_arms(paths, data, dataset, task, corrections, columns=columns)
    with resumable():
        watch = partial(run_progress, "graded answers")
        failed = ask_outside(arms, graders, commands, budget=budget, watch=watch)
    scores = {arm.name: score_run(arm, priced)[0] for arm in arms}
    rows: Rows = {arm.name: scores_by_dataset(arm) if by_dataset else {None: scores[arm.name]} for arm in arms}
    for path in tables or ():
        shown = {row_name(arm, name): each for arm, of in rows.items() for name, each in of.items()}
        write_table(score_table(shown), path)
    if as_json:
        for name, arm_scores in scores.items():
            say_json(rows[name] if by_dataset else arm_scores)
    else:
        _show(arms, scores, rows, details=details, graded=len(graders) > 1)
    if failed:
        count = count_of(failed, "answer has", "answers have")
        say(f"madke: {count} no grade; the same command retries them", err=True)
        raise typer.Exit(1)


def _calibrate(arms: Sequence[Results], out: Path, signal: str) -> None:
    """Write a calibration, and print what could be acted on at each level, on its own questions."""
    from madke._util.files import write_file
    from madke.engine.deferral import fewest
    from madke.report.tables import percent_cell, plain_table, score_cell, table_of
    from madke.scoring.gates import calibrate

    calibration = calibrate(arms, signal)
    write_file(out, calibration.model_dump_json(indent=1).encode() + b"\n")
    rows: list[TableRow] = []
    count = len(calibration.points)
    for level in _LEVELS:
        least, needed = calibration.threshold(level), fewest(level, calibration.delta)
        few = f"too few questions: {count} of at least {needed}" if count < needed else ""
        acted = 0 if least is None else sum(score >= least for score, _ in calibration.points)
        rows.append(
            {
                "error at most %": percent_cell(level),
                "threshold": score_cell(least, digits=".3f"),
                "acted on %": percent_cell(acted / count),
                "why none": "" if least is not None else few or "too many wrong answers",
            }
        )
    note = f"With probability {1 - calibration.delta:g}, at most this share of the answers acted on are wrong."
    say(plain_table(table_of("Thresholds", rows, [note]), details=True))
    say(f"calibration: {out}: thresholds on {signal}, tested on {count} questions")


def _show(arms: Sequence[Results], scores: Mapping[str, Scores], rows: Rows, *, details: bool, graded: bool) -> None:
    from madke.report.human_grades import grader_agreement
    from madke.report.scores import row_name, score_details, scores_on_terminal, stage_table
    from madke.report.tables import plain_table

    named = {row_name(arm, dataset): arm_scores for arm, each in rows.items() for dataset, arm_scores in each.items()}
    say(scores_on_terminal(named, details=details))
    for name, arm_scores in () if details else named.items():
        if arm_scores.shadow is not None:
            say_wrapped(f"{name}: {arm_scores.shadow.sentence}" if len(named) > 1 else arm_scores.shadow.sentence)
    for correction in sorted({arm.corrected for arm in arms if arm.corrected}):
        say_wrapped(f"{correction}. metrics.json keeps the scores without them.")
    if details:
        say(plain_table(stage_table(scores)))
    for arm in arms if details else ():
        say_wrapped(f"{arm.path}\n{score_details(scores[arm.name])}")
        say("")
    for agreement in grader_agreement(arms) if graded else ():
        say_wrapped(f"{agreement}")


def _scorers(texts: Sequence[str]) -> dict[str, CommandScorer]:
    from madke._util.child_process import CommandScorer
    from madke.scoring.metrics import unit_of

    scorers: dict[str, CommandScorer] = {}
    for text in texts:
        name, equals, line = text.partition("=")
        fits = equals and _NAME.fullmatch(name)
        why = "" if fits else "expected NAME=COMMAND with a NAME of letters, digits, . _ and -"
        why = why or (f"{name} is a built-in value; choose another name" if unit_of(name.lower()) is not None else "")
        why = why or (f"{name} is given twice" if name in scorers else "")
        if why:
            raise UserError(f"--scorer {text!r}: {why}, for instance --scorer comet='python score.py'")
        scorers[name] = CommandScorer(line)
    return scorers
