"""The few templates whose words belong to the sentence they stand in; all others are left out.

DPR's passages lose them too, and with them the number in "a depth of {{convert|1642|m}}".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FIRST = "{0}"
_WORDING: dict[str, str] = {
    "lang": "{1}",
    "langx": "{1}",
    "transliteration": "{1}",
    "transl": "{1}",
    "nihongo": _FIRST,
    "ill": _FIRST,
    "interlanguage link": _FIRST,
    "nowrap": _FIRST,
    "nobr": _FIRST,
    "small": _FIRST,
    "abbr": _FIRST,
    "val": _FIRST,
    "quote": _FIRST,
    "blockquote": _FIRST,
    "circa": "c. {0}",
    "c.": "c. {0}",
    "as of": "As of {0}",
    "us$": "US${0}",
    "uss": "USS {0}",
    "hms": "HMS {0}",
    "ship": "{0} {1}",
    "ndash": "\N{EN DASH}",
    "spaced ndash": " \N{EN DASH} ",
    "snd": " \N{EN DASH} ",
    "mdash": "\N{EM DASH}",
    "'": "'",
}
"""What stands in the place of a template: its positional arguments by number."""

_LENGTHS = {"convert", "cvt"}
_BETWEEN = {"to", "and", "by", "x", "or", "-", "\N{EN DASH}", "to(-)", "+/-", "\N{PLUS-MINUS SIGN}"}

# Only templates with none inside them, of a bounded length, so that one pass is linear in the text whatever it holds.
_FLAT = re.compile(r"\{\{([^{}|\n]{1,40}+)((?:\|[^{}]{0,2000}+)?)\}\}")
_PARAMETER = re.compile(r"\|(?![^\[\]|]*\]\])")
_NAMED = re.compile(r"\s*([\w -]{1,30}+)=")
_PASSES = 2


def write_out(wikitext: str) -> str:
    """The text with the templates known here written out as words; the others stay as they are.

    Templates inside one another are written out to a depth of two.
    """
    for _ in range(_PASSES):
        wikitext = _FLAT.sub(_words, wikitext)
    return wikitext


def _words(template: re.Match[str]) -> str:
    name = template[1].strip().lower().replace("_", " ")
    if name in _LENGTHS:
        return _measure(_positional(template[2]))
    wording = _FIRST if name.startswith("lang-") else _WORDING.get(name)
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


def _measure(arguments: Sequence[str]) -> str:
    """``5|km`` is "5 km", ``5|to|10|km`` is "5 to 10 km": the words before the unit it is converted to."""
    count = 4 if len(arguments) > 3 and arguments[1] in _BETWEEN else 2
    return " ".join(arguments[:count])
