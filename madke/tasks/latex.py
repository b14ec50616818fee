"""One spelling for what LaTeX and plain text write in several ways."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from madke.tasks.units import split_unit

_MAGNITUDES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_TEXT = r"\\(?:text|mathrm|textbf|textrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"
_REWRITES = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        # Spacing, size and text, which mean nothing.
        (r"\\!\s*", ""),
        (r"\\(?:left|right|displaystyle)(?![a-z])|(?<!\\)\\[,;: ]|~|\\q?quad(?![a-z])", " "),
        (r"\\[dt]frac", r"\\frac"),
        (rf"\\frac\s*\{{\s*{_TEXT}\s*\}}\s*\{{\s*{_TEXT}(\^\{{?\d\}}?)?\s*\}}", r" \1/\2\3"),
        (_TEXT, r" \1 "),
        # Signs: degrees and cents are units, currencies go.
        (r"\^\s*(?:\\circ(?![a-z])|\{\s*\\circ\s*\})|\u00b0", " degrees "),
        (r"\u00a2", " cents"),
        (r"\b([ap])\.\s?m\b\.?", r"\1m"),
        (r"\\?%", " % "),
        (r"\\\$|[$\u20ac\u00a3]", " "),
        (r"[\u2212\u2013]", "-"),
        (r"\u00b2", "^2"),
        (r"\u00b3", "^3"),
        (r"\u00b7", r" \\cdot "),
        (r"\u221e", r"\\infty "),
        (r"(?<![\\A-Za-z])pi(?![A-Za-z])|\u03c0", r"\\pi "),
        (r"\u221a\s*(\w+)", r"\\sqrt{\1}"),
        # Numbers: mixed, with an exponent, with a magnitude, fractions of digits without braces.
        (r"(?<![\w.])(\d+)\s+(\d+)/(\d+)(?![\w.])", r"\1\\frac{\2}{\3}"),
        (r"(?<=\d)[eE]([-+]?\d+)(?!\w)", r"\\times 10^{\1}"),
        *((rf"(?<=\d) ?{name}(?![a-z])", rf"\\times 10^{{{zeros}}}") for name, zeros in _MAGNITUDES.items()),
        (r"\\frac\s*(\d)\s*(\d+)", r"\\frac{\1}{\2}"),
    )
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SEVERAL = ("(", "[", "\\{")
_BASE = re.compile(r"(?P<value>\d+)\s*_\s*\{?(?P<base>\d+)\}?")
_WORDS = re.compile(r"[^\W\d_]{3,}(?:[ '-][^\W\d_]+)*")
_MAX_LENGTH = 1000
_DECIMAL = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_LETTER = re.compile(r"\(([A-Za-z])\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """A mathematical answer taken apart."""

    value: str
    """Without the unit, one spelling; words in lower case."""
    unit: str = ""
    """In one spelling: ``cm^2``, ``h^-1 km``, ``%``, ``base 8``. Empty if none is given."""
    words: bool = False
    """Whether the value is plain words, which are no product of their letters."""


def decimal(text: str) -> Fraction | None:
    """The exact value of a plain decimal number; None for anything else."""
    compact = text.replace(" ", "")
    return Fraction(compact) if _DECIMAL.fullmatch(compact) else None


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Take an answer apart; one that is too long to be an expression stays as it is."""
    if len(text) > _MAX_LENGTH:
        return Expression(value=text)
    for pattern, written in _REWRITES:
        text = pattern.sub(written, text)
    text = " ".join(text.split())
    if not text.startswith(_SEVERAL):  # In a tuple or a set a comma separates.
        text = _THOUSANDS.sub("", text)
    if based := _BASE.fullmatch(text):
        return Expression(value=based["value"], unit=f"base {based['base']}")
    if words := _WORDS.fullmatch(text.strip("(). ")):
        return Expression(value=words[0].casefold(), words=True)
    value, unit = split_unit(text)
    letter = _LETTER.fullmatch(value)
    return Expression(value=letter[1] if letter else value, unit=unit)
