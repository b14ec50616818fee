"""Whether an answer, perhaps a whole sentence, states a gold.

People who judge answers forgive much that a gold does not say, and little that contradicts it. So of a gold's words
that the question does not give away, half must be told; but every number, every date as far as it is told, and the
given name that stands before a family name must fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from madke.tasks.matching.dates import Date, spell_months, split_dates
from madke.tasks.matching.names import agrees_with_given, is_name
from madke.tasks.matching.reading import CONTRASTS, READ, SMALL_WORDS, Phrase, Reading, read, same
from madke.tasks.matching.words import Word, vocabulary, words

_SHARE = 0.5
"""How much of what a gold says a sentence must tell."""
_SHARE_OF_PHRASE = 0.51
_PHRASE = 4
"""Up to so many words an answer is no sentence, and what is missing from it is not missing by chance."""
_GIVEN_NAMES = 3
"""How many words before a family name may be given names."""
# What is denied runs to the end of its clause.
_DENIED = re.compile(
    r"(?:(?:^|,|\b(?:and|but|is|was|are|were))\s+not\b(?! only)|\A\W?not\b|\b(?:is|was|are|were)n't\b"
    r"|\b(?:rather than|instead of|unlike|nor|neither)\b)[^,.;:!?\n]*",
    re.IGNORECASE,
)
_ENDINGS = vocabulary(
    "n s an ans ian ians al ial um us a e y ism ist ic ical ion ation ing ed er or ive ous ite ish ese ly ment"
) | {""}
_STEM = 4


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What an answer says, as a bag, and what the question said before."""

    order: tuple[Word, ...]
    dates: tuple[Date, ...]
    asked: frozenset[str]

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(word.key for word in self.order)

    @cached_property
    def _stems(self) -> dict[str, list[str]]:
        stems: dict[str, list[str]] = {}
        for key in self.keys:
            stems.setdefault(key[:_STEM], []).append(key)
        return stems

    def has(self, word: Word) -> bool:
        """Whether the word is told, or another one of its family (Zoroastrian, Zoroastrianism)."""
        if word.key in self.keys:
            return True
        return not word.number and any(_akin(word.key, key) for key in self._stems.get(word.key[:_STEM], ()))


def accepts(answer: str, golds: Sequence[str], question: str) -> bool:
    """Whether the answer is the same as a gold, or states one.

    Args:
        answer: A phrase, a sentence or several.
        golds: What counts as right, any of it.
        question: The text of the question; words that it gives away prove nothing.
    """
    dates, order = split_dates(words(spell_months(_DENIED.sub(" ", answer[:READ]))))
    right = [gold for gold in golds if not _overruled(gold, golds, dates)]
    if any(same(answer, gold) for gold in right):
        return True
    asked = frozenset(word.key for word in words(question))
    told = _Told(order=order, dates=dates, asked=asked)
    reading, readings = read(answer), [read(gold) for gold in right]
    if _lists_names(reading):
        # One right name does not excuse a wrong one beside it.
        each = [_Told(order=item.order, dates=item.dates, asked=asked) for item in reading.items]
        return all(any(_states(one, gold) for gold in readings) for one in each)
    return any(_states(told, gold) or _abridges(reading, gold, asked) for gold in readings)


def _overruled(gold: str, golds: Sequence[str], told: Sequence[Date]) -> bool:
    """Whether the gold is a date less exact than another gold and than the answer, which then must fit the other."""
    mine = _bare_date(gold)
    if mine is None or not any(mine.agrees(date) and date.precision > mine.precision for date in told):
        return False
    others = [date for other in golds if (date := _bare_date(other)) is not None]
    return any(mine.agrees(date) and date.precision > mine.precision for date in others)


def _bare_date(gold: str) -> Date | None:
    items = read(gold).items
    return items[0].dates[0] if len(items) == 1 and items[0].dates and not items[0].keys else None


def _lists_names(answer: Reading) -> bool:
    """Whether the answer is nothing but proper names, two or more, and not a numbered list."""
    names = all(item.order and all(word.capital and not word.number for word in item.order) for item in answer.items)
    return len(answer.items) > 1 and names and not answer.folded[0].isdigit()


def _states(told: _Told, gold: Reading) -> bool:
    if gold.polarity:
        return False
    enough = any if gold.joined == "or" else all
    return enough(_tells(told, phrase) for phrase in gold.items)


def _tells(told: _Told, gold: Phrase) -> bool:
    """Whether one thing that a gold names is told."""
    dated = all(any(_dates_fit(date, other) for other in told.dates) for date in gold.dates)
    needed = [word for word in gold.order if word.key not in told.asked] or list(gold.order)
    if not needed:
        return dated and bool(gold.dates)
    if any(word.number and word.key not in told.keys for word in needed):
        return False
    found = [word for word in needed if told.has(word)]
    if len(found) == len(needed):
        return dated or not told.dates
    if not dated or not found:
        return False
    name = _as_told(told, gold.order)
    if is_name(name):
        return _names(told, name)
    capitals = [word for word in needed if word.capital]
    share = _SHARE_OF_PHRASE if len(told.order) <= _PHRASE else _SHARE
    return len(found) >= share * len(needed) and sum(map(told.has, capitals)) >= _SHARE * len(capitals)


def _as_told(told: _Told, gold: tuple[Word, ...]) -> tuple[Word, ...]:
    """A gold without capitals as a name, if what the answer has of it is written with capitals."""
    if any(word.capital for word in gold):
        return gold
    keys = {word.key for word in gold}
    found = [word for word in told.order if word.key in keys]
    named = found and all(word.capital for word in found)
    return tuple(replace(word, capital=True) for word in gold) if named else gold


def _names(told: _Told, name: Sequence[Word]) -> bool:
    """Whether the family name is told, after one of the given names, or alone where the question does not give it."""
    for at, word in enumerate(told.order):
        if word.key != name[-1].key or not word.capital:
            continue
        before = told.order[max(at - _GIVEN_NAMES, 0) : at]
        if any(other.capital and agrees_with_given(other, name) for other in before):
            return True
        alone = not before or not before[-1].capital or before[-1].key in SMALL_WORDS
        if alone and word.key not in told.asked:
            return True
    return False


def _abridges(answer: Reading, gold: Reading, asked: frozenset[str]) -> bool:
    """Whether all that a short answer says stands in a wordier gold: Belshazzar, "the Babylonian king Belshazzar"."""
    if answer.polarity or answer.negated or answer.dates or (gold.joined and len(answer.items) == 1):
        return False
    if answer.numbers and answer.numbers != gold.numbers:
        return False
    return bool(answer.keys - asked) and answer.keys <= gold.keys and not (gold.keys - answer.keys) & CONTRASTS


def _dates_fit(one: Date, other: Date) -> bool:
    """Whether two dates agree; a year fits a season that begins or ends in it."""
    return one.agrees(other) or _in_season(one, other) or _in_season(other, one)


def _in_season(date: Date, season: Date) -> bool:
    if season.year is None or season.until != season.year + 1:
        return False
    return date.until is None and date.year in (season.year, season.until)


def _akin(one: str, other: str) -> bool:
    """Whether two words have a stem of four letters or more in common and differ in an ending of derivation only."""
    stem = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        stem += 1
    return stem >= _STEM and one[stem:] in _ENDINGS and other[stem:] in _ENDINGS
