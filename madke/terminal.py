"""All output to the terminal, with control characters removed.

Text of models, web pages, datasets and other people's runs must not control the terminal. Commands print through
:func:`say`, :func:`say_json` or :func:`console`, and log through :func:`log_handler`. All of them remove control and
formatting characters before styling.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from madke.core.addresses import SECRET

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Co")

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)

_PIPED_WIDTH = 140


class OutputError(Exception):
    """Standard output cannot be written. Not an OSError, so that it is not taken for a file error."""

    def __init__(self, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        super().__init__(f"standard output cannot be written: {why}")
        self.reader_left = error.errno == errno.EPIPE
        """Whether a reader such as ``head`` has closed the pipe."""


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print a text without control and formatting characters. OutputError if standard output cannot be written."""
    _write(printable(text) + end, err=err)


def say_json(json_text: str, *, end: str = "\n") -> None:
    """Print JSON of the same value. Characters that are unprintable or not encodable are escaped."""
    shown = printable_json(json_text)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = "".join(c if c.isascii() else _escaped(c) for c in shown)
    _write(shown + end, err=False)


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a plain table with these column headings."""
    from rich import box
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def as_text(table: RenderableType, width: int = _PIPED_WIDTH) -> str:
    """A table as plain text."""
    shown = console()
    shown.width = width
    with shown.capture() as captured:
        shown.print(table)
    return captured.get()


def console(*, err: bool = False) -> Console:
    """A Rich console on standard output or standard error that prints only printable text.

    In a pipe or a file the width is fixed. Printing raises :class:`OutputError`, as :func:`say` does.
    """
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class PrintableConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

        def print(self, *objects: Any, **settings: Any) -> None:
            try:
                super().print(*objects, **settings)
            except OSError as error:
                raise OutputError(error) from None

        def on_broken_pipe(self) -> None:
            raise OutputError(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else _PIPED_WIDTH
    return PrintableConsole(stderr=err, width=width, markup=False, highlight=False)


class _ErrorHandler(logging.Handler):
    """Writes to the present ``sys.stderr``, which a redrawn line replaces to print above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record), err=True)


def log_handler() -> logging.Handler:
    """Writes log lines to standard error; see :class:`PrintableFormatter`."""
    handler = _ErrorHandler()
    handler.setFormatter(PrintableFormatter("%(name)s: %(message)s"))
    return handler


def printed_once(package: str) -> None:
    """Remove the handlers of an imported package's logger: its lines reach ours too, which makes them printable."""
    logging.getLogger(package).handlers.clear()


class PrintableFormatter(logging.Formatter):
    """Formats our warnings like our errors. Other lines start with the module's name."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, printable and without keys."""
        ours = record.levelno >= logging.WARNING and record.name.startswith("madke.")
        return without_keys(printable(f"madke: {record.getMessage()}" if ours else super().format(record)))


def open_streams() -> None:
    """Open missing standard streams, and print ``?`` for characters that the encoding lacks.

    If the caller closed a stream (``>&-``), the next opened file would get its number and receive printed text.
    Writing to a closed standard output fails. The other closed streams are empty.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # os.open takes the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR if number == 2 else os.O_RDONLY)
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")
    with suppress(AttributeError):  # a stream of a test
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]


def _stream(number: int, mode: str) -> IO[str]:
    return open(number, mode, encoding="utf-8", closefd=False)


def close_output() -> OutputError | None:
    """Flush standard output. If that fails, discard the buffer and return the error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, sys.stdout.fileno())
            os.close(devnull)
        return OutputError(error)
    return None


def _write(text: str, *, err: bool) -> None:
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if not err:
            raise OutputError(error) from None


def printable(text: str) -> str:
    """The text without control and formatting characters (escape sequences, bidi overrides). Newlines and tabs stay."""
    return "".join(c for c in text if not _is_control(c))


def printable_json(json_text: str) -> str:
    """JSON of the same value, with every control and formatting character escaped."""
    return "".join(_escaped(c) if _is_control(c) else c for c in json_text)


def without_keys(text: str) -> str:
    """The text, with ``***`` for keys, tokens and passwords of the environment."""
    for name, value in os.environ.items():
        # A key that comes from a file may end with a newline, which is not sent.
        if _SECRET.search(name) and len(value.strip()) >= SECRET:
            text = text.replace(value.strip(), "***")
    return text


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in _CONTROL_CATEGORIES and character not in "\n\t"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
