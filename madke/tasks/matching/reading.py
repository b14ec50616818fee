"""A short answer taken apart, and when two of them are the same.

``same`` is symmetric, and reflexive for anything that is not blank. It is not quite transitive: "1969" is the same as
"20 July 1969" and as "21 July 1969", "Lincoln" the same as "Abraham Lincoln" and as "Mary Lincoln". Two answers to one
question seldom meet in this way; ``eval/matcher.md`` counts how often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from madke.tasks.matching.dates import Date, spell_months, split_dates
from madke.tasks.matching.lists import split_items
from madke.tasks.matching.names import is_name, same_name, untitled
from madke.tasks.matching.places import Place, surroundings
from madke.tasks.matching.words import Word, fold, vocabulary, words

SMALL_WORDS = vocabulary(
    "of in on at to by for from with as and is are was were be been it its his her their this that these those which "
    "who about around circa approximately roughly some there"
)
"""Words that carry no answer."""

CONTRASTS = vocabulary(
    "new old north south east west northern southern eastern western central upper lower left right inner outer great "
    "greater little lesser vice deputy former ex anti non pre post under over half step last early late before after "
    "minus plus more less than male female"
)
"""Words that make another thing of what they stand with, rather than say more about it."""

READ = 10_000
"""Characters of an answer that are looked at; what is longer is no answer."""

_NOT = vocabulary("not never neither nor none cannot isnt wasnt arent werent dont doesnt didnt without except")
_POLAR = re.compile(
    r"(yes|yeah|yep|no|nope)\b(?=\W*\Z|\.(?! ?\d)| ?[,;:!-]| (?:it|they|he|she|we|i|this|that|there|not)\b)"
)
_CONJUNCTION = re.compile(r" (?:and|or|&|/) |;")
_PARENTHESIS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """One thing that an answer names."""

    order: tuple[Word, ...]
    """Its words without small words, titles and dates."""
    dates: tuple[Date, ...]
    places: tuple[Place, ...] = ()
    """The state and the country that it is said to lie in."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Its words, in no order."""
        return frozenset(word.key for word in self.order)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers among them."""
        return frozenset(self.figures)

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The numbers in order: a score of 3-2 is none of 2-3."""
        return tuple(word.key for word in self.order if word.number)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """An answer taken apart."""

    folded: str
    """The text in lower case, without marks, single-spaced."""
    polarity: str
    """``yes``, ``no``, or empty."""
    negated: bool
    items: tuple[Phrase, ...]
    """What it names; more than one for a list."""
    joined: Literal["", "and", "or"]
    """How a list is joined; empty for one thing, and for two with no more than a comma between ("X, Y")."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """All words of what it names."""
        return frozenset[str]().union(*(item.keys for item in self.items))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All numbers among them."""
        return frozenset[str]().union(*(item.numbers for item in self.items))

    @cached_property
    def dates(self) -> frozenset[Date]:
        """All dates, as they are given."""
        return frozenset[Date]().union(*(item.dates for item in self.items))


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Take an answer apart. Any text has a reading; only its first :data:`READ` characters count."""
    text = text[:READ]
    folded = " ".join(fold(text).casefold().split())
    polar = _POLAR.match(folded)
    outside = _PARENTHESIS.sub(" ", text)
    shown = " ".join((outside if any(character.isalnum() for character in outside) else text).split())
    shown = spell_months(shown)
    found = words(shown)
    items = (shown,) if _undivided(found) else split_items(shown)
    return Reading(
        folded=folded,
        polarity="" if polar is None else "yes" if polar[1].startswith("y") else "no",
        negated=any(word.key in _NOT for word in found),
        items=tuple(_phrase(item) for item in items),
        joined=_joined(items, folded),
    )


def _undivided(found: tuple[Word, ...]) -> bool:
    """Whether the text is one quantity or one date, so that its commas and its "and" part nothing."""
    dates, rest = split_dates(found)
    if dates:
        return len(dates) == 1 and not rest
    return bool(rest) and rest[0].number and sum(word.number for word in rest) == 1


def _joined(items: tuple[str, ...], folded: str) -> Literal["", "and", "or"]:
    if len(items) < 2 or (len(items) == 2 and not _CONJUNCTION.search(folded)):
        return ""
    return "or" if " or " in folded else "and"


def _phrase(text: str) -> Phrase:
    parts = text.split(",")
    places = surroundings(parts)
    dates, rest = split_dates(words(parts[0] if places else text))
    content = tuple(word for word in rest if word.key not in SMALL_WORDS)
    return Phrase(order=untitled(content or (() if dates else rest)), dates=dates, places=places or ())


def same(left: str, right: str) -> bool:
    """Whether two short answers to one question name the same thing."""
    one, other = read(left), read(right)
    if one.folded == other.folded:
        return True
    if one.polarity or other.polarity:
        return one.polarity == other.polarity
    if one.negated != other.negated or (one.joined == "or") != (other.joined == "or"):
        return False
    if len(one.items) != len(other.items):
        # One list may be punctuated as another thing is: "Smith, John".
        return bool(one.keys) and one.keys == other.keys and one.dates == other.dates
    return _paired(one.items, other.items) and _paired(other.items, one.items)


def _paired(ones: tuple[Phrase, ...], others: tuple[Phrase, ...]) -> bool:
    return all(any(alike(one, other) for other in others) for one in ones)


def alike(one: Phrase, other: Phrase) -> bool:
    """Whether two phrases name the same thing."""
    agree = not any(a.level == b.level and a.name != b.name for a in one.places for b in other.places)
    if not agree or not _dates_agree(one.dates, other.dates):
        return False
    if one.keys == other.keys:
        return bool(one.keys or one.dates) and one.figures == other.figures
    if one.numbers != other.numbers:
        return False
    if is_name(one.order) and is_name(other.order) and same_name(one.order, other.order):
        return True
    return _says_more(one, other) or _says_more(other, one) or _acronym(one, other) or _acronym(other, one)


def _says_more(long: Phrase, short: Phrase) -> bool:
    """Whether the first is the second with further words: few, and none that makes another thing of it."""
    more = long.keys - short.keys
    if not short.keys < long.keys or more & CONTRASTS:
        return False
    if is_name(long.order) and short.keys == {long.order[-1].key}:
        return True
    # A single capital letter names another thing: plan B, B3.
    if any(word.initials and len(word.key) == 1 and word.key in more for word in long.order):
        return False
    if short.keys and short.keys == short.numbers:
        return True
    return len(more) <= len(short.keys) + len(short.dates)


def _acronym(short: Phrase, long: Phrase) -> bool:
    """Whether the first is one word of capitals, made of the first letters of the second's words."""
    if len(short.order) != 1 or not short.order[0].initials or len(long.order) < 2:
        return False
    return short.order[0].key == "".join(word.key[0] for word in long.order)


def _dates_agree(ones: tuple[Date, ...], others: tuple[Date, ...]) -> bool:
    return len(ones) == len(others) and all(one.agrees(other) for one, other in zip(ones, others, strict=True))
