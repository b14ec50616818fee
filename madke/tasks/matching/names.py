"""People's names: titles, initials, nicknames."""

from __future__ import annotations

from collections.abc import Sequence

from madke.tasks.matching.words import Word, spelling, vocabulary

_TITLES = vocabulary(
    "sir dame dr mr mrs ms miss prof professor president king queen prince princess pope st general gen captain capt "
    "colonel col lieutenant lt major sergeant sgt admiral lord lady baron duke duchess emperor empress senator sen "
    "governor gov rev reverend maestro"
)
_AFTER = frozenset({"jr", "sr", "esq", "phd", "md"})
_SHORT = """
abe abraham, al albert, al alan, andy andrew, art arthur, bert albert, bert herbert, beth elizabeth, betty elizabeth,
bill william, billy william, bob robert, bobby robert, cathy catherine, charlie charles, chuck charles, dave david,
dick richard, eddie edward, frank franklin, gene eugene, hank henry, harry harold, harry henry, jack john, jerry gerald,
jerry jerome, jim james, jimmy james, joe joseph, joey joseph, johnny john, kate catherine, kate katherine,
katie katherine, larry lawrence, liz elizabeth, maggie margaret, meg margaret, mickey michael, mike michael,
peggy margaret, steve stephen, ted edward, ted theodore, teddy edward, teddy theodore, tommy thomas, tony anthony,
vince vincent, walt walter
"""
_NICKNAMES = frozenset(tuple(map(spelling, pair.split())) for pair in _SHORT.split(","))


def untitled(name: Sequence[Word]) -> tuple[Word, ...]:
    """The words without titles before and "Jr." after them, as long as something is left."""
    start, end = 0, len(name)
    while start < end - 1 and name[start].key in _TITLES:
        start += 1
    while end > start + 1 and name[end - 1].key in _AFTER:
        end -= 1
    return tuple(name[start:end])


def is_name(name: Sequence[Word]) -> bool:
    """Whether the words look like a full name: two to five, all with capitals, no number."""
    return 2 <= len(name) <= 5 and all(word.capital and not word.number for word in name)


def same_name(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Whether two full names may be one person's.

    The family name is equal; the given names agree from the first on, as far as both go, by equality, initial or
    nickname. So "John F. Kennedy" is "John Kennedy", but "George W. Bush" is not "George H. W. Bush".
    """
    if left[-1].key != right[-1].key:
        return False
    pairs = zip(_given(left), _given(right), strict=False)
    return all(one == other or _short_for(one, other) or _short_for(other, one) for one, other in pairs)


def _given(name: Sequence[Word]) -> list[str]:
    """The given names, initials one by one."""
    return [part for word in name[:-1] for part in (word.key if word.initials else [word.key])]


def _short_for(short: str, long: str) -> bool:
    """Whether the first is an initial, the beginning (Tim, Alex) or a nickname of the second."""
    return (len(short) != 2 and long.startswith(short)) or (short, long) in _NICKNAMES


def agrees_with_given(word: Word, name: Sequence[Word]) -> bool:
    """Whether a word may be one of the given names of a full name."""
    return any(
        word.key == given or _short_for(word.key, given) or _short_for(given, word.key) for given in _given(name)
    )
