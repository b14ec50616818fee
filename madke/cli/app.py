"""The ``madke`` command."""

from __future__ import annotations

import logging
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import typer
import typer.exceptions

from madke.core.errors import RENAMED, UserError
from madke.files import DISK_FULL
from madke.terminal import OutputError, close_output, log_handler, open_streams, say, without_keys

app = typer.Typer(
    help="Answer questions in batches by debate between language models over shared, retrieved knowledge.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_READER_LEFT = 141
"""128 and SIGPIPE, as shells report it."""


def _version(show: bool) -> None:
    if show:
        from madke import __version__

        say(f"madke {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what happens to stderr."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[log_handler()])


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 1 some questions failed, 2 bad input or output, 130 interrupted, 141 nobody reads the output.
    """
    open_streams()
    try:
        _register()
        status = app(standalone_mode=False)
        if unwritten := close_output():
            raise unwritten
        sys.exit(status)
    except OutputError as error:
        close_output()
        if error.reader_left:
            sys.exit(_READER_LEFT)
        _complain(str(error))
    except UserError as error:
        _complain(str(error))
    except typer.exceptions.TyperException as error:
        former = getattr(error, "option_name", "").removeprefix("--").replace("-", "_")
        now = RENAMED.get(former, "").replace("_", "-")
        _complain(error.format_message() + (f"; did you mean --{now}?" if now else ""))
    except (typer.Abort, KeyboardInterrupt):
        say("madke: interrupted", err=True)
        sys.exit(130)
    except OSError as error:
        if unwritten := close_output():  # Typer's own help
            _complain(str(unwritten))
        # A full disk, a read-only folder: nothing that a traceback would help with.
        if error.errno in DISK_FULL:
            _complain("the disk is full; make room, and the same command goes on from here")
        _complain(f"{error.filename or 'writing'}: {error.strerror or error}")
    except Exception:
        # A bug; its message may quote anything.
        say(without_keys(traceback.format_exc()), err=True, end="")
        sys.exit(1)


def _complain(message: str) -> NoReturn:
    """Bad input is one line for people."""
    say(f"madke: {' '.join(message.split())}", err=True)
    sys.exit(2)


def _register() -> None:
    for verb in ("ask", "run", "ablate", "score", "compare", "report", "doctor"):
        app.command(name=verb)(import_module(f"madke.cli.{verb}").command)
    for group in ("protocols", "datasets", "pool", "index", "annotate"):
        app.add_typer(import_module(f"madke.cli.{group}").app, name=group)
