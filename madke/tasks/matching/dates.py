"""Dates: a year, a month, a day, or several of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from madke.tasks.matching.words import vocabulary

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?"
)
_ALSO_WORDS = vocabulary("may march mar august jan sep dec")  # Months only next to a number.
_SPAN = re.compile(r"(?<![\d-])(1\d|20)(\d\d) ?[-/] ?((?:1\d|20)?)(\d\d)(?![\d/-])")
_ISO = re.compile(r"(?<![\d-])([12]\d{3})-(0[1-9]|1[0-2])-(\d\d)(?![\d-])")
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"(?:\b(?P<before>{_DAY})(?: of|,)? )?"
    rf"\b(?P<month>{_MONTH})\b\.?(?:,? (?:the )?(?P<after>{_DAY})\b(?!,\d))?"
    r"(?:,? (?:of )?(?P<year>1\d{3}|2[01]\d\d)(?!\w|[.,]\d))?"
    # A year alone; other numbers are hardly ever years.
    r"|(?<![\w.,:-])(?P<alone>1,?\d{3}|2,?[01]\d\d)(?!\w|[.,:]\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Date:
    """What is given of a date."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def agrees(self, other: Date) -> bool:
        """Whether both give a year, month or day, and what both give is equal."""
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
        if month and not day and not year and (month in _ALSO_WORDS or match["month"].islower()):
            return match[0]
        number = _MONTHS.index(month[:3]) + 1 if month else None
        dates.append(Date(int(year.replace(",", "")) if year else None, number, int(day) if day else None))
        return " "

    text = _ISO.sub(lambda match: f"{match[3]} {_MONTHS[int(match[2]) - 1]} {match[1]}", text)
    rest = _DATE.sub(take, _SPAN.sub(_years, text))
    return tuple(dates), rest


def _years(match: re.Match[str]) -> str:
    start, end = int(match[1] + match[2]), int((match[3] or match[1]) + match[4])
    if start >= end:
        return match[0]
    return f"{start} " if end == start + 1 else f"{start} {end} "
