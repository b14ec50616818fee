"""Text as comparable words: folded case and marks, one spelling, singular, numbers as digits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from madke.tasks.matching.numbers import digits, merge_numbers, roman


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an answer."""

    key: str
    """What it is compared by: ``theater`` for "Theatres", ``21`` for "twenty-first"."""
    capital: bool = False
    """Whether it began with a capital letter."""
    initials: bool = False
    """Whether it may stand for first letters: ``jrr`` in "J. R. R. Tolkien", ``nato``."""

    @property
    def number(self) -> bool:
        """Whether it is a number, a span of years or a decade."""
        return self.key[0].isdigit() or self.key[0] == "-"


_LETTERS = str.maketrans(
    {"\u00f8": "o", "\u00d8": "O", "\u0142": "l", "\u0141": "L", "\u0111": "d", "\u0110": "D", "\u00f0": "d"}
    | {"\u00de": "Th", "\u00fe": "th", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe", "\u0152": "Oe", "\u0131": "i"}
    | {"\u2018": "'", "\u2019": "'", "\u02bc": "'", "`": "'", "\u2212": "-"}
    | {dash: "-" for dash in "\u2010\u2011\u2012\u2013\u2014"}
)
_SYMBOLS = {"&": "and", "%": "percent", "$": "dollar", "\u00a3": "pound", "\u20ac": "euro", "\u00b0": "degree"}
_REWRITES = tuple(
    (re.compile(pattern, re.IGNORECASE if ignore else 0), written)
    for pattern, written, ignore in (
        (r"(?<![^\W_])'?n'(?![^\W_])", " and ", True),  # rock 'n' roll
        (r"(?:\bno\b\.?|#|\bnumber\b) ?(?=\d)", " ", True),
        (r"\bunited states of america\b", "United States", True),
        # A Roman one or five ends a name; before another name it is a middle initial.
        (r"(?<=[a-z] )I(?![\w'])(?!\.? [A-Z])", "1", False),
        (r"(?<=[a-z] )V(?![\w'])(?!\.? [A-Z])", "5", False),
    )
)
_YEARS = re.compile(r"(?<![\d-])(1\d|20)(\d\d) ?[-/] ?((?:1\d|20)?)(\d\d)(?![\d/-])")
_TOKEN = re.compile(
    r"(?P<years>[12]\d{3}_[12]\d{3})"
    r"|(?P<number>(?:(?<![\w)])-)?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?|\.\d++)(?P<suffix>(?:st|nd|rd|th|'?s)(?![^\W\d_]))?"
    r"|(?P<initials>(?:[^\W\d_]\. ?){2,}|(?:[^\W\d_]\. ?)+[^\W\d_](?![\w']))"
    r"|(?P<letters>[^\W\d_]+(?:'[^\W\d_]+)*[+#]*)"
)
_ARTICLES = frozenset({"a", "an", "the"})

_SAME_WORD = {
    "saint": "st", "street": "st", "mount": "mt", "km": "kilometer", "kilometre": "kilometer", "m": "meter",
    "metre": "meter", "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "ft": "foot", "feet": "foot",
    "inch": "in", "mi": "mile", "lb": "pound", "hr": "hour", "min": "minute", "sec": "second", "mbps": "mbit",
    "gbps": "gbit", "usa": "us", "doctor": "dr", "mister": "mr", "junior": "jr", "jnr": "jr", "senior": "sr",
    "snr": "sr", "versus": "vs", "percentage": "percent", "pct": "percent", "bce": "bc", "ce": "ad",
    "children": "child", "men": "man", "women": "woman", "people": "person", "teeth": "tooth",
    "mice": "mouse", "wolves": "wolf", "leaves": "leaf", "lives": "life", "wives": "wife", "grey": "gray",
    "tv": "television",
}  # fmt: skip


def words(text: str) -> tuple[Word, ...]:
    """The words of a text, in order. Punctuation is gone; so are articles, unless there is nothing else."""
    text = " ".join(fold(text).split())
    for symbol, name in _SYMBOLS.items():
        text = text.replace(symbol, f" {name} ")
    for pattern, written in _REWRITES:
        text = pattern.sub(written, text)
    found = _merge_initials([word for match in _TOKEN.finditer(_YEARS.sub(_span, text)) if (word := _word(match)).key])
    merged = []
    for key, run in merge_numbers([word.key for word in found]):
        capital = any(word.capital for word in found[run])
        initials = any(word.initials for word in found[run])
        if not key[0].isdigit() and (not initials or key == "usa"):
            key = spelling(key)
        merged.append(Word(key, capital, initials))
    return tuple(word for at, word in enumerate(merged) if not _article(merged, at)) or tuple(merged)


def vocabulary(text: str) -> frozenset[str]:
    """A set of words written as one text."""
    return frozenset(text.split())


def fold(text: str) -> str:
    """Compatibility forms, accents and typographic marks reduced to plain letters and signs; case is kept."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(character for character in decomposed if not unicodedata.combining(character)).replace("\u2044", "/")


def spelling(word: str) -> str:
    """One spelling of a lower-case word: American, singular, units by name."""
    word = _SAME_WORD.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    if len(word) > 5 and word.endswith("our"):
        word = word[:-3] + "or"
    elif len(word) > 4 and word.endswith(("tre", "bre")):
        word = word[:-2] + "er"
    for british, american in (("isation", "ization"), ("ise", "ize"), ("yse", "yze")):
        if len(word) > 5 and word.endswith(british):
            word = word.removesuffix(british) + american
    return _SAME_WORD.get(word, word)


def _article(found: Sequence[Word], at: int) -> bool:
    """Whether a word is an article; an A inside an answer, or before a number, is a name ("Hepatitis A", "A3")."""
    word = found[at]
    named = at > 0 or (len(found) > 1 and found[1].number)
    return word.key in _ARTICLES and not (word.key == "a" and word.capital and named)


def _span(match: re.Match[str]) -> str:
    """Two years in a row, or a longer span, as one token: ``2001_2002`` for "2001-02"."""
    start, end = match[1] + match[2], (match[3] or match[1]) + match[4]
    return f" {start}_{end} " if start < end else match[0]


def _word(match: re.Match[str]) -> Word:
    text = match[0]
    if match["years"]:
        return Word(text)
    if number := match["number"]:
        return Word(digits(number) + ("s" if match["suffix"] in ("s", "'s") else ""))
    if match["initials"]:
        return Word("".join(c for c in text if c.isalpha()).lower(), capital=True, initials=True)
    if numeral := roman(text):
        return Word(numeral, capital=True)
    key = text.lower().removesuffix("'s").replace("'", "")
    return Word(key, capital=text[0].isupper(), initials=len(key) <= 4 and text.isupper())


def _merge_initials(found: Sequence[Word]) -> list[Word]:
    """Single capital letters in a row as one word."""
    merged: list[Word] = []
    for word in found:
        if word.initials and len(word.key) == 1 and merged and merged[-1].initials:
            merged[-1] = Word(merged[-1].key + word.key, capital=True, initials=True)
        else:
            merged.append(word)
    return merged
