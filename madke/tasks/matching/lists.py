"""Answers that name several things."""

from __future__ import annotations

import re

from madke.tasks.matching.places import surroundings

_NUMBERED = re.compile(r"(?:^| )\(?\d{1,2}[.)] (?=\D)")
_SEPARATOR = re.compile(
    r" ?(?:;|, ?(?:and|or|&) |,(?! ?(?:[12]\d{3}\b|(?:Jr|Sr|Jnr)\b|\d{3}\b))| (?:and|or|&) | / ) ?", re.IGNORECASE
)
_MAX_ITEM_WORDS = 6
_MAX_ITEMS = 40


def split_items(text: str) -> tuple[str, ...]:
    """The things that a text with single spaces lists, or the text alone.

    "X, Y" is one thing where Y is known to be the state or country of X; a comma inside a date or before "Jr." does not
    separate either. Text with a part that is no short phrase is a sentence, not a list.
    """
    items = tuple(part for part in _SEPARATOR.split(_NUMBERED.sub(" ; ", text)) if part.strip())
    if not 2 <= len(items) <= _MAX_ITEMS or any(len(item.split()) > _MAX_ITEM_WORDS for item in items):
        return (text,)
    return (text,) if surroundings(text.split(",")) else items
