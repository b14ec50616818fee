"""Let people grade answers blindly: write a sheet, score filled sheets."""

from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say, say_json, say_wrapped
from madke.cli import flags
from madke.cli.flags import DataOption, Paths, open_arms, option, switch
from madke.core.errors import UserError, count_of

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command()
def sheet(
    paths: Paths,
    out: Annotated[Path, option("Sheet (.csv).", "FILE")],
    deferred: Annotated[
        bool, switch("--deferred", "Only answers that runs with --error-at-most left to people.")
    ] = False,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
) -> None:
    """Write a blind sheet: one row per distinct answer to a question, in random order, without run names.

    People fill the column `right` (yes or no). Give each person a copy. For a sample, keep only the first rows.
    The column `gold` takes `wrong` where the gold answers are wrong. `madke score --corrections` takes a filled sheet.
    For translations the columns are `ambiguity_resolved` (yes or no: ambiguous words are right) and `quality` (1 to 5).
    """
    from madke.report.human_grades import write_sheet

    arms = open_arms(paths, data, dataset, task, columns=columns)
    answers = write_sheet(arms, out, deferred=deferred)
    say(f"sheet: {out}: {count_of(answers, 'answer')} to grade")


@app.command()
def read(
    sheets: Annotated[list[Path], typer.Argument(metavar="SHEET...", help="Filled sheets, one per person.")],
    runs: Annotated[list[Path], option("What the sheet was made from. Repeatable.", "PATH")],
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.")] = False,
) -> None:
    """Keep people's grades with the runs; print how far people agree with each other, with metrics and with graders.

    `madke score`, `compare` and `report` show the grades as `human_right`, or for translations as
    `human_ambiguity_resolved` and `human_quality`.
    """
    from madke.report.human_grades import keep_grades

    siblings = len({path.parent for path in sheets}) == 1
    names = {path.name if siblings else str(path): path for path in sheets}
    if len(names) < len(sheets):
        raise UserError("a sheet is given twice; expected one sheet per person")
    agreement, ungraded = keep_grades(open_arms(runs, data, dataset, task, columns=columns), names)
    if as_json:
        say_json({"agreement": agreement, "ungraded": ungraded})
        return
    for each in agreement:
        say_wrapped(f"{each}")
    say("the grades are kept; `madke score` shows them")
    if ungraded:
        effect = "scores use the others, so abstentions weigh too much"
        say(f"{count_of(ungraded, 'answer is', 'answers are')} not fully graded: {effect}")
