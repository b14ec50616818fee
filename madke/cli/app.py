"""The ``madke`` command."""

from __future__ import annotations

import logging
import os
import sys

import typer

from madke.core.errors import UserError

app = typer.Typer(
    help="Answer questions in batches by debate between language models over shared, retrieved knowledge.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from madke import __version__

        typer.echo(f"madke {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what happens to stderr."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")


def main() -> None:
    """Run the command line. Exit status: 0 done, 1 some questions failed, 2 bad input, 130 interrupted."""
    _register()
    try:
        app()
    except UserError as error:
        print(f"madke: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("madke: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _register() -> None:
    from madke.cli import ask, doctor, index, pool, protocols, report, run, score

    for verb in (ask, run, score, report, protocols, doctor):
        app.command(name=verb.__name__.rpartition(".")[2])(verb.command)
    app.add_typer(pool.app, name="pool")
    app.add_typer(index.app, name="index")
