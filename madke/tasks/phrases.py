"""Parse a short answer into the things it names, with dates and names of people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from madke.tasks.words import (
    NO_NAMES,
    SMALL_WORDS,
    Quantities,
    Word,
    fold,
    join_digits,
    quantities,
    spell_units,
    spelling,
    stems,
    vocabulary,
    words,
)

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?"
)
_ALSO_WORDS = vocabulary("may march mar august jan sep dec")  # Months only beside a number, or after "in".
_WHEN = re.compile(r"\b(?:in|since|until|till|during|before|after|early|late|mid|every|each)[ -]\Z", re.IGNORECASE)
_SPAN = re.compile(r"(?<![\d-])(1\d|20)(\d\d) ?[-/] ?((?:1\d|20)?)(\d\d)(?![\d/-])")
_ISO = re.compile(r"(?<![\d-])([12]\d{3})-(0[1-9]|1[0-2])-(\d\d)(?![\d-])")
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
# The first day of a range: 14 to 25 May, May 14-25.
_DAYS = re.compile(
    rf"\b(?P<first>{_DAY}) ?(?:-|to|until|through) ?(?={_DAY} (?:of )?(?P<month>{_MONTH})\b)"
    rf"|\b(?P<named>{_MONTH})\b\.? (?P<start>{_DAY}) ?(?:-|to|until|through) ?(?={_DAY}\b(?!,\d))",
    re.IGNORECASE,
)
_DATE = re.compile(
    rf"(?:\b(?P<before>{_DAY})(?: of|,)? )?"
    rf"\b(?P<month>{_MONTH})\b\.?(?:,? (?:the )?(?P<after>{_DAY})\b(?!,\d))?"
    r"(?:,? (?:of )?(?P<year>1\d{3}|2[01]\d\d)(?!\w|[.,]\d))?"
    # A year alone; other numbers are rarely years.
    r"|(?<![\w.,:-])(?P<alone>1,?\d{3}|2,?[01]\d\d)(?!\w|[.,:]\d)",
    re.IGNORECASE,
)


class Date(NamedTuple):
    """A date or a part of one."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def agrees(self, other: Date) -> bool:
        """Whether both share a year, month or day, and all shared parts are equal."""
        pairs = [(self.year, other.year), (self.month, other.month), (self.day, other.day)]
        shared = [one == two for one, two in pairs if one is not None and two is not None]
        return bool(shared) and all(shared)


def split_dates(text: str) -> tuple[tuple[Date, ...], str]:
    """The dates in a text, in order, and the text without them. A season such as 2001-02 is its first year."""
    dates: list[Date] = []

    def take(match: re.Match[str]) -> str:
        month = (match["month"] or "").lower()
        day = re.sub(r"\D", "", match["before"] or match["after"] or "")
        year = match["year"] or match["alone"]
        if month and not day and not year:
            is_word = month in _ALSO_WORDS or match["month"].islower()
            if is_word and not _WHEN.search(match.string, max(match.start() - 7, 0), match.start()):
                return match[0]
        month_number = _month(month) if month else None
        dates.append(Date(int(year.replace(",", "")) if year else None, month_number, int(day) if day else None))
        return " "

    text = _ISO.sub(lambda match: f"{match[3]} {_MONTHS[int(match[2]) - 1]} {match[1]}", text)
    rest = _DATE.sub(take, _SPAN.sub(_years, _DAYS.sub(_first_day, text)))
    return tuple(dates), rest


def _month(name: str) -> int:
    return _MONTHS.index(name[:3]) + 1


def _first_day(match: re.Match[str]) -> str:
    month = match["month"] or match["named"]
    return f"{match['first'] or match['start']} {month}; " + ("" if match["month"] else f"{month} ")


def _years(match: re.Match[str]) -> str:
    start, end = int(match[1] + match[2]), int((match[3] or match[1]) + match[4])
    return match[0] if start >= end else f"{start} " if end == start + 1 else f"{start} {end} "


_TITLES = vocabulary(
    "sir dame dr mr mrs ms miss prof professor president king queen prince princess pope st general gen captain capt "
    "colonel col major admiral lord lady emperor empress senator sen governor gov rev reverend"
)
_AFTER = vocabulary("jr sr esq phd md")
_PARTICLES = vocabulary("van von der den de del della da di du la le al bin ibn ben ter dos")
_SHORT = """
abe abraham, al albert, andy andrew, bert albert, bert herbert, beth elizabeth, betty elizabeth, bill william,
bob robert, bobby robert, charlie charles, chuck charles, dave david, dick richard, gene eugene, harry henry, jack john,
jerry gerald, jim james, jimmy james, joe joseph, johnny john, kate catherine, kate katherine, larry lawrence,
liz elizabeth, mike michael, peggy margaret, steve stephen, ted edward, ted theodore, tony anthony
"""
_NICKNAMES = frozenset(frozenset(map(spelling, pair.split())) for pair in _SHORT.split(","))


def _untitled(name: tuple[Word, ...]) -> tuple[Word, ...]:
    while len(name) > 1 and name[0].key in _TITLES and name[1].key != "of":
        name = name[1:]
    return name[:-1] if len(name) > 1 and name[-1].key in _AFTER else name


def is_full_name(words: Sequence[Word]) -> bool:
    """Whether the words look like a full name: two to five capitalised words or particles such as "van"."""
    return 2 <= len(words) <= 5 and words[-1].capital and all(map(may_be_in_name, words))


def may_be_in_name(word: Word) -> bool:
    """Whether the word may be part of a name: a capitalised word that is not a function word, or a particle."""
    return (word.capital and not word.number and word.key not in NO_NAMES) or word.key in _PARTICLES


def same_name(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether two full names may belong to one person: "John F. Kennedy" and "John Kennedy", not two George Bushes."""
    ones, others = _given(left), _given(right)
    return left[-1].key == right[-1].key and (_continues(ones, others) or _continues(others, ones))


def _given(name: Sequence[Word]) -> list[str]:
    return [part for word in name[:-1] for part in (word.key if word.initials else [word.key])]


def _continues(some: Sequence[str], every: Sequence[str]) -> bool:
    return any(all(map(_agree, some, every[start:])) for start in range(len(every)))


def _agree(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) != 2 and long.startswith(short)) or {one, other} in _NICKNAMES


READ = 10_000  # Characters of an answer that are read.
_POLAR = re.compile(
    r"(yes|yeah|yep|true|no|nope|false)\b(?=\W*\Z|\.(?! ?\d)| ?[,;:!-]| (?:it|they|he|she|we|i|this|that|there|not)\b)"
)
_SEPARATOR = re.compile(
    r" ?(?:;|, ?(?:and|or|&) |,(?! ?(?:[12]\d{3}\b|(?:Jr|Sr|Jnr)\b|\d{3}\b))| (?:and|or|&) | / "
    r"|(?<=[a-z] \d{4})/(?=\d)) ?",
    re.IGNORECASE,
)
_EITHER = re.compile(r" or |[a-z] \d{4}/\d")
_PLACED = re.compile(
    r"(?P<name>[A-Z][^,;/&\d]*), (?:in )?(?!(?:Jr|Sr|Jnr)\b)(?P<after>[A-Z][^,;/&\d]*)"
    r"(?P<country>, (?:U\.?S\.?A?\.?|United States|U\.?K\.?|United Kingdom|England|Canada|Australia|India))?\W*"
)
SUBJECT = re.compile(r"\A.*\b(?:is|was|are|were) (?:in |at |on |called |named )?(?=\S)")
PARENTHESIS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_OR_ASIDE = re.compile(r"\(or ([^()]*)\)")
_MAX_ITEMS, _MAX_ITEM_WORDS = 40, 6


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """One thing that an answer names."""

    order: tuple[Word, ...]
    """Its words in order, without titles and dates."""
    dates: tuple[Date, ...]
    counted: Quantities
    """What its numbers count: 310 feet."""
    head: frozenset[str] = frozenset()
    """The words before the comma in "Albany, New York" or "Clinton, Bill". ``order`` is "New York Albany"."""

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The words without function words; all words if there are no others."""
        kept = tuple(word for word in self.order if word.key not in SMALL_WORDS)
        return kept or (() if self.dates else self.order)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the content words."""
        return frozenset(word.key for word in self.content)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of all words."""
        return frozenset[str]().union(*(stems(word.key) for word in self.order))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in order: a score of 3-2 is not 2-3."""
        return tuple(word.key for word in self.content if word.number)

    def next_to(self, other: Phrase) -> Phrase:
        """The phrase as it is meant next to another: "May" alone is a month next to a date."""
        month = next(iter(self.keys)) if len(self.keys) == 1 else ""
        if month not in _ALSO_WORDS or self.dates or not other.dates:
            return self
        return replace(self, order=(), dates=(Date(month=_month(month)),))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A parsed answer."""

    folded: str
    """The text in lower case, without accents, single-spaced."""
    polarity: str
    """``yes`` (also for "true"), ``no`` (also for "false"), or empty."""
    items: tuple[Phrase, ...]
    """The things it names; more than one for a list."""
    either: bool
    """Whether the items are alternatives: "cat or dog"."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of all items."""
        return frozenset[str]().union(*(item.keys for item in self.items))


def plain(text: str) -> str:
    """The first :data:`READ` characters without accents, with units in full and ``1642`` for ``1 642``."""
    return spell_units(join_digits(fold(text[:READ])))


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    """Parse an answer from the first :data:`READ` characters of any text."""
    folded = " ".join(fold(text[:READ]).split()).casefold()
    polar = _POLAR.match(folded)
    text = _OR_ASIDE.sub(r"or \1", " ".join(plain(text).split()))
    outside = " ".join(PARENTHESIS.sub(" ", text).split())
    shown = outside if any(map(str.isalnum, outside)) else text
    items = _split_items(shown)
    if len(items) == 1:
        items = (SUBJECT.sub("", shown),)
    return Reading(
        folded=folded,
        polarity="" if polar is None else "yes" if polar[1].startswith(("y", "t")) else "no",
        items=tuple(map(_phrase, items)),
        either=len(items) > 1 and bool(_EITHER.search(text.casefold())),
    )


def _split_items(text: str) -> tuple[str, ...]:
    """The items of a list; the whole text if it is a sentence (a part has many words) or one thing."""
    items = tuple(part for part in _SEPARATOR.split(text) if part.strip())
    if not 2 <= len(items) <= _MAX_ITEMS or any(len(item.split()) > _MAX_ITEM_WORDS for item in items):
        return (text,)
    dates, rest = split_dates(text)
    return (text,) if _inverted(text) or (len(dates) == 1 and not words(rest)) else items


def _inverted(text: str) -> str:
    """Turn "Albany, New York" into "New York Albany"; empty for other text and for two full names, which are a list."""
    placed = _PLACED.fullmatch(text)
    if placed is None or re.search(r" (?:and|or) ", text):
        return ""
    is_place = placed["country"] or placed["after"].startswith(("New ", "North ", "South ", "West ", "United "))
    names = " " in placed["name"] and " " in placed["after"] and not is_place
    return "" if names else f"{placed['after'].rstrip(' .')} {placed['name']}"


def _phrase(text: str) -> Phrase:
    inverted = _inverted(text)
    head = frozenset(word.key for word in words(text.partition(",")[0])) if inverted else frozenset[str]()
    found = phrase_of(inverted or text)
    return replace(found, order=_untitled(found.order), head=head)


def phrase_of(text: str) -> Phrase:
    """A whole text as one phrase, with its titles."""
    dates, rest = split_dates(text)
    order = words(rest)
    # 1500 in "1500 feet" may be read as a year, so the whole text tells what it counts.
    every = words(text) if dates else order
    return Phrase(order=order, dates=dates, counted=quantities([word.key for word in every]))
