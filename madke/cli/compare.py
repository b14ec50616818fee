"""``madke compare``: runs side by side, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.core.errors import UserError
from madke.terminal import printable

if TYPE_CHECKING:
    from madke.core.transcript import Transcript
    from madke.report.compare import Compared, Comparison


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories, two or more.")],
    question: Annotated[
        str | None, typer.Option(help="Show the debates of this question id side by side, and nothing else.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Show only the first N questions; all are counted all the same.")
    ] = None,
    only_different: Annotated[
        bool, typer.Option("--only-different", help="Show only questions that the runs answered differently.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object a question that is shown.")] = False,
) -> None:
    """Compare runs over the questions that all of them hold: answers, scores, and which of two was right where.

    Of repeats the first is shown and counted by pairs; scores are means over all of them.
    """
    import json
    from dataclasses import asdict

    from madke.report.compare import compare
    from madke.runs.directory import read_transcripts

    names = _names(runs)
    if question is not None:
        if limit is not None or only_different:
            raise UserError("--question shows one question; leave out --limit and --only-different")
        debates = {name: _debates_of(question, directory) for name, directory in names.items()}
        comparison = compare(debates)
    else:
        comparison = compare({name: read_transcripts(directory) for name, directory in names.items()})
    shown = [row for row in comparison.questions if row.differs or not only_different][:limit]
    if as_json:
        for row in shown:
            typer.echo(json.dumps(asdict(row), ensure_ascii=False))
    elif question is not None:
        _show_debates(shown[0], list(debates.values()))
    else:
        _show_table(names, comparison, shown)


def _names(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by the names they are shown with: folders side by side are told apart by their own names."""
    siblings = len({directory.parent for directory in runs}) == 1
    names = {(siblings and directory.name) or str(directory): directory for directory in runs}
    if len(names) < 2:
        raise UserError(f"compare takes two run directories or more, found {len(names)}; `madke report` shows one")
    return names


def _debates_of(question: str, directory: Path) -> list[Transcript]:
    from madke.runs.directory import read_transcripts

    found = [transcript for transcript in read_transcripts(directory) if transcript.id == question]
    if not found:
        raise UserError(f"holds no question {question!r}", file=directory)
    return found


def _show_debates(compared: Compared, debates: Sequence[Sequence[Transcript]]) -> None:
    from madke.cli.console import output
    from madke.report.side_by_side import debate_columns

    first = [min(repeats, key=lambda transcript: transcript.repeat) for repeats in debates]
    console = output()
    console.print(debate_columns(compared, first, console.width))


def _show_table(names: dict[str, Path], comparison: Comparison, shown: Sequence[Compared]) -> None:
    from madke.cli.console import output
    from madke.report.side_by_side import pair_table, question_table
    from madke.report.text import score_table
    from madke.runs.directory import read_transcripts
    from madke.scoring.scores import score

    console = output()
    if shown:
        console.print(question_table(shown))
    counts = {"questions in all runs": len(comparison.questions), "shown": len(shown)}
    counts |= {f"only in {name}": count for name, count in comparison.unshared.items() if count}
    typer.echo(printable("; ".join(f"{what}: {count}" for what, count in counts.items())))
    shared = {(row.id, row.question) for row in comparison.questions}
    scored = []
    for name, directory in names.items():
        held = (t for t in read_transcripts(directory) if (t.id, t.question) in shared)
        scored.append((name, score(held)))
    console.print(score_table(scored))
    console.print(pair_table(comparison.pairs))
