"""Wikitext to the prose a reader sees, as DPR's passages have it: no tables, infoboxes, lists, notes or headings.

What has an opening and a closing mark goes first, in one linear pass (``balance``); then whole lines that are
no prose; mwparserfromhell reads the links that are left. It never meets an unclosed mark, on many of which it would
need time quadratic in their number.
"""

from __future__ import annotations

import html
import re

from madke.indexing.passages.balance import take_out
from madke.indexing.passages.templates import write_out

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

    Args:
        wikitext: The text of the page's revision.
        hidden: Lower-case names of the namespaces whose links show nothing.
    """
    text = take_out(write_out(wikitext), hidden)
    paragraphs = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or _NO_PROSE.match(line):
            continue
        line = _QUOTES.sub("", _MAGIC_WORD.sub("", line))
        if "[" in line:
            line = _without_links(line)
        line = _ENTITY.sub(lambda entity: html.unescape(entity[0]), line)
        if line := _without_hollows(" ".join(line.split())):
            paragraphs.append(line)
    return "\n".join(paragraphs)


def _without_links(line: str) -> str:
    import mwparserfromhell

    return str(mwparserfromhell.parse(line, skip_style_tags=True).strip_code(normalize=False, collapse=False))


def _without_hollows(line: str) -> str:
    """What stood between parentheses was often a template (a pronunciation, a name in another script)."""
    if "(" not in line:
        return line
    return _HOLLOW_START.sub("(", _HOLLOW.sub("", _HOLLOW_PLACE.sub("", line))).strip()
