"""``madke describe``: what madke offers, for a program or an agent."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from madke._util.assets import PACKAGE
from madke._util.terminal import say, say_json
from madke.cli import flags


def command(
    context: typer.Context,
    as_json: Annotated[
        bool, flags.switch("--json", "Print one JSON object: verbs, options, protocols, settings, sources.")
    ] = False,
) -> None:
    """Print the guide for agents that ships with madke, or with --json all verbs, options, protocols and sources.

    Examples:
      madke describe > SKILL.md
      madke describe --json | jq '.protocols[].name'
    """
    if as_json:
        say_json(_offers(typer.Context(context.find_root().command, info_name="madke")))
    else:
        say((PACKAGE / "SKILL.md").read_text(encoding="utf-8"), end="")


def commands(group: Any, context: typer.Context) -> Iterator[tuple[Any, typer.Context]]:
    """All verbs below a group, with their contexts: a group before the verbs of its own."""
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        inner = typer.Context(verb, parent=context, info_name=name)
        yield verb, inner
        if hasattr(verb, "commands"):
            yield from commands(verb, inner)


def _offers(root: typer.Context) -> dict[str, Any]:
    from madke import __version__
    from madke.engine.protocol import help_of, settings_of, shipped_functions
    from madke.engine.settings import Settings
    from madke.engine.variant import read_protocol, variant_folders
    from madke.report.protocol_text import changed_settings
    from madke.retrieval.named import known_sources

    protocols = {name: read_protocol(folder) for name, folder in variant_folders().items()}
    functions = {}
    for name, function in shipped_functions().items():
        record, texts = settings_of(function), help_of(function)
        schema = record.model_json_schema()
        functions[name] = {
            "about": inspect.cleandoc(function.__doc__ or "").splitlines()[0],
            "parameters": {
                each: {**schema["properties"][each], "description": texts.get(each, "")}
                for each in record.own_parameters
            },
            "$defs": schema.get("$defs", {}),
        }
    return {
        "version": __version__,
        "verbs": [_verb(*each) for each in commands(root.command, root)],
        "protocols": [
            {
                "name": name,
                "source": protocol.source,
                "function": protocol.function,
                "calls": dict(zip(("fewest", "most"), protocol.trace.calls, strict=True)),
                "set": changed_settings(protocol),
            }
            for name, protocol in protocols.items()
        ],
        "functions": functions,
        "settings": Settings.model_json_schema(),
        "sources": known_sources(),
    }


def _verb(verb: Any, context: typer.Context) -> dict[str, Any]:
    shown = [param for param in verb.get_params(context) if not param.hidden and param.name != "help"]
    records = [(param, *param.get_help_record(context)) for param in shown]
    return {
        "name": context.command_path,
        "usage": verb.get_usage(context).removeprefix("Usage: "),
        "help": verb.help,
        "parameters": [
            {"usage": usage, "help": text, "names": param.opts, "required": param.required, "default": param.default}
            for param, usage, text in records
        ],
        "notes": verb.epilog,
    }
