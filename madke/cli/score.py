"""``madke score``: compute scores of runs and of prediction files from the answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say, say_json, say_wrapped
from madke.cli import flags
from madke.cli.flags import CALIBRATION, GRADING, OUTPUT, option, switch
from madke.cli.paths import PREDICTION_FILES, CorrectionsOption, DataOption, Paths, open_arms, refuse_overwriting
from madke.core.errors import UserError, count_of

if TYPE_CHECKING:
    from madke._util.child_process import CommandScorer
    from madke.scoring.arms import Results

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_CONCURRENCY = 16

EPILOG = flags.epilog(
    PREDICTION_FILES,
    flags.TASK_NAMES,
    "Grading: MODEL is named as for `madke run`. A COMMAND (COMET, BLEURT, ...) reads JSON lines of source, candidate "
    "and references, and answers each with a number. Grades and scores are kept in the run directory, or next to the "
    "prediction file: grades.sqlite, external.json. Finished grading calls are not repeated, "
    "also not for the same answer in another PATH.",
    flags.PRICES,
    "Exit status: 0 done, 1 calls of the grader failed, 2 bad input, 130 interrupted.",
)


def command(
    paths: Paths,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    corrections: CorrectionsOption = None,
    grader: Annotated[str | None, option("Also let this model grade each answer.", "MODEL", GRADING)] = None,
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
    calibrate: Annotated[
        Path | None, option("Only learn when answers can be acted on: write a calibration.", "FILE", CALIBRATION)
    ] = None,
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
        _calibrate(open_arms(paths, data, dataset, task, corrections, columns=columns), calibrate)
        return
    from madke.cli.progress import resumable, run_progress
    from madke.models.prices import read_prices
    from madke.report.scores import score_details, scores_on_terminal, stage_table
    from madke.report.tables import plain_table
    from madke.runs.meter import Budget
    from madke.scoring.scored import Grader, ask_outside, score_run

    commands = _scorers(scorer or ())
    if grader is None and any(value is not None for value in (base_url, concurrency, max_cost)):
        raise UserError("--base-url, --concurrency and --max-cost need --grader MODEL")
    graded = Grader(model=grader, base_url=base_url, concurrency=concurrency or _CONCURRENCY) if grader else None
    priced = read_prices(prices) if prices else {}
    budget = Budget(prices=priced, max_cost=max_cost) if graded else None
    arms = open_arms(paths, data, dataset, task, corrections, columns=columns)
    with resumable():
        watch = partial(run_progress, "graded answers")
        failed = ask_outside(arms, graded, commands, budget=budget, watch=watch)
    scores = {arm.name: score_run(arm, prices=priced) for arm in arms}
    if as_json:
        for found in scores.values():
            say_json(found)
    else:
        say(scores_on_terminal(scores, details=details))
        for name, found in () if details else scores.items():
            if found.shadow is not None:
                say_wrapped(f"{name}: {found.shadow.sentence}" if len(scores) > 1 else found.shadow.sentence)
        for told in sorted({arm.corrected for arm in arms if arm.corrected}):
            say_wrapped(f"{told}. metrics.json keeps the scores without them.")
        if details:
            say(plain_table(stage_table(scores)))
            for arm in arms:
                say_wrapped(f"{arm.path}\n{score_details(scores[arm.name])}")
                say("")
    if failed:
        count = count_of(failed, "answer has", "answers have")
        say(f"madke: {count} no grade; the same command retries them", err=True)
        raise typer.Exit(1)


def _calibrate(arms: Sequence[Results], out: Path) -> None:
    from madke._util.files import write_file
    from madke.scoring.calibration import calibrated

    made = calibrated(arms)
    write_file(out, made.model_dump_json(indent=1).encode() + b"\n")
    say(f"calibration: {out}: tested on {len(made.points)} questions")


def _scorers(texts: Sequence[str]) -> dict[str, CommandScorer]:
    from madke._util.child_process import CommandScorer
    from madke.scoring.metrics import unit_of

    scorers: dict[str, CommandScorer] = {}
    for text in texts:
        name, equals, line = text.partition("=")
        if not equals or not _NAME.fullmatch(name) or unit_of(name.lower()) is not None or name in scorers:
            form = "expected NAME=COMMAND with a new NAME of letters, digits, . _ and -"
            raise UserError(f"--scorer {text!r}: {form}, such as comet='python score.py'")
        scorers[name] = CommandScorer(line)
    return scorers
