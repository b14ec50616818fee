"""One spelling for what LaTeX and plain text write in several ways."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_MAGNITUDES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_REWRITES = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        # Spacing and size, which mean nothing.
        (r"\\!\s*", ""),
        (r"\\(?:left|right)(?![a-z])|(?<!\\)\\[,;: ]|~|\\q?quad(?![a-z])", " "),
        (r"\\[dt]frac", r"\\frac"),
        # Signs: degrees become a unit, currencies go.
        (r"\^\s*(?:\\circ(?![a-z])|\{\s*\\circ\s*\})|\u00b0", " degrees "),
        (r"\\?%", r"\\%"),
        (r"\\\$|[$\u20ac\u00a3]", " "),
        (r"[\u2212\u2013]", "-"),
        (r"\u221e", r"\\infty "),
        (r"(?<![\\A-Za-z])pi(?![A-Za-z])|\u03c0", r"\\pi "),
        (r"\u221a\s*(\w+)", r"\\sqrt{\1}"),
        # Numbers: mixed, with an exponent, with a magnitude, fractions of two digits.
        (r"(?<![\w.])(\d+)\s+(\d+)/(\d+)(?![\w.])", r"\1\\frac{\2}{\3}"),
        (r"(?<=\d)[eE]([-+]?\d+)(?!\w)", r"\\times 10^{\1}"),
        *((rf"(?<=\d) ?{name}(?![a-z])", rf"\\times 10^{{{zeros}}}") for name, zeros in _MAGNITUDES.items()),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
    )
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SEVERAL = ("(", "[", "\\{")
_TEXT = re.compile(r"\\(?:text|mathrm|textbf|textrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_UNIT = re.compile(r"(?<=[\d})%\s])(?P<unit>[A-Za-z]{2,}(?:[ /][A-Za-z]+)*(?:\^\{?\d\}?)?|(?<=\s)[mgLs])\.?\Z")
_BASE = re.compile(r"(?P<value>\d+)\s*_\s*\{?(?P<base>\d+)\}?")
_WORDS = re.compile(r"[^\W\d_]{3,}(?:[ '-][^\W\d_]+)*")
_MAX_LENGTH = 1000
_DECIMAL = re.compile(r"-?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_LETTER = re.compile(r"\(([A-Za-z])\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """A mathematical answer taken apart."""

    value: str
    """Without the unit, one spelling; words in lower case."""
    unit: str = ""
    """``degree``, ``cm``, ``base 8``, ...; empty if none is given."""
    words: bool = False
    """Whether the value is plain words, which are no product of their letters."""

    @property
    def compact(self) -> str:
        """The value without spaces."""
        return self.value.replace(" ", "")

    @property
    def number(self) -> Fraction | None:
        """The exact value of a plain decimal number."""
        return Fraction(self.compact) if _DECIMAL.fullmatch(self.compact) else None


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Take an answer apart; one that is too long to be an expression stays as it is."""
    if len(text) > _MAX_LENGTH:
        return Expression(value=text)
    for pattern, written in _REWRITES:
        text = pattern.sub(written, text)
    text = " ".join(_TEXT.sub(r" \1 ", text).split())
    if not text.startswith(_SEVERAL):  # In a tuple or a set a comma separates.
        text = _THOUSANDS.sub("", text)
    if based := _BASE.fullmatch(text):
        return Expression(value=based["value"], unit=f"base {based['base']}")
    if words := _WORDS.fullmatch(text.strip("(). ")):
        return Expression(value=words[0].casefold(), words=True)
    unit = ""
    if (measured := _UNIT.search(text)) and text[: measured.start()].strip():
        text, unit = text[: measured.start()].rstrip(), measured["unit"].lower().removesuffix("s")
    letter = _LETTER.fullmatch(text)
    return Expression(value=letter[1] if letter else text, unit=unit)
