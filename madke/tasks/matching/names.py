"""Names of people: titles, initials, nicknames, middle names."""

from __future__ import annotations

from collections.abc import Sequence

from madke.tasks.matching.words import NO_NAMES, Word, spelling, vocabulary

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


def untitled(name: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words without titles before and "Jr." after them. The Prince of Wales keeps his title."""
    while len(name) > 1 and name[0].key in _TITLES and name[1].key != "of":
        name = name[1:]
    return name[:-1] if len(name) > 1 and name[-1].key in _AFTER else name


def is_name(words: Sequence[Word]) -> bool:
    """Whether the words look like a full name: two to five with capitals, but for particles such as "van"."""
    return 2 <= len(words) <= 5 and words[-1].capital and all(map(may_be_in_name, words))


def may_be_in_name(word: Word) -> bool:
    """Whether the word may be part of a name: with a capital and no function word, or a particle."""
    return (word.capital and not word.number and word.key not in NO_NAMES) or word.key in _PARTICLES


def same_name(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether two full names may be one person's.

    The family name is equal, and the given names agree from the first on, or from a later one of the longer name. So
    "John F. Kennedy" is "John Kennedy", but "George W. Bush" is not "George H. W. Bush".
    """
    ones, others = _given(left), _given(right)
    return left[-1].key == right[-1].key and (_continues(ones, others) or _continues(others, ones))


def _given(name: Sequence[Word]) -> list[str]:
    """The given names, initials one by one."""
    return [part for word in name[:-1] for part in (word.key if word.initials else [word.key])]


def _continues(some: Sequence[str], every: Sequence[str]) -> bool:
    return any(all(map(_agree, some, every[start:])) for start in range(len(every)))


def _agree(one: str, other: str) -> bool:
    """Whether two given names are equal, or one is an initial, the beginning (Tim, Alex) or a nickname of the other."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) != 2 and long.startswith(short)) or {one, other} in _NICKNAMES
