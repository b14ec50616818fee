"""Convert wikitext to prose as in DPR's passages: no tables, infoboxes, lists, notes or headings.

1. Expand the few templates whose words belong to their sentence.
2. In one linear pass, remove everything between paired marks: other templates (as in DPR, even the number in "a depth
   of {{...}}"), tables, references, formulas, galleries, HTML tables and lists, links to files and categories. Of
   formatting tags only the tags are removed.
3. Remove lines that are no prose.
4. Let mwparserfromhell read the remaining links. It never sees unclosed marks, for which it needs quadratic time.

The pass of step 2 keeps a stack of open marks. A closing mark also closes weaker open marks inside its pair, never a
stronger one, and no pair spans a section heading. An unpaired mark is removed and its text is kept.
"""

import html
import re
from collections.abc import Callable

_WORDINGS = {
    "{0}": "nihongo|ill|interlanguage link|nowrap|nobr|small|abbr|val|quote|blockquote",
    "{1}": "lang|langx|transliteration|transl",
    "c. {0}": "circa|c.",
    "As of {0}": "as of",
    "US${0}": "us$",
    "USS {0}": "uss",
    "HMS {0}": "hms",
    "{0} {1}": "ship",
    "\N{EN DASH}": "ndash",
    " \N{EN DASH} ": "spaced ndash|snd",
    "\N{EM DASH}": "mdash",
    "'": "'",
}
"""Replacement text (with the template's positional arguments by number) -> names of the templates."""
_WORDING = {name: wording for wording, names in _WORDINGS.items() for name in names.split("|")}

_LENGTHS = {"convert", "cvt"}
_BETWEEN = {"to", "and", "by", "x", "or", "-", "\N{EN DASH}", "to(-)", "+/-", "\N{PLUS-MINUS SIGN}"}

# Only templates of bounded length without nested ones, so that one pass is linear for every text.
_FLAT = re.compile(r"\{\{([^{}|\n]{1,40}+)((?:\|[^{}]{0,2000}+)?)\}\}")
_PARAMETER = re.compile(r"\|(?![^\[\]|]*\]\])")
_NAMED = re.compile(r"\s*([\w -]{1,30}+)=")


def expand_templates(wikitext: str) -> str:
    """Replace known templates by their words, to a depth of two; other templates are unchanged."""
    for _ in range(2):
        wikitext = _FLAT.sub(_words, wikitext)
    return wikitext


def _words(template: re.Match[str]) -> str:
    name = template[1].strip().lower().replace("_", " ")
    if name in _LENGTHS:
        # "5|km" is "5 km", "5|to|10|km" is "5 to 10 km": the words before the target unit.
        length = _positional(template[2])
        return " ".join(length[: 4 if len(length) > 3 and length[1] in _BETWEEN else 2])
    wording = "{0}" if name.startswith("lang-") else _WORDING.get(name)
    if wording is None:
        return template[0]
    try:
        return wording.format(*_positional(template[2]))
    except IndexError:
        return ""


def _positional(parameters: str) -> list[str]:
    """The values of the parameters that are unnamed, or named ``1`` or ``text``."""
    values = []
    for parameter in _PARAMETER.split(parameters)[1:]:
        named = _NAMED.match(parameter)
        if named is None:
            values.append(parameter.strip())
        elif named[1].strip() in ("1", "text"):
            values.append(parameter[named.end() :].strip())
    return values


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REMOVED = _names(
    "ref references math chem ce gallery timeline syntaxhighlight source score imagemap mapframe maplink graph "
    "templatedata templatestyles hiero inputbox categorytree indicator table ul ol dl style script includeonly"
)
_INLINE = _names(
    "abbr b bdi bdo big cite code data del dfn em font i ins kbd mark q ruby rb rt rp s samp small span strike strong "
    "sub sup time tt u var noinclude onlyinclude section"
)
_BLOCK = _names("blockquote br caption center dd div dt h1 h2 h3 h4 h5 h6 hr li p poem pre td th tr wbr")

# The pattern begins with a character set instead of alternatives, so that the regex engine skips prose fast.
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
"""Maximum open marks, similar to MediaWiki's limits; deeper marks count as unpaired."""

_STRENGTH = {"[": 0, "[[": 1, "{{": 2, "{|": 3}
_TAG_STRENGTH = 4
_OPEN_BRACKET = "&#91;"


def strip_markup(wikitext: str, hidden: frozenset[str]) -> str:
    """Remove templates, tables and other paired marks; the remaining links and brackets are balanced.

    ``hidden``: lower-case names of the namespaces whose links show no text.
    """
    text = "\n" + _with_literals(_without_comments(wikitext))
    pieces: list[str] = []
    position = 0
    for start, end, instead in sorted(_Scan(text, hidden).cuts()):
        if start >= position:
            pieces += (text[position:start], instead)
            position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _without_comments(text: str) -> str:
    """Remove comments; of an unclosed comment only the mark is removed."""
    first, *rest = text.split("<!--")
    return first + "".join(after if end else inside for inside, end, after in (part.partition("-->") for part in rest))


def _with_literals(text: str) -> str:
    """Turn marks between ``nowiki`` tags into character references: they are text, not markup."""
    first, *rest = _NOWIKI.split(text)
    pieces = [first]
    for part in rest:
        literal, *after = _NOWIKI_END.split(part, maxsplit=1)
        pieces += (literal.translate(_LITERAL), after[0]) if after else (part,)
    return "".join(pieces)


class _Scan:
    def __init__(self, text: str, hidden: frozenset[str]) -> None:
        self._text = text
        self._hidden = hidden
        self._cuts: list[tuple[int, int, str]] = []
        self._open: list[tuple[str, int, int]] = []
        """Kind, start and end of each open mark."""

    def cuts(self) -> list[tuple[int, int, str]]:
        """(start, end, replacement) of each cut, unordered; cuts may be nested."""
        handlers: dict[str, Callable[[re.Match[str]], None]] = {
            "table": lambda token: self._push("{|", token.start() + 1, token.end()),
            "table_end": lambda token: self._close("{|", token.start() + 1, token.end()),
            "curly": lambda token: self._openings("{{", *token.span()),
            "curly_end": self._curly_end,
            "square": lambda token: self._openings("[[", *token.span()),
            "square_end": self._square_end,
            "attributes": self._tag,
            "heading": lambda token: self._discard(_TAG_STRENGTH + 1),
        }
        for token in _TOKEN.finditer(self._text):
            handlers[token.lastgroup or ""](token)
        self._discard(_TAG_STRENGTH + 1)
        return self._cuts

    def _push(self, kind: str, start: int, end: int) -> None:
        if len(self._open) < _DEPTH:
            self._open.append((kind, start, end))
        else:
            self._lose(kind, start, end)

    def _lose(self, kind: str, start: int, end: int) -> None:
        """Cut an unpaired mark. A single bracket is text: it becomes a character reference."""
        self._cuts.append((start, end, _OPEN_BRACKET if kind == "[" else ""))

    def _discard(self, strength: int) -> None:
        """Pop open marks weaker than ``strength``, up to the first that is not."""
        while self._open and _strength(self._open[-1][0]) < strength:
            self._lose(*self._open.pop())

    def _close(self, kind: str, start: int, end: int) -> None:
        """Cut from the innermost open mark of this kind to ``end``; if there is none, cut only this mark."""
        self._discard(_strength(kind))
        # All tags have the same strength: tags above the partner of a closing tag were left open.
        if kind not in _STRENGTH and any(mark[0] == kind for mark in self._open):
            while self._open[-1][0] != kind:
                self._lose(*self._open.pop())
        if self._open and self._open[-1][0] == kind:
            start = self._open.pop()[1]
        self._cuts.append((start, end, ""))

    def _openings(self, kind: str, start: int, end: int) -> None:
        """Push consecutive opening marks; if the number of brackets is odd, the first is a single one."""
        if (end - start) % 2:
            if kind == "[[":
                self._push("[", start, start + 1)
            else:
                self._cuts.append((start, start + 1, ""))
            start += 1
        for mark in range(start, end, 2):
            self._push(kind, mark, mark + 2)

    def _curly_end(self, token: re.Match[str]) -> None:
        start, end = token.span()
        for mark in range(start, end - 1, 2):
            self._close("{{", mark, mark + 2)
        if (end - start) % 2:
            self._cuts.append((end - 1, end, ""))

    def _square_end(self, token: re.Match[str]) -> None:
        start, end = token.span()
        while start < end:
            innermost = self._open[-1][0] if self._open else ""
            width = 2 if innermost == "[[" and end - start > 1 else 1
            if innermost == "[[" and width == 2:
                opening = self._open.pop()
                if self._is_hidden(opening[2], start):
                    self._cuts.append((opening[1], start + 2, ""))
            elif innermost == "[":
                self._open.pop()
            start += width

    def _is_hidden(self, start: int, end: int) -> bool:
        target = self._text[start : min(end, start + 300)]
        namespace = target.partition(":")[0].strip().lower().replace("_", " ")
        return namespace in self._hidden or bool(_LANGUAGE_LINK.match(target))

    def _tag(self, token: re.Match[str]) -> None:
        name = token["tag"].lower()
        if name not in _REMOVED:
            if name in _INLINE or name in _BLOCK:
                self._cuts.append((*token.span(), "" if name in _INLINE else " "))
        elif token["slash"]:
            self._close(name, *token.span())
        elif token["attributes"].endswith("/"):
            self._cuts.append((*token.span(), ""))
        else:
            self._push(name, *token.span())


def _strength(kind: str) -> int:
    return _STRENGTH.get(kind, _TAG_STRENGTH)


HIDDEN = frozenset({"file", "image", "media", "category"})
"""Namespaces whose links show no text, by their names in every wiki."""

_NO_PROSE = re.compile(r"[*#:;|!]|={1,6}[^\n]*=\s*\Z|-{4}")
_QUOTES = re.compile("'{2,}")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_HOLLOW = re.compile(r" ?\([ ,;:]*+\)")
_HOLLOW_START = re.compile(r"\([ ,;]++")
_HOLLOW_PLACE = re.compile(r" ?[,;] ?(?=[,;)])")


def plain_text(wikitext: str, *, hidden: frozenset[str] = HIDDEN) -> str:
    """The prose of a page, one paragraph per line, in linear time; ``hidden``: see :func:`strip_markup`."""
    text = strip_markup(expand_templates(wikitext), hidden)
    paragraphs = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or _NO_PROSE.match(line):
            continue
        line = _QUOTES.sub("", _MAGIC_WORD.sub("", line))
        if "[" in line:
            line = _without_links(line)
        line = _ENTITY.sub(lambda entity: html.unescape(entity[0]), line)
        line = " ".join(line.split())
        if "(" in line:
            # Parentheses often held only a template (a pronunciation, a name in another script).
            line = _HOLLOW_START.sub("(", _HOLLOW.sub("", _HOLLOW_PLACE.sub("", line))).strip()
        if line:
            paragraphs.append(line)
    return "\n".join(paragraphs)


def _without_links(line: str) -> str:
    import mwparserfromhell

    return str(mwparserfromhell.parse(line, skip_style_tags=True).strip_code(normalize=False, collapse=False))
