"""Read documents (PDF, DOCX, XLSX, PPTX, HTML, Markdown, plain text) as titled passages.

Documents are untrusted and parsers have bugs, so :class:`BoundedReader` reads them in a process of its own, with bounds
on time and memory. The process reads requests from standard input and answers on standard output, one line of JSON
each: nothing that it sends is unpickled or run. It gets the environment without keys. A document on which it hangs or
dies is left out, and another process reads the next one.
"""

import json
import os
import re
import resource
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from math import ceil
from pathlib import Path, PurePosixPath
from threading import Timer
from typing import Any, NamedTuple
from zipfile import ZipFile

from madke._util.assets import PACKAGE, install
from madke._util.files import text_lines
from madke.core.errors import UserError

MAX_DOCUMENT_CHARACTERS = 50_000_000
"""Of one document: more than 10,000 pages."""
_MAX_XML_BYTES = 256 << 20
_PASSAGE_WORDS = 100

# Scripts without spaces between words.
_SPACELESS = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_UNIT = re.compile(rf"(?:[{_SPACELESS}]{{1,2}}|[^\s{_SPACELESS}]{{1,40}})\s*")
"""A word; also two characters of a script without spaces, and 40 of a longer run."""
_SPACELESS_LETTER = re.compile(f"[{_SPACELESS}]")
_BROKEN_LINE = re.compile(rf"(?<=[{_SPACELESS}])\s*\n\s*(?=[{_SPACELESS}])")
_FORMS_OF_LETTERS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]+")
"""Ligatures, and Arabic letters by their position in a word."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\uffff]")
# PDFium writes U+FFFE for a hyphen at the end of a line and continues on the next line without a break.
_HYPHENATED = re.compile("(?<!\\w)(\\w++)(?:\ufffe\\s*|[-\u2010\u00ad]\r?\n)(\\w+)")
_COMPOUND = re.compile(r"\w+(?:-\w+)*")


class Unreadable(Exception):
    """Why a document has no passages."""


class Document(NamedTuple):
    """What a document holds."""

    passages: list[tuple[str, str]]
    """Title (``reports/kestrel.pdf, p. 3``, ``notes.md: Nests``) and text of each passage, in order."""
    pages: int
    """0 for formats without pages."""
    note: str
    """Which part of it was left out, and why; empty if none."""


_Parts = list[tuple[str, str]]
"""What follows the document's name in titles, and the text, of each page or section."""


def read_document(path: Path, name: str) -> Document:
    """Read a document; Unreadable if it has no text or cannot be read. ``name`` is its name in titles."""
    try:
        parts, pages, note = _READERS[_kind(name)](path, name)
    except (Unreadable, MemoryError):
        raise
    except UserError as error:
        raise Unreadable(str(error).replace(f"{path}: ", "").replace(f"{path}:", "line ")) from None
    except Exception as error:  # noqa: BLE001 - a parser may raise anything
        raise Unreadable(f"damaged ({type(error).__name__}: {error})") from None
    if sum(len(text) for _, text in parts) > MAX_DOCUMENT_CHARACTERS:
        raise Unreadable(f"more than {MAX_DOCUMENT_CHARACTERS:,} characters of text")
    passages = [(f"{name}{place}", text) for place, whole in parts for text in passages_of(whole)]
    if not passages:
        raise Unreadable("no text (a scan needs text recognition, OCR, first)" if pages else "no text")
    return Document(passages, pages, note)


DOCUMENT_TYPES = "PDF, DOCX, XLSX, PPTX, HTML, Markdown or text"
_PACKAGES = {".xlsx": "openpyxl", ".pptx": "pptx"}
"""Packages of the extra ``documents`` by the endings that need them."""


def is_document(name: str) -> bool:
    """Whether the ending of a file's name is one that :func:`read_document` knows."""
    return _kind(name) in _READERS


def missing_reader(name: str) -> str:
    """Which package is missing to read a document; empty if none is."""
    package = _PACKAGES.get(_kind(name))
    return "" if package is None or find_spec(package) else f"needs {package}: {install('documents')}"


def _kind(name: str) -> str:
    return "text" if text_form(name) else PurePosixPath(name.lower()).suffix


def passages_of(text: str, words: int = _PASSAGE_WORDS) -> Iterator[str]:
    """Divide a page or section into passages of about equal length, between two thirds and one and a half ``words``.

    A shorter text is one passage. Two characters of a script without spaces count as a word.
    """
    text = _FORMS_OF_LETTERS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), _BROKEN_LINE.sub("", text))
    units = _UNIT.findall(_CONTROL.sub("", text.encode("utf-8", "replace").decode()).strip())
    size = ceil(len(units) / max(1, round(len(units) / words)))
    for start in range(0, len(units), size or 1):
        yield " ".join("".join(units[start : start + size]).split())


def _read_text(path: Path, name: str) -> tuple[_Parts, int, str]:
    return _sections(text_form(name) or "text", "".join(text_lines(path))), 0, ""


def _sections(form: str, content: str) -> _Parts:
    return [(f": {heading}" if heading else "", text) for heading, text in sections(form, content)]


_FORMS = {".txt": "text", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
_LEFT_OUT = frozenset({"script", "style", "noscript", "template", "nav", "form", "svg", "math", "iframe", "object"})
_OWN_LINE = frozenset(
    {"address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "figcaption"}
    | {"figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre"}
    | {"section", "summary", "table", "td", "th", "tr", "ul"}
)
_SECTION_HEADINGS = frozenset({"h1", "h2", "h3"})
"""Headings that start a section; deeper ones are part of its text."""
_DEEP_HEADINGS = frozenset({"h4", "h5", "h6"})
_ENDS_SENTENCE = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f]['\"\u201d\u2019)\]]*$")
_MAX_HEADING = 80
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)

_MAX_MARKDOWN_DEPTH = 100
"""Levels of quotes and lists (two per list); the parser drops deeper ones, and its default is 20."""


def as_sentence(heading: str) -> str:
    """A heading inside of a text as a sentence of its own, so that it does not run into the next one."""
    heading = heading.rstrip()
    return heading if not heading or _ENDS_SENTENCE.search(heading) else f"{heading}."


def text_form(name: str) -> str | None:
    """The form of a file of text by its ending, which may be followed by .gz; None if it is none."""
    return _FORMS.get(PurePosixPath(name.lower().removesuffix(".gz")).suffix)


def sections(form: str, content: str) -> list[tuple[str, str]]:
    """Heading and text of each section in order; the heading is empty before the first one.

    ``form`` is ``text``, ``markdown`` or ``html``. Plain text is one section. Markdown and HTML are divided at headings
    of the first three levels. Forms, scripts and navigation are left out. Headings inside of a text end like sentences.
    """
    if form == "text":
        paragraphs = re.split(r"\n[ \t]*\n", content)
        ended = (
            as_sentence(each) if "\n" not in each.strip() and len(each.strip()) <= _MAX_HEADING else each
            for each in paragraphs
        )
        return [("", "\n\n".join(ended))]
    if form == "markdown":
        from markdown_it import MarkdownIt

        markdown = MarkdownIt("commonmark", {"maxNesting": _MAX_MARKDOWN_DEPTH}).enable("table")
        content = markdown.render(_FRONT_MATTER.sub("", content, count=1))

    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_HtmlText())
    parts = etree.fromstring(content.encode(), parser)
    if cut := parser.error_log.filter_from_fatals():
        raise ValueError(f"the parser stopped at line {cut[0].line}: {cut[0].message}")
    return [(heading, "".join(pieces)) for heading, pieces in parts]


class _HtmlText:
    """Handles a parser's events. A tree would be limited to libxml2's maximum depth of 2,048 elements."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, list[str]]] = [("", [])]
        """Each heading with the pieces of its text."""
        self._pieces = self.parts[0][1]
        self._left_out = 0
        """Number of open elements, counted from the outermost one that is left out."""
        self._heading = 0
        """Number of open elements, counted from the title or heading."""

    def start(self, tag: str, attributes: object) -> None:
        if not self._left_out and tag in _OWN_LINE:
            self._pieces.append("\n")
        if self._left_out or tag in _LEFT_OUT:
            self._left_out += 1
        elif self._heading:
            self._heading += 1
        elif tag == "title" or tag in _SECTION_HEADINGS:
            self._heading, self._pieces = 1, []

    def end(self, tag: str) -> None:
        if tag in _DEEP_HEADINGS and not self._left_out and not self._heading and self._pieces:
            self._pieces[-1] = as_sentence(self._pieces[-1])
        if self._left_out:
            self._left_out -= 1
        elif self._heading:
            self._heading -= 1
            if not self._heading:
                if tag != "title":
                    self.parts.append((" ".join("".join(self._pieces).split()), []))
                self._pieces = self.parts[-1][1]
        if not self._left_out and tag in _OWN_LINE:
            self._pieces.append("\n")

    def data(self, text: str) -> None:
        if not self._left_out:
            self._pieces.append(text)

    def close(self) -> list[tuple[str, list[str]]]:
        return self.parts


def _read_pdf(path: Path, name: str) -> tuple[_Parts, int, str]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD
        raise Unreadable("encrypted: it opens only with a password" if locked else "damaged, or no PDF") from None
    texts, images, damaged = [], 0, 0
    for number in range(len(document)):
        try:
            page = document[number]
            texts.append(_page_text(page.get_textpage()))
            if not texts[-1].strip():
                images += any(page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            page.close()  # otherwise all pages stay in memory
        except pypdfium2.PdfiumError:
            texts.append("")
            damaged += 1
    counts = {"are images without text (scans need text recognition, OCR)": images, "are damaged": damaged}
    note = "; ".join(f"{count} of {len(texts)} pages {what}" for what, count in counts.items() if count)
    known = {word for text in texts for word in _COMPOUND.findall(text.lower())}
    pages = [_HYPHENATED.sub(lambda match: _rejoin(match, known), text) for text in texts]
    return [(f", p. {number}", text) for number, text in enumerate(pages, start=1)], len(pages), note


def _page_text(page: Any) -> str:
    """The text of a page as it was drawn, but two columns drawn across the page one after the other.

    A PDF has no other reading order. Some typesetters and programs for text recognition draw a line of each column in
    turn, as one draws a table. Such a block is read by columns if its text runs on from line to line in each column.
    """
    drawn = str(page.get_text_range())
    parts: list[str] = []
    above: float | None = None
    for left, right, bottom, top in _gaps(
        drawn, lambda n: page.get_charbox(min(n, page.count_chars() - 1), loose=True)
    ):
        middle, inside = (left + right) / 2, {"bottom": bottom, "top": top}
        columns = [page.get_text_bounded(right=middle, **inside), page.get_text_bounded(left=middle, **inside)]
        if all(map(_runs_on, columns)):
            parts += [page.get_text_bounded(bottom=top, top=above), *columns]
            above = bottom
    if not parts:
        return drawn
    # U+0002 is PDFium's other sign for a hyphen at the end of a line.
    text = "\n".join([*parts, page.get_text_bounded(top=above)]).replace("\x02", "\ufffe")
    return re.sub(" +(?=\r?\n)", "", text)


_Box = tuple[float, float, float, float]
"""Left, right, bottom and top of a gap, in points from the lower left corner of the page."""


def _gaps(text: str, box_of: Callable[[int], tuple[float, float, float, float]]) -> list[_Box]:
    """The gaps, as wide as the text is high, that are at one place in at least three lines below each other.

    ``box_of`` gives the box (left, bottom, right, top) of a character by its number.
    """
    gaps: list[tuple[int, _Box]] = []
    for space in re.finditer(r"(?<=\S) +(?=\S)", text):
        _, bottom, left, top = box_of(space.start() - 1)
        right, low, _, high = box_of(space.end())
        height = high - low
        if right - left < height or abs(low - bottom) > height / 2:
            continue
        lines, gap = gaps[-1] if gaps else (0, (0.0, 0.0, 0.0, 0.0))
        both = max(left, gap[0]), min(right, gap[1])
        if lines and both[1] - both[0] >= height and 0 < gap[2] - low < 2.5 * height:
            gaps[-1] = lines + 1, (*both, min(bottom, low), gap[3])
        else:
            gaps.append((1, (left, right, min(bottom, low), max(top, high))))
    return [gap for lines, gap in gaps if lines >= 3]


def _runs_on(column: str) -> bool:
    """Whether the lines of a column are text, of which many go on in the next one."""
    lines = [line.strip() for line in column.replace("\x02", "-\n").replace("\ufffe", "-\n").splitlines()]
    lines = [line for line in lines if line]
    words = sum(len(line.split()) + len(_SPACELESS_LETTER.findall(line)) / 2 for line in lines)
    runs = sum(after[:1].islower() or before.endswith("-") for before, after in pairwise(lines))
    return len(lines) > 1 and words >= 2.5 * len(lines) and runs >= 0.4 * (len(lines) - 1)


def _rejoin(match: re.Match[str], known: set[str]) -> str:
    """A word that was divided at the end of a line; ``known`` are the words of the document in lower case."""
    left, right = match.groups()
    hyphenated = f"{left}-{right}"
    whole = (left + right).lower() in known or hyphenated.lower() not in known
    return left + right if whole and left[-1].isalpha() and right[0].islower() else hyphenated


_COMPOUND_FILE = b"\xd0\xcf\x11\xe0"
_NOTE_LINK = re.compile(r'<a href="#(?:foot|end)note-[^>]*>[^<]*</a>')


def _check_office_file(path: Path) -> None:
    """Unreadable if a file of Office's is encrypted, old, or unpacks to too much; its parsers have no limit."""
    with path.open("rb") as file:
        if file.read(4) == _COMPOUND_FILE:
            raise Unreadable("encrypted, or in the format of Office before 2007")
    with ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist() if part.filename.endswith(".xml")) > _MAX_XML_BYTES:
            raise Unreadable(f"unpacks to more than {_MAX_XML_BYTES >> 20} MB")


def _read_docx(path: Path, name: str) -> tuple[_Parts, int, str]:
    import mammoth

    _check_office_file(path)
    with path.open("rb") as file:
        result = mammoth.convert_to_html(
            file,
            style_map="p[style-name='Title'] => h1:fresh",
            convert_image=mammoth.images.img_element(lambda image: {}),
        )
    return _sections("html", _NOTE_LINK.sub("", result.value)), 0, ""


def _read_pptx(path: Path, name: str) -> tuple[_Parts, int, str]:
    from pptx import Presentation

    _check_office_file(path)
    parts = []
    for number, slide in enumerate(Presentation(str(path)).slides, start=1):
        lines = [line for shape in slide.shapes for line in _lines_of(shape)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines += slide.notes_slide.notes_text_frame.text.splitlines()
        parts.append((f", slide {number}", "\n".join(map(as_sentence, lines))))
    return parts, 0, ""


def _lines_of(shape: Any) -> Iterator[str]:
    """The paragraphs of a shape, the rows of its table, and what its parts hold."""
    for part in getattr(shape, "shapes", ()):
        yield from _lines_of(part)
    if shape.has_text_frame:
        yield from shape.text_frame.text.splitlines()
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " ".join(cell.text for cell in row.cells)


def _read_xlsx(path: Path, name: str) -> tuple[_Parts, int, str]:
    """A row is a sentence, in which the headings of the first row stand before the values."""
    from openpyxl import load_workbook

    _check_office_file(path)
    book = load_workbook(path, read_only=True, data_only=True)
    parts = []
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # some programs state wrong ones
        rows = filter(any, ([_cell(value) for value in row] for row in sheet.values))
        header = next(rows, [])
        lines = [as_sentence(", ".join(filter(None, header)))]
        for row in rows:
            cells = (f"{head}: {cell}" if head else cell for head, cell in zip_longest(header, row) if cell)
            lines.append(as_sentence("; ".join(cells)))
        parts.append((f": {sheet.title}", "\n".join(lines)))
    return parts, 0, ""


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).removesuffix(" 00:00:00").split())


_READERS: dict[str, Callable[[Path, str], tuple[_Parts, int, str]]] = {
    ".pdf": _read_pdf,
    ".docx": _read_docx,
    ".pptx": _read_pptx,
    ".xlsx": _read_xlsx,
    "text": _read_text,
}


MAX_SECONDS = 120.0
"""For one document. A PDF of 1,000 pages takes about 5."""
MAX_MEMORY_MB = 1_024
"""Address space of the process; about 100 are used before the first document."""

_ENVIRONMENT = ("PYTHON", "LD_LIBRARY_PATH", "LANG", "LC_", "COVERAGE_")
"""Beginnings of the names of the variables that the process gets: no keys."""


class BoundedReader:
    """Reads documents; its process starts with the first one and ends with :meth:`close`."""

    def __init__(self, *, seconds: float = MAX_SECONDS, memory_mb: int = MAX_MEMORY_MB) -> None:
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, name: str) -> Document:
        """See :func:`read_document`; Unreadable also if the document takes too much time or memory."""
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        timer = Timer(self._seconds, process.kill)
        timer.start()
        line = b""
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps([str(path), name]).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
        finally:
            timer.cancel()
            if not line.endswith(b"\n"):  # also after Ctrl-C: its answer would be taken for that of the next document
                self.close()
        if not line:
            limits = f"{self._seconds:g} s or {self._memory_mb:,} MB of memory"
            raise Unreadable(f"damaged, or reading it takes more than {limits}")
        reason, content = json.loads(line)
        if reason is not None:
            raise Unreadable(reason or f"needs more than {self._memory_mb:,} MB of memory")
        return Document([(title, text) for title, text in content[0]], *content[1:])

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        package = str(PACKAGE.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0,  # Ctrl-C is for the parent, which ends this process
        )

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def answer_requests(memory_mb: int) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a parser may print: keep that out of the answers
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        path, name = json.loads(line)
        answers.write(json.dumps(_answer(Path(path), name)).encode() + b"\n")
        answers.flush()


def _answer(path: Path, name: str) -> tuple[str | None, Any]:
    """(None, document) or (reason, None); an empty reason stands for a lack of memory."""
    try:
        return None, read_document(path, name)
    except Unreadable as error:
        return str(error), None
    except MemoryError:
        return "", None


if __name__ == "__main__":
    answer_requests(int(sys.argv[1]))
