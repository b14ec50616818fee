"""``madke protocols``: the debate variants there are, and one of them as a diagram."""

from __future__ import annotations

from typing import Annotated

import typer

from madke.cli import flags
from madke.core.errors import UserError
from madke.terminal import say, say_json, say_table

app = typer.Typer(help="List the debate variants, or draw one: madke protocols show NAME.")


@app.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    prompts: flags.Prompts = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print name, source and folder as JSON lines.")] = False,
) -> None:
    """List the debate variants with the paper or code that each follows; `show NAME` draws one."""
    if (verb := context.invoked_subcommand) is not None:
        if prompts is not None or as_json:
            raise UserError(f"--prompts and --json before {verb} are for the list; give them after")
        return
    import json

    from madke.variants import load_variant, variant_folders

    variants = [load_variant(name, prompts) for name in variant_folders(prompts)]
    if as_json:
        for variant in variants:
            record = {"name": variant.name, "source": variant.protocol.source, "folder": str(variant.folder)}
            say_json(json.dumps(record, ensure_ascii=False))
        return
    rows = []
    for variant in variants:
        protocol = variant.protocol
        knowledge = "+".join(protocol.knowledge.sources) if protocol.knowledge else "none"
        settings = (str(len(protocol.cast)), str(protocol.rounds), knowledge, protocol.stop, protocol.finish)
        rows.append((variant.name, *settings, protocol.source))
    say_table(("protocol", "debaters", "rounds", "knowledge", "stop", "finish", "source"), rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The variant.")],
    prompts: flags.Prompts = None,
    settings: flags.Settings = None,
) -> None:
    """Draw one debate from its protocol: who speaks when, who reads whom, when it ends, what it costs."""
    from madke.report.diagram import diagram
    from madke.variants import load_variant

    variant = load_variant(name, prompts).with_settings(flags.settings_of(settings))
    say(diagram(variant.name, variant.protocol))
