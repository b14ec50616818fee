"""Numbers in words: cardinals, ordinals, magnitudes, years read in pairs, Roman numerals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for names in (_CARDINALS, _ORDINALS) for value, word in enumerate(names.split())}
_TENS = {word: 10 * value for value, word in enumerate(_DECADES.split(), start=2)}
_TENS |= {word.removesuffix("y") + "ieth": value for word, value in _TENS.items()}
_SCALES = {
    "dozen": 12, "hundred": 100, "hundredth": 100, "thousand": 1000, "thousandth": 1000, "million": 10**6,
    "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_ROMAN = re.compile(r"(?=[IVX]{2,6}\Z)X{0,3}(?:IX|IV|V?I{0,3})")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10}
_MAX_DIGITS = 30


def digits(text: str) -> str:
    """A number as written, without separators and zeros that mean nothing: ``1500`` for "1,500.00"."""
    text = text.replace(",", "")
    if len(text) > _MAX_DIGITS:
        return text
    return _canonical(Decimal(text))


def roman(text: str) -> str | None:
    """The value of a Roman numeral of two or more capitals, up to 39; a single letter is too often an initial."""
    if not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_DIGITS[letter] for letter in text]
    return str(sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True)))


def merge_numbers(keys: Sequence[str]) -> list[tuple[str, slice]]:
    """Each lower-case word, or run of words that make one number as its digits, with the slice that it stood in."""
    merged = []
    at = 0
    while at < len(keys):
        number = _written(keys, at) or _spelled(keys, at)
        if number is None:
            merged.append((keys[at], slice(at, at + 1)))
            at += 1
        else:
            merged.append((_canonical(number[0]), slice(at, number[1])))
            at = number[1]
    return merged


def _written(keys: Sequence[str], at: int) -> tuple[Decimal, int] | None:
    """A number in digits with magnitudes after it: "1.5 million"."""
    if not re.fullmatch(rf"-?\d[\d.]{{0,{_MAX_DIGITS}}}", keys[at]):
        return None
    value, end = Decimal(keys[at]), at + 1
    while end < len(keys) and keys[end] in _SCALES:
        value *= _SCALES[keys[end]]
        end += 1
    return value, end


def _spelled(keys: Sequence[str], at: int) -> tuple[Decimal, int] | None:
    """A number in words; None where the word is none, or is "second" after a number (the unit)."""
    if keys[at] == "second" and at and keys[at - 1][0].isdigit():
        return None
    total = group = 0
    end = at
    while end < len(keys):
        word = keys[end]
        if word in _SMALL or word in _TENS:
            value = _SMALL.get(word, _TENS.get(word, 0))
            rest = group % 100
            if end > at and rest and not (rest >= 20 and rest % 10 == 0 and 0 < value < 10):
                if total or not 10 <= group <= 20 or value < 10:
                    break
                group *= 100  # A year read in pairs: nineteen eighty-four.
            group += value
        elif word in _SCALES and (group or end == at):
            if word.startswith("hundred") or word == "dozen":
                group = max(group, 1) * _SCALES[word]
            else:
                total += max(group, 1) * _SCALES[word]
                group = 0
        elif not (word == "and" and _continues(keys, end, group or total)):
            break
        end += 1
    return (Decimal(total + group), end) if end > at else None


def _continues(keys: Sequence[str], end: int, value: int) -> bool:
    """Whether "and" stands inside a number: "one hundred and five"."""
    following = keys[end + 1] if end + 1 < len(keys) else ""
    return value >= 100 and value % 100 == 0 and (following in _SMALL or following in _TENS)


def _canonical(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
