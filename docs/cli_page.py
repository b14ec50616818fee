"""The command line page, from the help of each verb. An option that several verbs share is explained once."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from madke.cli import app
from madke.cli.describe import commands

HEAD = """# Command line

<!-- Generated from the help texts by python -m docs.generate. -->

`madke VERB --help` prints all options of a verb with examples. Here each verb has the options of its own; those of
several verbs are at [the end](#shared-options). Data goes to stdout, messages to stderr.
"""

SHARED = "## Shared options"


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app.app)
    verbs = list(commands(root, typer.Context(root, info_name="madke")))
    counts = Counter(row for command, context in verbs for row in set(_options(command, context)))
    shared = {row for row, count in counts.items() if count > 1}
    explained = "\n".join(sorted(shared, key=lambda row: row.lstrip("- `").lower()))
    parts = [HEAD, *(_verb(*verb, shared) for verb in verbs), f"{SHARED}\n\n{explained}\n"]
    return "\n".join(parts)


def _verb(command: Any, context: typer.Context, shared: set[str]) -> str:
    usage = re.sub("[{}]", "", command.get_usage(context).removeprefix("Usage: "))
    purpose = inspect.cleandoc(command.help or "").split("\n\n")[0]
    parts = [f"## {context.command_path}", f"`{_one_line(usage)}`", _escaped(_one_line(purpose))]
    rows = list(_options(command, context))
    if own := [row for row in rows if row not in shared]:
        parts.append("\n".join(own))
    return "\n\n".join(parts) + "\n"


def _options(command: Any, context: typer.Context) -> Iterator[str]:
    """The line of each argument and option that the help shows."""
    for param in command.get_params(context):
        if not param.hidden and param.name != "help" and (record := param.get_help_record(context)):
            names, text = record
            yield f"- `{names}`: {_escaped(_one_line(text).replace(', see below', ''))}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Escape Markdown except code spans. URLs become code, so that examples are not links."""
    text = re.sub(r"https?://[^\s,]*[^\s,.]", r"`\g<0>`", text)
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([\\*_<>|\[\]])", r"\\\1", piece) for piece in pieces)
