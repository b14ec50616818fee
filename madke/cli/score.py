"""``madke score``: scores of runs, computed anew from their transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")],
    details: Annotated[
        bool, typer.Option("--details", help="Also both kinds of Cons and Co2, and the stages.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON, one object a run.")] = False,
) -> None:
    """Compute the scores of runs from their transcripts, write metrics.json beside each, and print them."""
    from madke.cli.console import output
    from madke.report.text import score_details, score_table
    from madke.runs.scored import score_run

    scored = [(directory, score_run(directory)) for directory in runs]
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
