"""``madke index fetch``: bring a published index here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from madke.cli.console import resumable
from madke.core.errors import UserError
from madke.terminal import console, say


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A published index; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to make. Default: one of that name in the cache folder.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the published indexes and end.")] = False,
    recipes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published indexes of your own, as in indexes/published.yaml.")
    ] = None,
) -> None:
    """Download a published index, check it, unpack it, and register it under its name.

    The same command again goes on where it was stopped. Afterwards, --sources NAME uses it.
    """
    if show_list:
        _show(recipes)
        return
    if name is None:
        raise UserError("name a published index; `madke index fetch --list` shows them")
    from madke.cli.progress import counter
    from madke.knowledge.fetch import fetch

    with resumable():
        fetched = fetch(name, into=out, recipes=recipes, counter=counter)
    say(f"{name}: {'already here, ' if fetched.already else ''}{fetched.folder}")


def _show(recipes: Path | None) -> None:
    from rich import box
    from rich.table import Table

    from madke.knowledge.fetch import published_indexes

    table = Table("name", "download", "on disk", "documents", "what it is", box=box.SIMPLE_HEAD)
    for name, index in published_indexes(recipes).items():
        sizes = (f"{size / 1e9:,.1f} GB" for size in (index.size, index.unpacked))
        table.add_row(name, *sizes, f"{index.documents:,}", index.about)
    console().print(table)
