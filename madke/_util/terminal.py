"""All output to the terminal, with control characters removed.

Text of models, web pages, datasets and other people's runs must not control the terminal: commands print through
:func:`say` and the functions around it, and log through :class:`LogHandler`.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import asdict
from io import StringIO
from textwrap import TextWrapper, fill

from madke.core.addresses import MIN_SECRET, with_public_urls

_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Co")

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)

_PIPED_WIDTH = 140

_MAX_WORD = 30
"""Letters of a word that a column may be too narrow for."""


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


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print a value, which may hold dataclasses, as JSON. Unprintable and not encodable characters are escaped."""
    shown = printable_json(json.dumps(value, ensure_ascii=False, indent=indent, default=asdict))
    encoding = sys.stdout.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = "".join(c if c.isascii() else _escape(c) for c in shown)
    _write(f"{shown}\n", err=False)


def say_wrapped(text: str, *, label: str = "", indent: int = 0) -> None:
    """Print a text with a label in front of it; on a terminal, long lines are wrapped between words."""
    text, width = printable(text), max(20, output_width() - indent)
    if sys.stdout.isatty():
        wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines = []
        for line in text.split("\n"):
            wrapper.subsequent_indent = line[: len(line) - len(line.lstrip())]
            lines.append(wrapper.fill(line))
        text = "\n".join(lines)
    say(f"{label:<{indent}}" + text.replace("\n", "\n" + " " * indent))


def output_width() -> int:
    """The columns of the terminal; a fixed number in a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_WIDTH


def table_text(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    figures: Container[str] = (),
    title: str = "",
    notes: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """A table as plain text with notes below it; columns of ``figures`` are right-aligned.

    Text wraps between words, so that the table fits ``width`` columns if it can. Default: :func:`output_width`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, needed = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True), 0
    for heading, *cells in zip(headings, *rows, strict=True):
        if is_figure := heading in figures:
            least = max(map(len, [*cells, *heading.split()]))
            heading = fill(heading, least)
        else:
            least = min(_MAX_WORD, max((len(word) for text in (heading, *cells) for word in text.split()), default=0))
        needed += least + 2
        table.add_column(
            Text(printable(heading)), justify="right" if is_figure else "left", min_width=least, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    width = width or output_width()
    screen = Console(file=StringIO(), width=max(width, needed), color_system=None)
    with screen.capture() as captured:
        screen.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join(
        [*([f"\n{title}"] if title else []), *lines, *(fill(note, width, break_long_words=False) for note in notes)]
    )


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Container[str] = ()) -> None:
    """Print a table; see :func:`table_text`."""
    say(table_text(headings, rows, figures=figures))


_status = ""


def show_status(text: str) -> None:
    """Redraw one line below all output on a terminal, cut to its width; an empty text erases it."""
    global _status
    if (text or _status) and sys.stderr.isatty():
        _status = printable(text).replace("\n", " ")[: shutil.get_terminal_size().columns - 1]
        with suppress(OSError):
            sys.stderr.write(f"\r\x1b[K{_status}")
            sys.stderr.flush()


class LogHandler(logging.Handler):
    """Writes printable log lines without keys to the present ``sys.stderr``, which a redrawn line replaces.

    Our warnings look like our errors. Other lines start with the module's name.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        ours = record.levelno >= logging.WARNING and record.name.startswith("madke.")
        line = f"madke: {record.getMessage()}" if ours else f"{record.name}: {self.format(record)}"
        if not record.name.startswith("madke."):  # it may name any address; ours name public ones
            line = with_public_urls(line)
        say(without_keys(printable(line)), err=True)


def printed_once(package: str) -> None:
    """Remove the handlers of an imported package's logger: its lines reach ours too, which makes them printable."""
    logging.getLogger(package).handlers.clear()


def open_streams() -> None:
    """Open missing standard streams, and print ``?`` for characters that the encoding lacks.

    If the caller closed a stream (``>&-``), the next opened file would get its number and receive printed text.
    Writing to a closed standard output fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number, which is this one.
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    with suppress(AttributeError):  # a stream of a test
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]


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
    stream, status = sys.stderr if err else sys.stdout, _status
    show_status("")
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if not err:
            raise OutputError(error) from None
    show_status(status)


def printable(text: str) -> str:
    """The text without control and formatting characters (escape sequences, bidi overrides). Newlines and tabs stay."""
    return "".join(c for c in text if not _is_control(c))


def printable_json(json_text: str) -> str:
    """JSON of the same value, with every control and formatting character escaped."""
    return "".join(_escape(c) if _is_control(c) else c for c in json_text)


def without_keys(text: str) -> str:
    """The text, with ``***`` for keys, tokens and passwords of the environment."""
    for name, value in os.environ.items():
        # A key that comes from a file may end with a newline, which is not sent.
        if _SECRET.search(name) and len(value.strip()) >= MIN_SECRET:
            text = text.replace(value.strip(), "***")
    return text


def environment_without_keys() -> dict[str, str]:
    """The environment without keys, tokens and passwords, for a process that needs none."""
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name)}


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in _CONTROL_CATEGORIES and character not in "\n\t"


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
