"""``madke report``: runs as a page, or one debate as text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")],
    question: Annotated[
        str | None, typer.Option(help="Print the debate of this question id as text; write no page.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page. Default: report.html in the first directory.")] = None,
) -> None:
    """Write one self-contained HTML page with the scores and every debate of the runs."""
    from madke.report.html import write_report
    from madke.runs.scored import scores_of

    if question is not None:
        _show_debates(runs, question)
        return
    target = out or runs[0] / "report.html"
    write_report({directory: scores_of(directory) for directory in runs}, target)
    typer.echo(f"report: {target}")


def _show_debates(runs: list[Path], question: str) -> None:
    from madke.core.errors import UserError
    from madke.report.text import debate_text
    from madke.runs.directory import read_transcripts

    for directory in runs:
        found = [t for t in read_transcripts(directory) if t.id == question]
        if not found:
            raise UserError(f"holds no question {question!r}", file=directory)
        for transcript in found:
            where = f"== {directory}, repeat {transcript.repeat}\n" if len(runs) > 1 or len(found) > 1 else ""
            typer.echo(where + debate_text(transcript))
