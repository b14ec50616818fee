"""Read books (plain text, Markdown, HTML) as titled sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from madke._util.files import text_lines
from madke.core.errors import UserError

_FORMS = {".txt": "text", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
_NO_PROSE = frozenset(
    {"script", "style", "noscript", "template", "nav", "form", "table", "svg", "math", "iframe", "object"}
)
_OWN_LINE = frozenset(
    {"address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "figcaption"}
    | {"figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre"}
    | {"section", "summary", "table", "td", "th", "tr", "ul"}
)
_SECTION_HEADINGS = frozenset({"h1", "h2", "h3"})
"""Headings that start a section; deeper ones are part of its text."""
_DEEP_HEADINGS = frozenset({"h4", "h5", "h6"})
_ENDS_SENTENCE = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f]['\"\u201d\u2019)\]]*$")
_HEADING_LENGTH = 80
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)

_MARKDOWN_DEPTH = 100
"""Levels of quotes and lists (two per list); the parser drops deeper ones, and its default is 20."""


class Section(NamedTuple):
    """The text below one heading."""

    book: str
    """The book's title."""
    heading: str
    """Empty before the first heading."""
    text: str

    @property
    def title(self) -> str:
        """``Book: Heading``, or ``Book`` before the first heading and below the one that is the book's title."""
        return self.book if self.heading in ("", self.book) else f"{self.book}: {self.heading}"


def as_sentence(heading: str) -> str:
    """A heading inside of a text as a sentence of its own, so that it does not run into the next one."""
    heading = heading.rstrip()
    return heading if not heading or _ENDS_SENTENCE.search(heading) else f"{heading}."


def with_ended_headings(text: str) -> str:
    """A plain text in which each short line between empty lines is a sentence of its own."""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    return "\n\n".join(
        as_sentence(each) if "\n" not in each.strip() and len(each.strip()) <= _HEADING_LENGTH else each
        for each in paragraphs
    )


def find_books(sources: Sequence[Path]) -> list[tuple[Path, str]]:
    """Find the book files among the sources, in folders at any depth, sorted by name within each source.

    Each comes with its path relative to the source, starting with the source's name. The file ending (or the one
    before .gz) gives the format. Other files of a folder, and hidden ones, are skipped.
    """
    return [book for source in sources for book in _books_of(source)]


def _books_of(source: Path) -> list[tuple[Path, str]]:
    expected = f"ending in {', '.join(_FORMS)}, or in one of these and .gz"
    if source.is_file():
        if book_form(source.name) is None:
            raise UserError(f"unknown book format; expected a file {expected}", file=source)
        return [(source, source.name)]
    if not source.is_dir():
        raise UserError("no such file or folder", file=source)
    above = PurePosixPath(source.resolve().name)
    found = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    books = [
        (source / path, (above / path.as_posix()).as_posix())
        for path in found
        if book_form(path.name) is not None and not any(part.startswith(".") for part in path.parts)
    ]
    if not books:
        raise UserError(f"this folder contains no book; expected files {expected}", file=source)
    return books


def book_form(name: str) -> str | None:
    """The format of a book file by its ending, which may be followed by .gz; None if it is none."""
    return _FORMS.get(PurePosixPath(name.lower().removesuffix(".gz")).suffix)


def read_book(path: Path) -> str:
    """Read a whole book file; UserError if it is not UTF-8."""
    return "".join(text_lines(path))


def sections(name: str, content: str, *, tables: bool = False) -> Iterator[Section]:
    """Yield the sections of a book (``name``: its file name; ``content``: see :func:`read_book`) in order.

    Plain text is one section. Markdown and HTML are divided at headings of the first three levels. The book's title
    is its HTML title, else its first heading of level one, else the file name. Forms, scripts and navigation are left
    out, and without ``tables`` tables, like the semi-structured text in DPR's Wikipedia passages; lists are kept. With
    ``tables``, headings inside of a text end like sentences.
    """
    title = " ".join(re.split(r"[\s_]+", PurePosixPath(name.removesuffix(".gz")).stem))
    form = book_form(name)
    if form == "text":
        yield Section(title, "", content)
        return
    if form == "markdown":
        from markdown_it import MarkdownIt

        markdown = MarkdownIt("commonmark", {"maxNesting": _MARKDOWN_DEPTH}).enable("table")
        content = markdown.render(_FRONT_MATTER.sub("", content, count=1))
    yield from _html_sections(title, content, tables)


def _html_sections(title: str, content: str, tables: bool) -> Iterator[Section]:
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_Reader(tables))
    reader: _Reader = etree.fromstring(content.encode(), parser)
    if cut := parser.error_log.filter_from_fatals():
        raise ValueError(f"the parser stopped at line {cut[0].line}: {cut[0].message}")
    book = reader.title or reader.first_h1 or title
    for heading, pieces in reader.parts:
        yield Section(book, heading, "".join(pieces))


class _Reader:
    """Handles a parser's events. A tree would be limited to libxml2's maximum depth of 2,048 elements."""

    def __init__(self, tables: bool) -> None:
        self.title = ""
        self.first_h1 = ""
        self.parts: list[tuple[str, list[str]]] = [("", [])]
        """Each heading with the pieces of its text."""
        self._pieces = self.parts[0][1]
        self._documents = tables
        self._left_out = _NO_PROSE - {"table"} if tables else _NO_PROSE
        self._no_prose = 0
        """Number of open elements, counted from the outermost one that is not prose."""
        self._name = 0
        """Number of open elements, counted from the title or heading."""

    def start(self, tag: str, attributes: object) -> None:
        if not self._no_prose and tag in _OWN_LINE:
            self._pieces.append("\n")
        if self._no_prose or tag in self._left_out:
            self._no_prose += 1
        elif self._name:
            self._name += 1
        elif tag == "title" or tag in _SECTION_HEADINGS:
            self._name, self._pieces = 1, []

    def end(self, tag: str) -> None:
        if tag in _DEEP_HEADINGS and self._documents and not self._no_prose and not self._name and self._pieces:
            self._pieces[-1] = as_sentence(self._pieces[-1])
        if self._no_prose:
            self._no_prose -= 1
        elif self._name:
            self._name -= 1
            if not self._name:
                self._named(tag)
        if not self._no_prose and tag in _OWN_LINE:
            self._pieces.append("\n")

    def data(self, text: str) -> None:
        if not self._no_prose:
            self._pieces.append(text)

    def close(self) -> _Reader:
        return self

    def _named(self, tag: str) -> None:
        name = " ".join("".join(self._pieces).split())
        if tag == "title":
            self.title = self.title or name
        else:
            self.parts.append((name, []))
            if tag == "h1":
                self.first_h1 = self.first_h1 or name
        self._pieces = self.parts[-1][1]
