"""All output to the terminal, with control characters removed.

Text of models, web pages, datasets and other people's runs must not control the terminal: commands print through
:func:`say`, :func:`say_json` or :func:`console`, and log through :class:`LogHandler`.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any, Literal

from madke.core.addresses import SECRET, with_public_urls

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Co")

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)

_PIPED_WIDTH = 140

LONGEST_WORD = 30
"""Letters of a word that no table breaks."""

_SHORT = 12
"""Letters of a line that no table wraps."""

_LONG_NAME = 20
"""Letters of a word with hyphens, underscores or slashes that no table breaks."""

_PIECES = re.compile(r"[^-/_]*[-/_]+|[^-/_]+")
"""The parts of a name: a line may end after each."""

_KEPT_SPACE = "\ue000"
"""In place of a space in a path, while lines are wrapped. No printable text holds this character."""

_GAP = 2
"""The width of the space after a column."""


class OutputError(Exception):
    """Standard output cannot be written. Not an OSError, so that it is not taken for a file error."""

    def __init__(self, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        super().__init__(f"standard output cannot be written: {why}")
        self.reader_left = error.errno == errno.EPIPE
        """Whether a reader such as ``head`` has closed the pipe."""


def say(text: str, *, err: bool = False, end: str = "\n", verbatim: bool = False) -> None:
    """Print a text without control and formatting characters. OutputError if standard output cannot be written.

    On a terminal, long lines are wrapped between words, unless the text is ``verbatim``. A path or another word that
    does not fit has a line of its own, unbroken, so that it can be copied.
    """
    shown = printable(text)
    _write("\n".join([shown] if verbatim else _fitted(shown, err=err)) + end, err=err)


def _fitted(text: str, *, err: bool, indent: int = 0) -> list[str]:
    """The lines of a text; on a terminal, long ones are wrapped between words, with the indent of the line."""
    lines = text.split("\n")
    if max(map(len, lines)) + indent <= 2 * LONGEST_WORD or not (sys.stderr if err else sys.stdout).isatty():
        return lines
    width = max(console(err=err).width - indent, LONGEST_WORD)
    for path in _paths_with_spaces():
        text = text.replace(path, path.replace(" ", _KEPT_SPACE))
    together = text.replace(" %", "\N{NO-BREAK SPACE}%").split("\n")
    # Short lines stay as they are: the space at the end of a prompt counts.
    pieces = (_between_words(line, width) if len(line) > width else [line] for line in together)
    return [piece.replace(_KEPT_SPACE, " ") for line in pieces for piece in line]


def _paths_with_spaces() -> list[str]:
    """The working folder and the paths of the command line that hold spaces: no line ends at these."""
    words = [word.partition("=")[2] if word.startswith("--") else word for word in sys.argv[1:] if " " in word]
    paths = [word for word in words if os.path.exists(word) or os.path.isdir(os.path.dirname(word))]
    with suppress(OSError):
        paths.append(os.getcwd())
    return [*map(printable, paths)]


def _between_words(line: str, width: int) -> list[str]:
    margin = line[: len(line) - len(line.lstrip())]
    return wrap(line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print a value, which may hold dataclasses, as JSON. Unprintable and not encodable characters are escaped."""
    shown = printable_json(json.dumps(value, ensure_ascii=False, indent=indent, default=asdict))
    encoding = sys.stdout.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = "".join(c if c.isascii() else _escaped(c) for c in shown)
    _write(f"{shown}\n", err=False)


def say_wrapped(text: str, *, label: str = "", indent: int = 0) -> None:
    """Print a text as :func:`say` does, on a terminal wrapped between words, with a label in front of it."""
    lines = _fitted(text, err=False, indent=indent)
    _write(printable(f"{label:<{indent}}" + f"\n{' ' * indent}".join(lines)) + "\n", err=False)


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Container[str] = ()) -> None:
    """Print a plain table; see :class:`FittedTable`."""
    console().print(FittedTable(headings, rows, figures=figures))


def _words(line: str) -> list[str]:
    """What of a line must fit the width of its column."""
    return [line] if len(line) <= _SHORT else [*map(_unbroken, line.split())]


def _unbroken(word: str) -> str:
    parts = [word] if len(word) <= _LONG_NAME else [word[:_LONG_NAME], *_PIECES.findall(word)]
    return max(parts, key=len)[:LONGEST_WORD]


def _broken(cell: str, width: int) -> str:
    """The cell with a line end after hyphens, underscores or slashes of words that are longer than the column."""
    from rich.cells import cell_len

    def in_pieces(word: re.Match[str]) -> str:
        lines = [""]
        for piece in _PIECES.findall(word[0]):
            fits = cell_len(lines[-1] + piece) <= width
            lines = [*lines[:-1], lines[-1] + piece] if fits or not lines[-1] else [*lines, piece]
        return "\n".join(lines)

    return re.sub(rf"\S{{{width + 1},}}", in_pieces, cell)


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table that fits the width of the terminal: it wraps between words, and leaves out columns.

    Columns are left out from the right, but those of ``first_out`` before all others. A note names them; their notes
    (``HEADING: ...`` or ``HEADING and HEADING: ...``) go with them. A long name may be broken after a hyphen, an
    underscore or a slash; another word only if it has more than :data:`LONGEST_WORD` letters. Columns whose headings
    are among the ``figures`` are right-aligned, and wrapped only at the ``to`` of a range.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Container[str] = ()
    title: str = ""
    notes: Sequence[str] = ()
    first_out: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        columns = list(zip(self.headings, *self.rows, strict=True))
        widths = [self._widths(*column) for column in columns]
        kept = self._kept([least for least, _ in widths], options.max_width)
        shown = [columns[n] for n in kept]
        shares = _shared_out([widths[n] for n in kept], options.max_width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for (heading, *_), width in zip(shown, shares, strict=True):
            justify: Literal["left", "right"] = "right" if heading in self.figures else "left"
            table.add_column(Text(_broken(heading, width)), justify=justify, width=width, overflow="fold")
        for row in zip(*(cells for _, *cells in shown), strict=True):
            table.add_row(*map(Text, map(_broken, row, shares)))
        if self.title:
            yield Text(f"\n{self.title}", style="table.title")
        yield table
        left_out = [heading for n, heading in enumerate(self.headings) if n not in kept]
        notes = [note for note in self.notes if not {*note.partition(":")[0].split(" and ")} <= {*left_out}]
        for note in (*notes, *([f"Not shown at this width: {', '.join(left_out)}."] if left_out else [])):
            yield Text(note, style="table.caption")

    def _kept(self, least: Sequence[int], most: int) -> list[int]:
        """The columns that are shown, at least one."""
        kept = list(range(len(least)))
        first = [n for heading in self.first_out for n in kept if self.headings[n] == heading]
        for n in dict.fromkeys([*first, *reversed(kept)]):
            if sum(least[column] + _GAP for column in kept) > most and len(kept) > 1:
                kept.remove(n)
        return kept

    def _widths(self, heading: str, *cells: str) -> tuple[int, int]:
        """The width that breaks no word and no figure, and the width that wraps nothing."""
        from rich.cells import cell_len

        lines = [line for cell in cells for line in cell.split("\n")]
        split = (line.split(" to ") if heading in self.figures else _words(line) for line in lines)
        words = [*map(_unbroken, heading.split()), *(part for parts in split for part in parts)]
        least = max(map(cell_len, words), default=0)
        return least, max(map(cell_len, [heading, *lines]))


def _shared_out(columns: Sequence[tuple[int, int]], most: int) -> list[int]:
    """The width of each column: at least what breaks no word, and more in equal parts where it would wrap."""
    width = most - _GAP * len(columns)
    widths = [least for least, _ in columns]
    left = width - sum(widths)
    while left > 0 and (wrapped := [n for n, (_, whole) in enumerate(columns) if widths[n] < whole]):
        for n in wrapped[:left]:
            widths[n] += 1
        left -= len(wrapped)
    return [min(each, width) for each in widths]


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
    from rich.console import Console
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


class LogHandler(logging.Handler):
    """Writes printable log lines without keys to the present ``sys.stderr``, which a redrawn line replaces.

    Our warnings look like our errors. Other lines start with the module's name.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        ours = record.levelno >= logging.WARNING and record.name.startswith("madke.")
        line = f"madke: {record.getMessage()}" if ours else f"{record.name}: {self._foreign(record)}"
        say(without_keys(printable(line)), err=True)

    def _foreign(self, record: logging.LogRecord) -> str:
        """A line that may name any address; ours name public ones."""
        text = self.format(record)
        return text if record.name.startswith("madke.") else with_public_urls(text)


def printed_once(package: str) -> None:
    """Remove the handlers of an imported package's logger: its lines reach ours too, which makes them printable."""
    logging.getLogger(package).handlers.clear()


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


def environment_without_keys() -> dict[str, str]:
    """The environment without keys, tokens and passwords, for a process that needs none."""
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name)}


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in _CONTROL_CATEGORIES and character not in "\n\t"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
