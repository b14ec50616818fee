"""What has an opening and a closing mark in wikitext: found in one pass, and taken out whole.

Taken out are templates, tables, references, formulas, galleries and their like, HTML tables and lists, links to files
and categories. HTML tags that only format are taken out, and what they enclose stays.

The pass keeps a stack of open marks. A closing mark ends the weaker marks that were left open inside its own (a table
cell's ``{{`` does not outlive the table), never a stronger one, and nothing reaches across a section heading. A mark
without its partner is taken for text that lost its other half: the mark goes, the text stays. So a mistake in the
markup costs no more than one section, and mostly nothing. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAKEN_OUT = _names(
    "ref references math chem ce gallery timeline syntaxhighlight source score imagemap mapframe maplink graph "
    "templatedata templatestyles hiero inputbox categorytree indicator table ul ol dl style script includeonly"
)
_INLINE = _names(
    "abbr b bdi bdo big cite code data del dfn em font i ins kbd mark q ruby rb rt rp s samp small span strike strong "
    "sub sup time tt u var noinclude onlyinclude section"
)
_BLOCK = _names("blockquote br caption center dd div dt h1 h2 h3 h4 h5 h6 hr li p poem pre td th tr wbr")

# It begins with a set of characters, not with alternatives, so that the search skips prose at the speed of C.
_TOKEN = re.compile(
    r"[\n<{}\[\]](?:"
    r"(?P<heading>(?<=\n)=[^\n]*=[ \t]*(?=\n|\Z))"
    r"|(?P<table>(?<=\n)[ \t:]*+\{\|)"
    r"|(?P<table_end>(?<=\n)[ \t]*+\|\}(?!\}))"
    r"|(?P<curly>(?<=\{)\{+)"
    r"|(?P<curly_end>(?<=\})\}+)"
    r"|(?P<square>(?<=\[)\[*)"
    r"|(?P<square_end>(?<=\])\]*)"
    r"|(?<=<)(?P<slash>/?)(?P<tag>[a-zA-Z][a-zA-Z0-9]{0,20})(?=[\s/>])(?P<attributes>[^<>]*+)>"
    r")"
)
_NOWIKI = re.compile(r"<nowiki\s*/?>", re.IGNORECASE)
_NOWIKI_END = re.compile(r"</nowiki\s*>", re.IGNORECASE)
_LITERAL = str.maketrans({mark: f"&#{ord(mark)};" for mark in "[]{}|<>'=*#:;_"})
_LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(-[a-z]{2,8})?:[^|]*\Z")

_DEPTH = 40
"""Marks open at once; MediaWiki's own limits are of this order. What is nested deeper counts as without a partner."""

_STRENGTH = {"[": 0, "[[": 1, "{{": 2, "{|": 3}
_TAG_STRENGTH = 4
_OPEN_BRACKET = "&#91;"

_Cut = tuple[int, int, str]
"""Start, end, and what stands there instead."""


def strip_markup(wikitext: str, hidden: frozenset[str]) -> str:
    """The text without what this module's first lines name; its links and brackets are in pairs afterwards.

    ``hidden`` are the lower-case names of the namespaces whose links show nothing (files, categories).
    """
    text = "\n" + _with_literals(_without_comments(wikitext))
    scan = _Scan(text, hidden)
    pieces: list[str] = []
    position = 0
    for start, end, instead in sorted(scan.cuts()):
        if start >= position:
            pieces += (text[position:start], instead)
            position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _without_comments(text: str) -> str:
    """A comment that is never closed loses its mark, not the rest of the page."""
    first, *rest = text.split("<!--")
    return first + "".join(after if end else inside for inside, end, after in (part.partition("-->") for part in rest))


def _with_literals(text: str) -> str:
    """What stands between ``nowiki`` tags is no markup: its marks become character references."""
    first, *rest = _NOWIKI.split(text)
    pieces = [first]
    for part in rest:
        literal, *after = _NOWIKI_END.split(part, maxsplit=1)
        pieces += (literal.translate(_LITERAL), after[0]) if after else (part,)
    return "".join(pieces)


class _Scan:
    """One pass over a text."""

    def __init__(self, text: str, hidden: frozenset[str]) -> None:
        self._text = text
        self._hidden = hidden
        self._cuts: list[_Cut] = []
        self._open: list[tuple[str, int, int]] = []
        """Kind, start and end of each open mark."""

    def cuts(self) -> Iterator[_Cut]:
        """What to take out, in no order; a cut may lie inside another."""
        handlers: dict[str, Callable[[re.Match[str]], None]] = {
            "table": lambda token: self._push("{|", token.start() + 1, token.end()),
            "table_end": lambda token: self._close("{|", token.start() + 1, token.end()),
            "curly": self._curly,
            "curly_end": self._curly_end,
            "square": self._square,
            "square_end": self._square_end,
            "attributes": self._tag,
            "heading": lambda token: self._discard(_TAG_STRENGTH + 1),
        }
        for token in _TOKEN.finditer(self._text):
            handlers[token.lastgroup or ""](token)
        self._discard(_TAG_STRENGTH + 1)
        return iter(self._cuts)

    def _cut(self, start: int, end: int, instead: str = "") -> None:
        self._cuts.append((start, end, instead))

    def _push(self, kind: str, start: int, end: int) -> None:
        if len(self._open) < _DEPTH:
            self._open.append((kind, start, end))
        else:
            self._lose(kind, start, end)

    def _lose(self, kind: str, start: int, end: int) -> None:
        """A mark without its partner. A single bracket is text: it stays, in a form that no parser takes for one."""
        self._cut(start, end, _OPEN_BRACKET if kind == "[" else "")

    def _discard(self, strength: int) -> None:
        """Give up open marks weaker than ``strength`` down to the first that is not."""
        while self._open and _strength(self._open[-1][0]) < strength:
            self._lose(*self._open.pop())

    def _close(self, kind: str, start: int, end: int) -> None:
        """Close the innermost mark of this kind and take out what it encloses; without one, only this mark goes."""
        opening = self._pop(kind)
        self._cut(start if opening is None else opening[1], end)

    def _pop(self, kind: str) -> tuple[str, int, int] | None:
        self._discard(_strength(kind))
        # Tags are of one strength: whatever stands above the partner of a closing tag was left open.
        if kind not in _STRENGTH and any(mark[0] == kind for mark in self._open):
            while self._open[-1][0] != kind:
                self._lose(*self._open.pop())
        return self._open.pop() if self._open and self._open[-1][0] == kind else None

    def _curly(self, token: re.Match[str]) -> None:
        start, end = token.span()
        if (end - start) % 2:
            self._cut(start, start + 1)
            start += 1
        for mark in range(start, end, 2):
            self._push("{{", mark, mark + 2)

    def _curly_end(self, token: re.Match[str]) -> None:
        start, end = token.span()
        for mark in range(start, end - 1, 2):
            self._close("{{", mark, mark + 2)
        if (end - start) % 2:
            self._cut(end - 1, end)

    def _square(self, token: re.Match[str]) -> None:
        start, end = token.span()
        if (end - start) % 2:
            self._push("[", start, start + 1)
            start += 1
        for mark in range(start, end, 2):
            self._push("[[", mark, mark + 2)

    def _square_end(self, token: re.Match[str]) -> None:
        start, end = token.span()
        while start < end:
            innermost = self._open[-1][0] if self._open else ""
            width = 2 if innermost == "[[" and end - start > 1 else 1
            if innermost == "[[" and width == 2:
                opening = self._open.pop()
                if self._is_hidden(opening[2], start):
                    self._cut(opening[1], start + 2)
            elif innermost == "[":
                self._open.pop()
            start += width

    def _is_hidden(self, start: int, end: int) -> bool:
        target = self._text[start : min(end, start + 300)]
        return target.partition(":")[0].strip().lower().replace("_", " ") in self._hidden or bool(
            _LANGUAGE_LINK.match(target)
        )

    def _tag(self, token: re.Match[str]) -> None:
        name = token["tag"].lower()
        if name not in _TAKEN_OUT:
            if name in _INLINE or name in _BLOCK:
                self._cut(*token.span(), "" if name in _INLINE else " ")
        elif token["slash"]:
            self._close(name, *token.span())
        elif token["attributes"].endswith("/"):
            self._cut(*token.span())
        else:
            self._push(name, *token.span())


def _strength(kind: str) -> int:
    return _STRENGTH.get(kind, _TAG_STRENGTH)
