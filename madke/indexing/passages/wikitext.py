"""Wikitext to the prose a reader sees, as DPR's passages have it: no tables, infoboxes, lists, notes or headings.

The few templates whose words belong to their sentence are written out first. What has an opening and a closing mark
goes next, in one linear pass (``balance``), other templates too (as in DPR, and with them the number in "a
depth of {{...}}"); then whole lines that are no prose. mwparserfromhell reads the links that are left. It
never meets an unclosed mark, on many of which it would need time quadratic in their number.
"""

from __future__ import annotations

import html
import re

from madke.indexing.passages.balance import strip_markup

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
"""What stands in the place of a template, with its positional arguments by number: the templates' names."""
_WORDING = {name: wording for wording, names in _WORDINGS.items() for name in names.split("|")}

_LENGTHS = {"convert", "cvt"}
_BETWEEN = {"to", "and", "by", "x", "or", "-", "\N{EN DASH}", "to(-)", "+/-", "\N{PLUS-MINUS SIGN}"}

# Only templates with none inside them, of a bounded length, so that one pass is linear in the text whatever it holds.
_FLAT = re.compile(r"\{\{([^{}|\n]{1,40}+)((?:\|[^{}]{0,2000}+)?)\}\}")
_PARAMETER = re.compile(r"\|(?![^\[\]|]*\]\])")
_NAMED = re.compile(r"\s*([\w -]{1,30}+)=")
_PASSES = 2


def expand_templates(wikitext: str) -> str:
    """The text with the templates known here written out as words; the others stay as they are.

    Templates inside one another are written out to a depth of two.
    """
    for _ in range(_PASSES):
        wikitext = _FLAT.sub(_words, wikitext)
    return wikitext


def _words(template: re.Match[str]) -> str:
    name = template[1].strip().lower().replace("_", " ")
    if name in _LENGTHS:
        # "5|km" is "5 km", "5|to|10|km" is "5 to 10 km": the words before the unit it is converted to.
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
    """The values of the parameters without a name, or named ``1`` or ``text``, as if they were without."""
    values = []
    for parameter in _PARAMETER.split(parameters)[1:]:
        named = _NAMED.match(parameter)
        if named is None:
            values.append(parameter.strip())
        elif named[1].strip() in ("1", "text"):
            values.append(parameter[named.end() :].strip())
    return values


HIDDEN = frozenset({"file", "image", "media", "category"})
"""Namespaces whose links show nothing in the text, by the names that every wiki knows."""

_NO_PROSE = re.compile(r"[*#:;|!]|={1,6}[^\n]*=\s*\Z|-{4}")
_QUOTES = re.compile("'{2,}")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_HOLLOW = re.compile(r" ?\([ ,;:]*+\)")
_HOLLOW_START = re.compile(r"\([ ,;]++")
_HOLLOW_PLACE = re.compile(r" ?[,;] ?(?=[,;)])")


def plain_text(wikitext: str, *, hidden: frozenset[str] = HIDDEN) -> str:
    """The prose of a page, a paragraph a line. Time is linear in the text, whatever it holds.

    ``hidden`` are the lower-case names of the namespaces whose links show nothing.
    """
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
            # What stood between parentheses was often a template (a pronunciation, a name in another script).
            line = _HOLLOW_START.sub("(", _HOLLOW.sub("", _HOLLOW_PLACE.sub("", line))).strip()
        if line:
            paragraphs.append(line)
    return "\n".join(paragraphs)


def _without_links(line: str) -> str:
    import mwparserfromhell

    return str(mwparserfromhell.parse(line, skip_style_tags=True).strip_code(normalize=False, collapse=False))
