"""``madke annotate``: sheets of answers for people to grade, and what they found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from madke.cli import flags
from madke.cli.paths import Data, Paths, open_arms
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

app = typer.Typer(
    help="Let people grade answers without knowing whose they are: write a sheet, read it back.", no_args_is_help=True
)


@app.command()
def sheet(
    paths: Paths,
    out: Annotated[Path, typer.Option(help="The sheet, a .csv; its key is written beside it as .key.json.")],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only this many questions, drawn at random, the same of every arm.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draw and of the rows' order.")] = 0,
    data: Data = None,
    dataset: flags.Dataset = None,
    task: flags.Task = None,
) -> None:
    """Write a blind sheet: a row for each different answer to a question, in random order, whose it is left out.

    People fill the last columns: `right` (yes or no); of translations `ambiguity_resolved` (yes or no: are the
    ambiguous words translated by what they mean here) and `quality` (1 to 5). Give each a copy, and keep the key away
    from them. Score with graders and scorers first: the key keeps what they said, to be compared with people.
    """
    from madke.report.annotation import write_sheet

    key_file, key = write_sheet(open_arms(paths, data, dataset, task), out, sample=sample, seed=seed)
    say(f"sheet: {out}: {len(key.rows)} answers; to fill: {', '.join(key.scales)}")
    say(f"key: {key_file}: keep it away from those who fill the sheet")


@app.command()
def read(
    sheets: Annotated[list[Path], typer.Argument(metavar="SHEET...", help="Filled sheets, one a person.")],
    key: Annotated[Path, typer.Option(help="The key that was written with the sheet.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report what people found, by arm, and how far they agree with each other and with our metrics."""
    import json
    from dataclasses import asdict

    from madke.report.annotation import human_scores, human_tables, read_key, read_sheet
    from madke.report.tables import rich_table

    siblings = len({path.parent for path in sheets}) == 1
    names = {path.name if siblings else str(path): path for path in sheets}
    if len(names) < len(sheets):
        raise UserError("a sheet is given twice; expected each person's once")
    opened = read_key(key)
    found = human_scores(opened, {name: read_sheet(path, opened) for name, path in names.items()})
    if as_json:
        say_json(json.dumps(asdict(found), ensure_ascii=False))
        return
    for table in human_tables(found):
        console().print(rich_table(table))
    if found.ungraded:
        left_out = "scores are of the others, and abstentions weigh more than they should"
        say(f"{found.ungraded} of {len(opened.rows)} rows are not graded in full: {left_out}")
