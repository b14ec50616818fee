"""When two short answers are the same.

``same`` is symmetric and reflexive, but not quite transitive: "1969" is the same as "20 July 1969" and as "21 July
1969", "Lincoln" the same as "Abraham Lincoln" and as "Mary Lincoln". ``eval/matcher.md`` counts how often this happens.
"""

from __future__ import annotations

from madke.tasks.matching.dates import Date
from madke.tasks.matching.names import is_name, same_name
from madke.tasks.matching.phrases import Phrase, read
from madke.tasks.matching.words import CONTRASTS, vocabulary

_KINDS = vocabulary("republic kingdom state city isle island university college duke earl county province")
"""What may be left out before "of": the Republic of Ireland is Ireland."""


def same(left: str, right: str) -> bool:
    """Whether two short answers to one question name the same thing."""
    one, other = read(left), read(right)
    if one.folded == other.folded:
        return True
    if one.polarity or other.polarity:
        return one.polarity == other.polarity
    if one.either != other.either:
        return False
    if len(one.items) != len(other.items):
        # Punctuation may make a list of one thing: "Smith, John".
        return bool(one.keys) and one.keys == other.keys
    return _paired(one.items, other.items) and _paired(other.items, one.items)


def _paired(ones: tuple[Phrase, ...], others: tuple[Phrase, ...]) -> bool:
    return all(any(_alike(one, other) for other in others) for one in ones)


def _alike(one: Phrase, other: Phrase) -> bool:
    """Whether two phrases name the same thing."""
    if len(one.dates) != len(other.dates) or not all(map(Date.agrees, one.dates, other.dates)):
        return False
    if one.keys == other.keys:
        return bool(one.keys or one.dates) and one.numbers == other.numbers
    if set(one.numbers) != set(other.numbers):
        return False
    if is_name(one.order) and is_name(other.order) and same_name(one.order, other.order):
        return True
    return _says_more(one, other) or _says_more(other, one) or _is_acronym(one, other) or _is_acronym(other, one)


def _says_more(long: Phrase, short: Phrase) -> bool:
    """Whether the first is the second with further words: few, and none that makes another thing of it."""
    if not short.keys < long.keys:
        return False
    if long.head:
        return short.keys == long.head
    more = long.keys - short.keys
    if more & CONTRASTS or _is_only_the_epithet(short, long):
        return False
    if is_name(long.order) and short.keys == {long.order[-1].key}:
        return True
    # A single capital letter names another thing: plan B, B3.
    if any(word.initials and len(word.key) == 1 and word.key in more for word in long.order):
        return False
    return set(short.numbers) == short.keys != set() or len(more) <= len(short.keys) + len(short.dates)


def _is_only_the_epithet(short: Phrase, long: Phrase) -> bool:
    """Whether the first is just what stands behind "of" in the second: England, "Henry of England"."""
    keys = [word.key for word in long.order]
    of = keys.index("of") if "of" in keys else 0
    head = long.order[of - 1]
    return of > 0 and head.capital and head.key not in _KINDS and short.keys.isdisjoint(keys[:of])


def _is_acronym(short: Phrase, long: Phrase) -> bool:
    """Whether the first is one word of capitals, made of the first letters of the second's words."""
    initials = "".join(word.key[0] for word in long.content)
    return len(initials) > 1 and [(word.key, word.initials) for word in short.content] == [(initials, True)]
