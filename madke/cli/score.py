"""``madke score``: scores of runs, computed anew from their transcripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.scoring.external import CommandScorer

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="Also score the answers by a command that gets a JSON object a line (source, candidate, references) "
            "and answers each with a number: COMET, BLEURT. Kept in external.json beside each run. Repeatable.",
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also both kinds of Cons and Co2, and the stages.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON, one object a run.")] = False,
) -> None:
    """Compute the scores of runs from their transcripts, write metrics.json beside each, and print them."""
    from madke.cli.console import output
    from madke.report.text import score_details, score_table
    from madke.runs.scored import score_run

    scorers = _scorers(scorer or ())
    scored = [(directory, score_run(directory, scorers)) for directory in runs]
    if as_json:
        from madke.scoring.scores import scores_to_json

        for _, scores in scored:
            typer.echo(scores_to_json(scores, indent=None).decode(), nl=False)
        return
    # Folders side by side are told apart by their own names.
    siblings = len({directory.parent for directory in runs}) == 1
    output().print(score_table([(run.name if siblings else str(run), scores) for run, scores in scored]))
    for directory, scores in scored:
        if details:
            typer.echo(f"{directory}\n{score_details(scores)}\n")


def _scorers(options: Sequence[str]) -> dict[str, CommandScorer]:
    """Name -> scorer, from ``--scorer NAME=COMMAND``."""
    from madke.scoring.external import CommandScorer
    from madke.scoring.metrics import METRICS

    scorers: dict[str, CommandScorer] = {}
    for text in options:
        name, equals, line = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UserError(
                f"--scorer {text!r}: expected NAME=COMMAND, the name of letters, digits and . _ -, for instance "
                "--scorer comet='comet-env/bin/python comet_scorer.py'"
            )
        if name.lower() in METRICS:
            raise UserError(f"--scorer {text!r}: {name} is a metric of madke's own; choose another name")
        if name in scorers:
            raise UserError(f"--scorer {text!r}: {name} is given twice; expected a name for each scorer")
        scorers[name] = CommandScorer(line)
    return scorers
