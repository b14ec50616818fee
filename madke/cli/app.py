"""The ``madke`` command."""

import gc
import logging
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

import typer
import typer.exceptions
from typer.core import TyperCommand, TyperGroup

from madke._util.files import DISK_FULL
from madke._util.terminal import LogHandler, OutputError, close_output, open_streams, say, without_keys
from madke.core.addresses import with_public_urls
from madke.core.errors import RENAMED, UserError

_PANELS = {
    "Start here": {
        "ask": "Debate one question over retrieved knowledge. Print the debate as text, while it goes on.",
        "study": "Compare one call, one call with passages, a debate and votes on your questions and documents.",
    },
    "Build": {
        "index": "Make passages, and build, fetch, search and check indexes.",
        "pool": "Retrieve passages into pool files.",
        "datasets": "List the published datasets, show the card of one, or convert its files.",
    },
    "Measure": {
        "run": "Debate every question of a dataset. Write transcripts, calls, scores and a report to OUT.",
        "ablate": "Run all arms of a recipe over the same questions, pools and calls. Compare them and write a report.",
        "compare": "Compare runs, or logs of other tools, on their shared questions: answers, scores and paired tests.",
        "score": "Compute and print the scores of runs or prediction files. Update metrics.json of each run.",
        "report": "Write one self-contained HTML page: settings, scores, tests, figures and all debates.",
        "annotate": "Let people grade answers blindly: write a sheet, score filled sheets.",
        "calibrate": "Print how well the signals of debates tell right answers from wrong ones. "
        "Write or test a calibration.",
        "export": "Write runs in the formats of other tools.",
    },
    "Serve": {
        "serve": "Serve debates to chat clients and programs, as OpenAI's API. "
        "Write them to OUT, one run per protocol.",
        "mcp": "Offer debates and searches to an MCP client on standard input and output. "
        "Write what was served to OUT.",
    },
    "Look up": {
        "protocols": "List the debate protocols, or print one.",
        "prompts": "Print a prompt as models get it, or copy a protocol to change its prompts.",
        "doctor": "Check Python, Java, the encoder, the endpoint, the keys (set or not), local model servers, and "
        "all sources.",
    },
}
SENTENCES = {name: sentence for verbs in _PANELS.values() for name, sentence in verbs.items()}
"""What the list of verbs says of each, without importing them all: the first sentences of their own help."""
_PANEL_OF = {name: panel for panel, verbs in _PANELS.items() for name in verbs}
_GROUPS = {"protocols", "prompts", "datasets", "pool", "index", "annotate"}
"""Verbs with verbs of their own."""


class _Verbs(TyperGroup):
    """The verbs. The module of each is imported only when the verb is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(SENTENCES)})
        self._listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the verbs."""
        self._listing = True
        super().format_help(ctx, formatter)
        self._listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build a verb; for the list, its sentence is enough."""
        if self._listing:
            return TyperCommand(cmd_name, help=SENTENCES[cmd_name], rich_help_panel=_PANEL_OF[cmd_name])
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            module, one = import_module(f"madke.cli.{cmd_name}"), typer.Typer()
            if cmd_name in _GROUPS:
                one.add_typer(module.app, name=cmd_name)
            else:
                one.command(name=cmd_name, epilog=getattr(module, "EPILOG", None))(module.command)
            self.commands.update(typer.main.get_group(one).commands)
        return super().get_command(ctx, cmd_name)


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
        say(context.get_help(), verbatim=True)
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
        _fail(str(error), error.exit_status)
    except typer.exceptions.TyperException as error:
        former = getattr(error, "option_name", "").removeprefix("--").replace("-", "_")
        present = RENAMED.get(former, "").replace("_", "-")
        _fail(f"No such option: --{former}; did you mean --{present}?" if present else error.format_message())
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


def _fail(message: str, status: int = 2) -> NoReturn:
    say(f"madke: {' '.join(message.split())}", err=True)
    sys.exit(status)
