"""Convert wikitext to prose as in DPR's passages: no tables, infoboxes, lists, notes or headings.

1. Expand the few templates whose words belong to their sentence.
2. Remove what is between paired marks, from the inside out: other templates (as in DPR, even the number in "a depth of
   {{...}}"), tables, references, formulas, galleries, HTML tables and lists, links to files and categories. Of
   formatting tags only the tags are removed. No pair spans a section heading, and an unpaired mark is removed alone.
3. Remove lines that are no prose.
4. Let mwparserfromhell read the remaining links. It never sees unclosed marks, for which it needs quadratic time.
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


_REMOVED = (
    "references|ref|math|chem|ce|gallery|timeline|syntaxhighlight|source|score|imagemap|mapframe|maplink|graph|"
    "templatedata|templatestyles|hiero|inputbox|categorytree|indicator|table|ul|ol|dl|style|script|includeonly"
)
_INLINE = (
    "abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|q|ruby|rb|rt|rp|s|samp|small|span|strike|strong|"
    "sub|sup|time|tt|u|var|noinclude|onlyinclude|section"
)
_BLOCK = "blockquote|br|caption|center|dd|div|dt|h[1-6]|hr|li|p|poem|pre|td|th|tr|wbr"

# Each pattern stops at the next mark of its own kind, so that one pass is linear for every text.
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)
_NOWIKI = re.compile(r"<nowiki\s*>((?:(?!<nowiki).)*?)</nowiki\s*>", re.DOTALL | re.IGNORECASE)
_EMPTY_ELEMENT = re.compile(rf"<(?:{_REMOVED})(?:\s[^<>]*+)?(?<=/)>", re.IGNORECASE)
_ELEMENT = re.compile(
    rf"<({_REMOVED})(?:\s[^<>]*+)?>(?:(?!<(?:{_REMOVED})[\s>]|\n=).)*?</\1\s*>", re.DOTALL | re.IGNORECASE
)
_TEMPLATE = re.compile(r"\{\{(?:[^{}\n]|\n(?!=)|\{[^{}]*+\}|\{(?!\{)|\}(?!\}))*+\}\}")
_TABLE = re.compile(r"(?<=\n)[ \t:]*+\{\|(?:(?!\{\||\n=|\n[ \t]*\|\}).)*+\n[ \t]*\|\}(?!\})", re.DOTALL)
_LINK = re.compile(r"\[\[((?:[^\[\]\n]|\n(?!=)|\[[^\[\]]*+\])*+)\]\]")
_UNPAIRED = re.compile(
    rf"<!--|\[\[|\]\]|\{{{{2,}}|\}}{{2,}}|(?<=\n)[ \t:]*+\{{\||</?(?:{_REMOVED}|{_INLINE}|nowiki)(?:[\s/][^<>]*+)?>",
    re.IGNORECASE,
)
_OPEN_BRACKET = re.compile(r"\[(?![^\[\]\n]*+\])")
_BLOCK_TAG = re.compile(rf"</?(?:{_BLOCK})(?:[\s/][^<>]*+)?>", re.IGNORECASE)
_LITERAL = str.maketrans({mark: f"&#{ord(mark)};" for mark in "[]{}|<>'=*#:;_"})
_LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(-[a-z]{2,8})?:[^|]*\Z")
_KEPT, _KEPT_END = "\ue000", "\ue001"
"""Stand for the brackets of links that are kept, while those around them are looked at."""
_MAX_DEPTH = 40
"""How deep marks may be nested, similar to MediaWiki's limits; deeper ones count as unpaired."""


def strip_markup(wikitext: str, hidden: frozenset[str]) -> str:
    """Remove templates, tables and other paired marks; the remaining links are balanced.

    ``hidden``: lower-case names of the namespaces whose links show no text.
    """
    text = "\n" + _COMMENT.sub("", wikitext)
    text = _NOWIKI.sub(lambda match: match[1].translate(_LITERAL), text)
    text = _EMPTY_ELEMENT.sub("", text)
    for pattern, instead in ((_ELEMENT, ""), (_TEMPLATE, ""), (_ELEMENT, ""), (_LINK, _link(hidden)), (_TABLE, "")):
        for _ in range(_MAX_DEPTH):
            text, count = pattern.subn(instead, text)
            if not count:
                break
    text = _OPEN_BRACKET.sub("&#91;", _UNPAIRED.sub("", text))
    text = _BLOCK_TAG.sub(" ", text)
    return text.replace(_KEPT, "[[").replace(_KEPT_END, "]]")


def _link(hidden: frozenset[str]) -> Callable[[re.Match[str]], str]:
    def kept(link: re.Match[str]) -> str:
        namespace = link[1].partition(":")[0].strip().lower().replace("_", " ")
        shows_nothing = namespace in hidden or _LANGUAGE_LINK.match(link[1])
        return "" if shows_nothing else f"{_KEPT}{link[1]}{_KEPT_END}"

    return kept


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
    import mwparserfromhell

    for _ in range(2):  # a known template inside of another one
        wikitext = _FLAT.sub(_words, wikitext)
    text = strip_markup(wikitext, hidden)
    paragraphs = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or _NO_PROSE.match(line):
            continue
        line = _QUOTES.sub("", _MAGIC_WORD.sub("", line))
        if "[" in line:
            line = str(mwparserfromhell.parse(line, skip_style_tags=True).strip_code(normalize=False, collapse=False))
        line = _ENTITY.sub(lambda entity: html.unescape(entity[0]), line)
        line = " ".join(line.split())
        if "(" in line:
            # Parentheses often held only a template (a pronunciation, a name in another script).
            line = _HOLLOW_START.sub("(", _HOLLOW.sub("", _HOLLOW_PLACE.sub("", line))).strip()
        if line:
            paragraphs.append(line)
    return "\n".join(paragraphs)
