"""The command line page, from the help of each verb."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from madke.cli import app

HEAD = """# Command line

<!-- Generated from the help texts by python -m docs.generate. -->

`madke VERB --help` prints the same text. Every verb prints data on stdout and messages on stderr.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app.app)
    return "\n".join([HEAD, *_verbs(root, typer.Context(root, info_name="madke"))])


def _verbs(group: Any, context: typer.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        inner = typer.Context(command, parent=context, info_name=name)
        yield _verb(command, inner)
        if hasattr(command, "commands"):
            yield from _verbs(command, inner)


def _verb(command: Any, context: typer.Context) -> str:
    usage = re.sub("[{}]", "", command.get_usage(context).removeprefix("Usage: "))
    parts = [f"## {context.command_path}", f"```text\n{_one_line(usage)}\n```", *_paragraphs(command.help or "")]
    panels: dict[str, list[Any]] = {}
    for param in command.get_params(context):
        if not param.hidden and param.name != "help":
            standard = "Arguments" if param.param_type_name == "argument" else "Options"
            panels.setdefault(param.rich_help_panel or standard, []).append(param)
    for title, params in panels.items():
        rows = [_row(*record) for param in params if (record := param.get_help_record(context))]
        parts.append("\n".join([f"| {title} | Meaning |", "|---|---|", *rows]))
    parts += _paragraphs(getattr(command, "epilog", None) or "")
    return "\n\n".join(parts).replace("\n```\n\n```text\n", "\n") + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _paragraphs(text: str) -> Iterator[str]:
    """Running text as Markdown. Indented paragraphs, and those that start with a backspace, as code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.strip("\b\n").splitlines()
        if paragraph.startswith("\b") or (lines and all(line.startswith("  ") for line in lines)):
            yield "```text\n" + inspect.cleandoc("\n".join(lines)) + "\n```"
        elif lines:
            yield _escaped(_one_line(paragraph))


def _row(names: str, text: str) -> str:
    code = names.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    return f"| <code>{code}</code> | {_escaped(_one_line(text))} |"


def _escaped(text: str) -> str:
    """Escape Markdown except code spans. URLs become code, so that examples are not links."""
    text = re.sub(r"https?://[^\s,]*[^\s,.]", r"`\g<0>`", text)
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([\\*_<>|\[\]])", r"\\\1", piece) for piece in pieces)
