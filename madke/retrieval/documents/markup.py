"""Divide plain text, Markdown and HTML into sections."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

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
_HEADING_LENGTH = 80
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)

_MARKDOWN_DEPTH = 100
"""Levels of quotes and lists (two per list); the parser drops deeper ones, and its default is 20."""


class Section(NamedTuple):
    """The text below one heading."""

    heading: str
    """Empty before the first heading."""
    text: str


def as_sentence(heading: str) -> str:
    """A heading inside of a text as a sentence of its own, so that it does not run into the next one."""
    heading = heading.rstrip()
    return heading if not heading or _ENDS_SENTENCE.search(heading) else f"{heading}."


def text_form(name: str) -> str | None:
    """The form of a file of text by its ending, which may be followed by .gz; None if it is none."""
    return _FORMS.get(PurePosixPath(name.lower().removesuffix(".gz")).suffix)


def sections(form: str, content: str) -> list[Section]:
    """The sections of a text in order; ``form`` is ``text``, ``markdown`` or ``html``.

    Plain text is one section. Markdown and HTML are divided at headings of the first three levels. Forms, scripts and
    navigation are left out. Headings inside of a text end like sentences.
    """
    if form == "text":
        paragraphs = re.split(r"\n[ \t]*\n", content)
        ended = (
            as_sentence(each) if "\n" not in each.strip() and len(each.strip()) <= _HEADING_LENGTH else each
            for each in paragraphs
        )
        return [Section("", "\n\n".join(ended))]
    if form == "markdown":
        from markdown_it import MarkdownIt

        markdown = MarkdownIt("commonmark", {"maxNesting": _MARKDOWN_DEPTH}).enable("table")
        content = markdown.render(_FRONT_MATTER.sub("", content, count=1))
    return _html_sections(content)


def _html_sections(content: str) -> list[Section]:
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, target=_Reader())
    reader: _Reader = etree.fromstring(content.encode(), parser)
    if cut := parser.error_log.filter_from_fatals():
        raise ValueError(f"the parser stopped at line {cut[0].line}: {cut[0].message}")
    return [Section(heading, "".join(pieces)) for heading, pieces in reader.parts]


class _Reader:
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

    def close(self) -> _Reader:
        return self
