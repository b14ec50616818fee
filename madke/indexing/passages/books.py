"""Books as files: plain text, Markdown and HTML, each read into sections with a title."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from madke.core.errors import UserError
from madke.files import opened

_FORMS = {".txt": "text", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
_NO_PROSE = frozenset(
    {"script", "style", "noscript", "template", "nav", "form", "table", "svg", "math", "iframe", "object"}
)
_OWN_LINE = frozenset(
    {"address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt", "figcaption"}
    | {"figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre"}
    | {"section", "summary", "table", "ul"}
)
_SECTION_HEADINGS = frozenset({"h1", "h2", "h3"})
"""Headings that open a section; deeper ones are part of its text."""
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)

_MARKDOWN_DEPTH = 100
"""Levels of quotes and lists (two for each list); the parser drops what lies deeper, with its default already at 20."""


class Section(NamedTuple):
    """A stretch of a book below one heading; its title is ``Book: Heading``, or the book's alone before the first."""

    title: str
    text: str


def find_books(sources: Sequence[Path]) -> list[tuple[Path, str]]:
    """The book files that the sources are, or hold at any depth, sorted by name within each source.

    Each with its name below the source it was found in, that source's own name first. Files are known by their ending,
    possibly with .gz. Other files of a folder, and hidden ones, are passed over.
    """
    return [book for source in sources for book in _books_of(source)]


def _books_of(source: Path) -> list[tuple[Path, str]]:
    expected = f"with one of {', '.join(_FORMS)}, possibly with .gz"
    if source.is_file():
        if _form(source.name) is None:
            raise UserError(f"unknown kind of book; expected a file {expected}", file=source)
        return [(source, source.name)]
    if not source.is_dir():
        raise UserError("no such file or folder", file=source)
    above = PurePosixPath(source.resolve().name)
    found = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    books = [
        (source / path, (above / path.as_posix()).as_posix())
        for path in found
        if _form(path.name) is not None and not any(part.startswith(".") for part in path.parts)
    ]
    if not books:
        raise UserError(f"no book in this folder; expected files {expected}", file=source)
    return books


def _form(name: str) -> str | None:
    return _FORMS.get(PurePosixPath(name.lower().removesuffix(".gz")).suffix)


def read_book(path: Path) -> str:
    """The content of a book file, which is held whole; a UserError where it is not UTF-8."""
    try:
        with opened(path) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise UserError(
            f"is not UTF-8: byte 0x{found:02x} at position {error.start}; convert it first, for instance with iconv",
            file=path,
        ) from None


def sections(name: str, content: str) -> Iterator[Section]:
    """The sections of a book (its file's name, and what :func:`read_book` gave) in order.

    Plain text is one section. Markdown and HTML are divided at headings of the first three levels. The book's title
    is its HTML title, else its first heading of level one, else the file's name. Tables, forms, scripts and navigation
    are left out, as semi-structured text is of DPR's Wikipedia passages; lists stay.
    """
    title = " ".join(re.split(r"[\s_]+", PurePosixPath(name.removesuffix(".gz")).stem))
    form = _form(name)
    if form == "text":
        yield Section(title, content)
        return
    if form == "markdown":
        from markdown_it import MarkdownIt

        markdown = MarkdownIt("commonmark", {"maxNesting": _MARKDOWN_DEPTH}).enable("table")
        content = markdown.render(_FRONT_MATTER.sub("", content, count=1))
    yield from _html_sections(title, content)


def _html_sections(title: str, content: str) -> Iterator[Section]:
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_Reader())
    reader: _Reader = etree.fromstring(content.encode(), parser)
    if cut := parser.error_log.filter_from_fatals():
        raise ValueError(f"the parser stopped at line {cut[0].line}: {cut[0].message}")
    book = reader.title or reader.first_h1 or title
    for heading, pieces in reader.parts:
        yield Section(book if heading in ("", book) else f"{book}: {heading}", "".join(pieces))


class _Reader:
    """Takes a parser's events. A tree of them would end at libxml2's greatest depth, 2,048 elements."""

    def __init__(self) -> None:
        self.title = ""
        self.first_h1 = ""
        self.parts: list[tuple[str, list[str]]] = [("", [])]
        """Each heading, and the pieces of the text below it."""
        self._pieces = self.parts[0][1]
        self._no_prose = 0
        """Open elements from the outermost that is no prose on."""
        self._name = 0
        """Open elements from the title or heading on."""

    def start(self, tag: str, attributes: object) -> None:
        if not self._no_prose and tag in _OWN_LINE:
            self._pieces.append("\n")
        if self._no_prose or tag in _NO_PROSE:
            self._no_prose += 1
        elif self._name:
            self._name += 1
        elif tag == "title" or tag in _SECTION_HEADINGS:
            self._name, self._pieces = 1, []

    def end(self, tag: str) -> None:
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
