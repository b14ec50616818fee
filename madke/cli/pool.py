"""``madke pool``: retrieve knowledge once, so that every arm debates over the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from madke.cli import options
from madke.cli.sources import open_sources, show_found, source_specs
from madke.core.errors import UserError

app = typer.Typer(help="Build pool files.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """A callback keeps ``build`` a word of its own on the command line."""


@app.command()
def build(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions, JSONL (.gz too).")],
    out: Annotated[Path, typer.Option(help="The pool file to write.")],
    sources: options.Sources = "wiki,google",
    k: Annotated[int, typer.Option("--k", min=1, help="Passages asked of each source.")] = 10,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
) -> None:
    """Ask every source for every question and write everything that came back.

    Which sources an arm uses, and how many passages of each, is decided when a run reads the file.
    """
    from madke.cli.progress import counter
    from madke.data import read_questions
    from madke.knowledge.pools import build_pools

    questions = read_questions(data)[:limit]
    specs = source_specs(sources, ())
    if not specs:
        raise UserError("--sources none: a pool needs at least one source")
    show_found(build_pools(questions, open_sources(specs), k, out, progress=counter("retrieved")))
    typer.echo(f"pools: {out}")
