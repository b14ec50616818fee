"""A short answer taken apart: what it names, one thing or a list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from madke.tasks.matching.dates import Date, split_dates
from madke.tasks.matching.names import untitled
from madke.tasks.matching.words import SMALL_WORDS, Word, fold, stems, words

READ = 10_000
"""Characters of an answer that are read; a longer text is no answer."""

_POLAR = re.compile(
    r"(yes|yeah|yep|no|nope)\b(?=\W*\Z|\.(?! ?\d)| ?[,;:!-]| (?:it|they|he|she|we|i|this|that|there|not)\b)"
)
_SEPARATOR = re.compile(
    r" ?(?:;|, ?(?:and|or|&) |,(?! ?(?:[12]\d{3}\b|(?:Jr|Sr|Jnr)\b|\d{3}\b))| (?:and|or|&) | / ) ?", re.IGNORECASE
)
_PLACED = re.compile(
    r"(?P<name>[A-Z][^,;/&\d]*), (?:in )?(?!(?:Jr|Sr|Jnr)\b)(?P<after>[A-Z][^,;/&\d]*)"
    r"(?P<country>, (?:U\.?S\.?A?\.?|United States|U\.?K\.?|United Kingdom|England|Canada|Australia|India))?\W*"
)
_SUBJECT = re.compile(r"\A.*\b(?:is|was|are|were) (?:in |at |on |called |named )?(?=\S)")
_PARENTHESIS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_MAX_ITEMS, _MAX_ITEM_WORDS = 40, 6


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """One thing that an answer names."""

    order: tuple[Word, ...]
    """Its words in order, without titles and dates."""
    dates: tuple[Date, ...]
    head: frozenset[str] = frozenset()
    """What stands before the comma in "Albany, New York" or "Clinton, Bill". The order is "New York Albany"."""

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The words that carry the answer; all of them where there are no others."""
        kept = tuple(word for word in self.order if word.key not in SMALL_WORDS)
        return kept or (() if self.dates else self.order)

    @cached_property
    def keys(self) -> frozenset[str]:
        """The content words, in no order."""
        return frozenset(word.key for word in self.content)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all words."""
        return frozenset[str]().union(*(stems(word.key) for word in self.order))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in order: a score of 3-2 is not 2-3."""
        return tuple(word.key for word in self.content if word.number)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An answer taken apart."""

    folded: str
    """The text in lower case, without accents, single-spaced."""
    polarity: str
    """``yes``, ``no``, or empty."""
    items: tuple[Phrase, ...]
    """What it names; more than one for a list."""
    either: bool
    """Whether it offers a choice: "cat or dog"."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The words of all items."""
        return frozenset[str]().union(*(item.keys for item in self.items))


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Take an answer apart. Any text has a reading; only its first :data:`READ` characters count."""
    text = " ".join(fold(text[:READ]).split())
    folded = text.casefold()
    polar = _POLAR.match(folded)
    outside = " ".join(_PARENTHESIS.sub(" ", text).split())
    shown = outside if any(map(str.isalnum, outside)) else text
    items = _split_items(shown)
    if len(items) == 1:
        items = (_SUBJECT.sub("", shown),)
    return Reading(
        folded=folded,
        polarity="" if polar is None else "yes" if polar[1].startswith("y") else "no",
        items=tuple(map(_phrase, items)),
        either=len(items) > 1 and " or " in folded,
    )


def _split_items(text: str) -> tuple[str, ...]:
    """The things that a text with single spaces lists, or the text alone; a part with many words makes a sentence."""
    items = tuple(part for part in _SEPARATOR.split(text) if part.strip())
    if not 2 <= len(items) <= _MAX_ITEMS or any(len(item.split()) > _MAX_ITEM_WORDS for item in items):
        return (text,)
    dates, rest = split_dates(text)
    return (text,) if _inverted(text) or (len(dates) == 1 and not words(rest)) else items


def _inverted(text: str) -> str:
    """The words of "Albany, New York" as "New York Albany"; empty for other text, and for two full names, a list."""
    placed = _PLACED.fullmatch(text)
    if placed is None or re.search(r" (?:and|or) ", text):
        return ""
    is_place = placed["country"] or placed["after"].startswith(("New ", "North ", "South ", "West ", "United "))
    names = " " in placed["name"] and " " in placed["after"] and not is_place
    return "" if names else f"{placed['after'].rstrip(' .')} {placed['name']}"


def _phrase(text: str) -> Phrase:
    inverted = _inverted(text)
    dates, rest = split_dates(inverted or text)
    head = frozenset(word.key for word in words(text.partition(",")[0])) if inverted else frozenset[str]()
    return Phrase(order=untitled(words(rest)), dates=dates, head=head)
