"""The ``madke`` command."""

import ast
import gc
import inspect
import logging
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import typer
import typer.exceptions
from typer.core import TyperCommand, TyperGroup

from madke._util.files import DISK_FULL
from madke._util.terminal import LogHandler, OutputError, close_output, open_streams, say, without_keys
from madke.core.addresses import with_public_urls
from madke.core.errors import UserError

_PANELS = {
    "Ask and study": ("ask", "study"),
    "Build": ("index", "pool", "datasets"),
    "Measure": ("run", "ablate", "compare", "score", "report", "annotate"),
    "Serve": ("serve",),
    "Look up": ("protocols", "describe", "doctor"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_MOVED = {
    "calibrate": "madke score PATH --calibrate FILE",
    "export": "madke report PATH --answers FILE, --trec FOLDER or --inspect FOLDER",
    "mcp": "madke serve --mcp --out DIR",
    "prompts": "madke protocols prompt NAME STAGE, and madke protocols copy NAME DIR",
}
"""Verb of earlier versions -> what does the same today."""
_GONE = {
    "address": "set RAY_ADDRESS",
    "models-file": "set MADKE_MODELS",
    "sources-file": "set MADKE_SOURCES",
    **dict.fromkeys(("prefix", "rpm", "tpm"), "set it for an entry of models.yaml"),
}
"""Option of earlier versions -> what does the same today."""


class _Verbs(TyperGroup):
    """The verbs. The module of each is imported only when the verb is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(_PANEL_OF)})
        self._listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the verbs."""
        self._listing = True
        super().format_help(ctx, formatter)
        self._listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build a verb; for the list, the first paragraph of its help is enough."""
        if cmd_name in _MOVED:
            raise UserError(f"`madke {cmd_name}` is now: {_MOVED[cmd_name]}")
        if self._listing:
            return TyperCommand(cmd_name, help=_sentence(cmd_name), rich_help_panel=_PANEL_OF[cmd_name])
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            module, one = import_module(f"madke.cli.{cmd_name}"), typer.Typer()
            if hasattr(module, "app"):
                one.add_typer(module.app, name=cmd_name)
            else:
                one.command(name=cmd_name, epilog=getattr(module, "EPILOG", None))(module.command)
            self.commands.update(typer.main.get_group(one).commands)
            _reflow(self.commands[cmd_name])
        return super().get_command(ctx, cmd_name)


def _sentence(verb: str) -> str:
    """The first paragraph of a verb's help: of its function, or of the module of a group. Imports nothing."""
    module = ast.parse(Path(__file__).with_name(f"{verb}.py").read_text(encoding="utf-8"))
    functions = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == "command"]
    return (ast.get_docstring(functions[0] if functions else module) or "").partition("\n\n")[0]


def _reflow(command: Any) -> None:
    """Let paragraphs of a help text, and of those below it, be as wide as the terminal. Examples keep their lines."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(text if text.startswith("Example") else " ".join(text.split()) for text in paragraphs)
    for below in getattr(command, "commands", {}).values():
        _reflow(below)


app = typer.Typer(
    cls=_Verbs,
    help="Answer questions in batches by debate between language models over shared, retrieved knowledge.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BROKEN_PIPE_STATUS = 141
"""128 + SIGPIPE, as shells report it."""


def _version(show: bool) -> None:
    if show:
        from madke import __version__

        say(f"madke {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    verbose: bool = typer.Option(False, "--verbose", "-v", metavar="", help="Log to stderr."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, metavar="", help="Show the version."
    ),
) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[LogHandler()])


def run_command_line() -> None:
    """Run the command line.

    Exit status: 0 done, 1 some questions failed, 2 bad input or output, 130 interrupted, 141 broken pipe.
    """
    gc.set_threshold(50_000)  # by default, an eighth of a report of many debates goes into the search for cycles
    open_streams()
    try:
        status = app(standalone_mode=False)
        if unwritten := close_output():
            raise unwritten
        sys.exit(status)
    except OutputError as error:
        close_output()
        if error.reader_left:
            sys.exit(_BROKEN_PIPE_STATUS)
        _fail(str(error))
    except UserError as error:
        _fail(str(error))
    except typer.exceptions.TyperException as error:
        remedy = _GONE.get(getattr(error, "option_name", "").removeprefix("--"))
        _fail(error.format_message() + (f" It is gone: {remedy}." if remedy else ""))
    except (typer.Abort, KeyboardInterrupt):
        say("madke: interrupted", err=True)
        sys.exit(130)
    except OSError as error:
        if unwritten := close_output():  # of Typer's own help
            _fail(str(unwritten))
        # A full disk or a read-only folder needs no traceback.
        if error.errno in DISK_FULL:
            _fail("the disk is full; free some space, then resume with the same command")
        _fail(f"{error.filename or 'writing'}: {error.strerror or error}")
    except Exception:  # noqa: BLE001
        # A bug. The traceback may quote a key, or an address that holds one.
        say(without_keys(with_public_urls(traceback.format_exc())), err=True, end="")
        sys.exit(1)


def _fail(message: str) -> NoReturn:
    say(f"madke: {' '.join(message.split())}", err=True)
    sys.exit(2)
