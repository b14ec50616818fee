"""Dates in any usual form, as far as they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from madke.tasks.matching.words import Word, vocabulary

_NAMES = (
    "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep/sept october/oct "
    "november/nov december/dec"
)
_MONTHS = {name: number for number, names in enumerate(_NAMES.split(), start=1) for name in names.split("/")}
_MONTH_NAMES = {number: name for name, number in reversed(_MONTHS.items())}
_ALSO_WORDS = frozenset({"may", "march", "mar", "august", "jan", "sep", "dec"})
"""Months only beside a number."""
_WEEKDAYS = vocabulary("monday tuesday wednesday thursday friday saturday sunday")
_ISO = re.compile(r"(?<![\d-])([12]\d{3})-(\d\d)-(\d\d)(?![\d-])")
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/([12]\d{3})(?![\d/])")


@dataclass(frozen=True, slots=True)
class Date:
    """A year, a month, a day, or several of them."""

    year: int | None = None
    """1000 to 2199; other numbers are hardly ever meant as years without a month."""
    month: int | None = None
    day: int | None = None
    until: int | None = None
    """The last year, where a span or a season is named."""

    @property
    def precision(self) -> int:
        """How many of year, month and day are given."""
        return sum(part is not None for part in (self.year, self.month, self.day))

    def agrees(self, other: Date) -> bool:
        """Whether what both give is equal, and there is something that both give."""
        pairs = [(self.year, other.year), (self.month, other.month), (self.day, other.day)]
        shared = [one == two for one, two in pairs if one is not None and two is not None]
        return bool(shared) and all(shared) and self.until == other.until


def spell_months(text: str) -> str:
    """``2010-09-08`` and ``9/8/2010`` with the month's name. Slashes are read month first, unless that is no month."""

    def iso(match: re.Match[str]) -> str:
        return f"{int(match[3])} {_MONTH_NAMES.get(int(match[2]), match[2])} {match[1]}"

    def slashed(match: re.Match[str]) -> str:
        first, second = int(match[1]), int(match[2])
        at, day = (first, second) if first <= 12 else (second, first)
        return f"{day} {_MONTH_NAMES[at]} {match[3]}" if 1 <= at <= 12 else match[0]

    return _SLASHED.sub(slashed, _ISO.sub(iso, text))


def split_dates(found: Sequence[Word]) -> tuple[tuple[Date, ...], tuple[Word, ...]]:
    """The dates among the words, and the other words, both in order."""
    dates: list[Date] = []
    rest: list[Word] = []
    at = 0
    while at < len(found):
        date, start, end = _month_at(found, at) or _year_at(found, at) or (None, at, at + 1)
        if date is None:
            rest.append(found[at])
        else:
            del rest[len(rest) - (at - start) :]
            dates.append(date)
        at = end
    if any(date.month for date in dates):
        rest = [word for word in rest if word.key not in _WEEKDAYS]
    return tuple(dates), tuple(rest)


def _month_at(found: Sequence[Word], at: int) -> tuple[Date, int, int] | None:
    """A date around the month at a place, with where it starts and ends."""
    key = found[at].key
    month = _MONTHS.get(key)
    if month is None:
        return None
    start, end = at, at + 1
    before = at - 2 if at > 1 and found[at - 1].key == "of" else at - 1
    day = _day(found, before)
    if day is not None:
        start = before
    elif (day := _day(found, end)) is not None:
        end += 1
    of = end < len(found) and found[end].key == "of"
    year = _year(found, end + of)
    if year is not None:
        end += of + 1
    if day is None and year is None and (key in _ALSO_WORDS or not found[at].capital):
        return None
    return Date(year, month, day), start, end


def _year_at(found: Sequence[Word], at: int) -> tuple[Date, int, int] | None:
    if span := re.fullmatch(r"(\d{4})_(\d{4})", found[at].key):
        return Date(int(span[1]), until=int(span[2])), at, at + 1
    year = _year(found, at)
    return None if year is None else (Date(year), at, at + 1)


def _day(found: Sequence[Word], at: int) -> int | None:
    key = found[at].key if 0 <= at < len(found) else ""
    return int(key) if re.fullmatch(r"[12]?\d|3[01]", key) and key != "0" else None


def _year(found: Sequence[Word], at: int) -> int | None:
    key = found[at].key if at < len(found) else ""
    return int(key) if re.fullmatch(r"1\d{3}|2[01]\d\d", key) else None
