"""``madke protocols``: the debate variants there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    prompts: Annotated[Path | None, typer.Option(help="A folder of your own variants, searched first.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print name, source and folder as JSON lines.")] = False,
) -> None:
    """List the debate variants with the paper or code that each follows."""
    import json

    from rich import box
    from rich.table import Table

    from madke.cli.console import output
    from madke.variants import load_variant, variant_folders

    variants = [load_variant(name, prompts) for name in variant_folders(prompts)]
    if as_json:
        for variant in variants:
            record = {"name": variant.name, "source": variant.protocol.source, "folder": str(variant.folder)}
            typer.echo(json.dumps(record, ensure_ascii=False))
        return
    table = Table("protocol", "debaters", "rounds", "knowledge", "stop", "finish", "source", box=box.SIMPLE_HEAD)
    for variant in variants:
        protocol = variant.protocol
        knowledge = "+".join(protocol.knowledge.sources) if protocol.knowledge else "none"
        settings = (str(len(protocol.cast)), str(protocol.rounds), knowledge, protocol.stop, protocol.finish)
        table.add_row(variant.name, *settings, protocol.source)
    output().print(table)
