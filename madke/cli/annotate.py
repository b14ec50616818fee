"""``madke annotate``: sheets of answers for people to grade, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import arms, options
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from madke.report.judgements import HumanScores

app = typer.Typer(
    help="Let people grade answers without knowing whose they are: write a sheet, read it back.", no_args_is_help=True
)


@app.command()
def sheet(
    paths: arms.Paths,
    out: Annotated[Path, typer.Option(help="The sheet, a .csv; its key is written beside it as .key.json.")],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only this many questions, drawn at random, the same of every arm.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draw and of the rows' order.")] = 0,
    data: arms.Data = None,
    dataset: options.Dataset = None,
    task: options.Task = None,
) -> None:
    """Write a blind sheet: a row for each different answer to a question, in random order, whose it is left out.

    People fill the last columns: `right` (yes or no); of translations `ambiguity_resolved` (yes or no: are the
    ambiguous words translated by what they mean here) and `quality` (1 to 5). Give each a copy, and keep the key away
    from them. Score with graders and scorers first: the key keeps what they said, to be compared with people.
    """
    from madke.report.annotation import write_sheet

    key_file, key = write_sheet(arms.open_arms(paths, data, dataset, task), out, sample=sample, seed=seed)
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

    from madke.report.annotation import read_key
    from madke.report.judgements import human_scores, read_sheet

    read = read_key(key)
    found = human_scores(read, {name: read_sheet(path, read) for name, path in _names(sheets).items()})
    if as_json:
        say_json(json.dumps(asdict(found), ensure_ascii=False))
        return
    screen = console()
    screen.print(_scores(found, read.scales))
    screen.print(_agreements(found))
    if found.ungraded:
        say(
            f"{found.ungraded} of {len(read.rows)} rows are not graded in full: scores are of the others, and "
            "abstentions weigh more than they should"
        )


def _names(sheets: Sequence[Path]) -> dict[str, Path]:
    """People by the names of their sheets; files side by side are told apart by their own names."""
    siblings = len({path.parent for path in sheets}) == 1
    names = {path.name if siblings else str(path): path for path in sheets}
    if len(names) < len(sheets):
        raise UserError("a sheet is given twice; expected each person's once")
    return names


def _scores(found: HumanScores, scales: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    from madke.report.annotation import SCALES
    from madke.report.text import interval

    caption = (
        "Means of people's grades over questions, with 95 % intervals, which are of one person's grades where people "
        "differ; an abstention is a no, and has no quality."
    )
    table = Table("arm", box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for name in scales:
        table.add_column(name if SCALES[name].ordinal else f"{name} %", justify="right")
        table.add_column("n", justify="right")
    table.add_column("abst.", justify="right")
    for arm, scores in found.scores.items():
        cells: list[str] = []
        for name in scales:
            if (mean := scores.get(name)) is None:
                cells += "-", "0"
            elif SCALES[name].ordinal:
                cells += f"{mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f})", str(mean.n)
            else:
                cells += interval(mean), str(mean.n)
        table.add_row(_text(arm), *cells, str(found.abstained[arm]))
    return table


def _agreements(found: HumanScores) -> Table:
    from rich import box
    from rich.table import Table

    from madke.report.text import interval

    caption = (
        "Of the n answers that both graded: the share with the same grade, averaged by question, with a 95 % interval "
        "over questions; Cohen's kappa (of qualities weighted by squares); tau-b where a metric has degrees."
    )
    table = Table("person", "and", "scale", box=box.SIMPLE_HEAD, pad_edge=False, caption=caption)
    table.caption_justify = "left"
    for heading in ("n", "questions", "same %", "kappa", "tau-b"):
        table.add_column(heading, justify="right")
    for each in found.compared:
        same = interval(each.agreement.same) if each.agreement else "-"
        figures = (_figure(each.agreement.kappa if each.agreement else None), _figure(each.tau))
        counts = str(each.n), str(each.questions)
        table.add_row(*map(_text, (each.person, each.other, each.scale)), *counts, same, *figures)
    return table


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(text)
