"""The ``madke`` command."""

import logging
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import typer
import typer.exceptions

from madke.core.errors import RENAMED, UserError
from madke.files import DISK_FULL
from madke.terminal import LogHandler, OutputError, close_output, open_streams, say, without_keys

app = typer.Typer(
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


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 1 some questions failed, 2 bad input or output, 130 interrupted, 141 broken pipe.
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
            sys.exit(_BROKEN_PIPE_STATUS)
        _fail(str(error))
    except UserError as error:
        _fail(str(error), error.exit_status)
    except typer.exceptions.TyperException as error:
        former = getattr(error, "option_name", "").removeprefix("--").replace("-", "_")
        present = RENAMED.get(former, "").replace("_", "-")
        _fail(error.format_message() + (f"; did you mean --{present}?" if present else ""))
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
    except Exception:
        # A bug. The traceback may quote a key.
        say(without_keys(traceback.format_exc()), err=True, end="")
        sys.exit(1)


def _fail(message: str, status: int = 2) -> NoReturn:
    say(f"madke: {' '.join(message.split())}", err=True)
    sys.exit(status)


def _register() -> None:
    for verb in ("ask", "run", "ablate", "score", "compare", "report", "serve", "mcp", "doctor"):
        module = import_module(f"madke.cli.{verb}")
        app.command(name=verb, epilog=getattr(module, "EPILOG", None))(module.command)
    for group in ("protocols", "datasets", "pool", "index", "annotate"):
        app.add_typer(import_module(f"madke.cli.{group}").app, name=group)
