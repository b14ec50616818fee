"""The command line page: each verb with its purpose and the names of its options. The help explains them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer

from madke.cli import app
from madke.cli.describe import commands

HEAD = """# Command line

<!-- Generated from the help texts by python -m docs.generate. -->

`madke VERB --help` explains each option, with defaults and examples. Data goes to stdout, messages to stderr.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app.app)
    return "\n".join([HEAD, *(_verb(*verb) for verb in commands(root, typer.Context(root, info_name="madke")))])


def _verb(command: Any, context: typer.Context) -> str:
    usage = re.sub("[{}]", "", command.get_usage(context).removeprefix("Usage: "))
    purpose = inspect.cleandoc(command.help or "").split("\n\n")[0]
    parts = [f"## {context.command_path}", f"`{_one_line(usage)}`", _escaped(_one_line(purpose))]
    records = [param.get_help_record(context) for param in command.get_params(context) if _is_option(param)]
    if names := [f"`{record[0]}`" for record in records if record]:
        parts.append(", ".join(names))
    return "\n\n".join(parts) + "\n"


def _is_option(param: Any) -> bool:
    return param.param_type_name == "option" and not param.hidden and param.name != "help"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Escape Markdown except code spans. URLs become code, so that examples are not links."""
    text = re.sub(r"https?://[^\s,]*[^\s,.]", r"`\g<0>`", text)
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([\\*_<>|\[\]])", r"\\\1", piece) for piece in pieces)
