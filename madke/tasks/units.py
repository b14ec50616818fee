"""Units of measure, currencies, times of day and eras: one spelling for each, and what the numbers of a text count.

The table is closed, and nothing is converted: 1 km and 1000 m have different numbers.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

_TABLE = """
millimeter millimetre mm, centimeter centimetre cm, meter metre m, kilometer kilometre km, inch inches in,
foot feet ft, yard yd, mile mi;
milligram mg, gram gramme g, kilogram kilogramme kg, ton tonne t, pound lb, ounce oz;
milliliter millilitre ml, liter litre l, gallon gal;
millisecond ms, second sec s, minute min, hour hr h, day, week wk, month, year yr, decade, century;
knot; degree deg, celsius c, fahrenheit f, kelvin; acre, hectare ha;
kilobyte kb, megabyte mb, gigabyte gb, terabyte tb; volt; watt w, kilowatt kw, megawatt mw, gigawatt gw;
hertz hz, kilohertz khz, megahertz mhz, gigahertz ghz; calorie, kilocalorie kcal; percent pct percentage %; dollar usd
"""
_DIMENSIONS = [[names.split() for names in units.split(",")] for units in _TABLE.split(";")]
UNITS = {name: names[0] for units in _DIMENSIONS for names in units for name in names}
"""Each name of a unit in the singular -> its full name in American spelling."""

SPELLINGS = {
    name: full
    for name, full in UNITS.items()
    if name.isalpha() and (len(name) > 3 or name in ("m", "mm", "cm", "km", "kg", "ft", "mi", "lb", "hr", "pct"))
}
"""The names that mean a unit in every text. The others mean one only after a number."""

SIGNS = {"$": "dollar", "\u00a3": "pound", "\u20ac": "euro", "\u00a5": "yen", "\u20b9": "rupee", "\u20bd": "ruble"}
_COUNTRIES = {
    "US": "US", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "HK": "Hong Kong",
    "NZ": "New Zealand", "S": "Singapore",
}  # fmt: skip
_CODES = {
    "USD": "US dollar", "AUD": "Australian dollar", "CAD": "Canadian dollar", "HKD": "Hong Kong dollar",
    "NZD": "New Zealand dollar", "SGD": "Singapore dollar", "EUR": "euro", "GBP": "pound", "JPY": "yen", "CNY": "yuan",
    "INR": "rupee", "CHF": "franc", "RUB": "ruble",
}  # fmt: skip
_CURRENCIES = frozenset({*SIGNS.values(), "yuan", "franc", "krone", "krona", "won", "peso", "cent"})
_COUNTRY_WORDS = frozenset(word.lower() for name in _COUNTRIES.values() for word in name.split())
_MAGNITUDES = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}
_POWERS = {"2": "square", "3": "cubic", "sq": "square", "cu": "cubic"}
RATES = {"mph": "mile per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour"}
_NAMES = UNITS | RATES
_MEASURED = frozenset({*UNITS.values(), *_CURRENCIES, "am", "pm", "bc", "ad"})


def _any(names: Sequence[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


# Short names with other meanings are units in lower case only: 5 mi, but "Detroit 5 MI"; "in" only at an end.
_ANY_CASE = [name for name in _NAMES if len(name) > 1 and name not in ("in", "mi", "ms", "ha", "usd")]
_LONE = [name for name in UNITS if name not in _ANY_CASE and name not in ("in", "c", "f", "s", "w", "usd", "%")]
_UNIT = rf"(?:(?i:{_any(_ANY_CASE)})s?|{_any(_LONE)}|L|in(?=[\"']?\W*\Z|[,;)/]| (?:tall|wide|long|high|deep|thick)\b))"
_CODE = _any(tuple(_CODES))
# After a digit, "million" or "thousand".
_NUMBERED = r"(?:(?<=\d)|(?<=llion)|(?<=usand))"
_PRICE = re.compile(
    rf"(?:(?:(?<!\w)(?P<country>{_any(tuple(_COUNTRIES))}))?(?P<sign>[{re.escape(''.join(SIGNS))}])"
    rf"|\b(?P<code>{_CODE})|\bRs\b\.?) ?"
    r"(?P<number>\d[\d,]*(?:\.\d+)?)(?:[ -]?(?P<scale>(?i:thousand|million|billion|trillion|mn|bn|tn|[kmb]))\b)?"
)
_MEASURE = re.compile(
    rf"{_NUMBERED}(?:[ -]?(?:(?P<power>(?i:sq|cu|square|cubic))\b\.? ?)?(?P<unit>{_UNIT})(?:\^?(?P<raised>[23]))?"
    rf"(?: ?/ ?(?P<per>{_UNIT}|s))?| (?P<second>s)| ?(?P<code>{_CODE}))(?!\w)"
)
_TIME = re.compile(r"(?<=\d)(?::00)? ?([ap])\.? ?m\b\.?", re.IGNORECASE)
_DEGREES = re.compile("(?i:\u00b0|\\bdeg(?:ree)?s?\\.?) ?([CFcf])\\b")
_PER_CENT = re.compile(r"\bper cents?\b", re.IGNORECASE)


def spell_units(text: str) -> str:
    """The text with units after numbers in full, and with currencies after their amounts: ``5 km/h``, ``$5m``."""
    text = _PER_CENT.sub("percent", _TIME.sub(lambda match: f" {match[1].lower()}m", text))
    text = _DEGREES.sub(lambda match: f" degree {UNITS[match[1].lower()]}", text)
    return _MEASURE.sub(_measure, _PRICE.sub(_price, text))


def _price(match: re.Match[str]) -> str:
    currency = _CODES[match["code"]] if match["code"] else SIGNS.get(match["sign"], "rupee")
    country = f"{_COUNTRIES[match['country']]} " if match["country"] else ""
    scale = f" {_MAGNITUDES[match['scale'][0].lower()]}" if match["scale"] else ""
    return f"{match['number']}{scale} {country}{currency}"


def _measure(match: re.Match[str]) -> str:
    if match["second"] or match["code"]:
        return f" {_CODES.get(match['code'], 'second')}"
    power = match["power"] or match["raised"]
    prefix = f"{_POWERS.get(power.lower(), power.lower())} " if power else ""
    per = f" per {_full(match['per'])}" if match["per"] else ""
    return f" {prefix}{_full(match['unit'])}{per}"


def _full(name: str) -> str:
    name = name.lower()
    return _NAMES.get(name) or _NAMES[name.removesuffix("s")]


Quantities = Mapping[str, frozenset[frozenset[str]]]
"""Number -> the units after it, each as a set of words such as ``{"kilometer", "per hour"}``."""


def quantities(keys: Sequence[str]) -> Quantities:
    """What the numbers in a sequence of normalised words count, as far as a known unit follows them."""
    found: dict[str, frozenset[frozenset[str]]] = {}
    for at, key in enumerate(keys):
        if key.lstrip("-")[:1].isdigit() and (unit := _unit_of(keys[at + 1 : at + 7])):
            found[key] = found.get(key, frozenset()) | {unit}
    return found


def _unit_of(keys: Sequence[str]) -> frozenset[str]:
    """The unit at the beginning of some words; empty if there is none."""
    power = keys[0] if keys and keys[0] in _POWERS.values() else ""
    after = list(keys[1:] if power else keys)
    country = list(takewhile(_COUNTRY_WORDS.__contains__, after))
    after = after[len(country) :]
    if not after or after[0] not in _MEASURED:
        return frozenset()
    unit = {f"{power} {after[0]}".strip(), *country}
    if after[0] in ("celsius", "fahrenheit"):
        unit.add("degree")
    if after[1:] and after[1] in ("celsius", "fahrenheit", "bc", "ad"):
        unit.add(after[1])
    if after[2:] and after[1] == "per" and after[2] in _MEASURED:
        unit.add(f"per {after[2]}")
    return frozenset(unit)


_DIMENSION = {names[0]: at for at, units in enumerate(_DIMENSIONS) for names in units}


def one_dimension(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two units measure one kind of thing, such as feet and inches."""
    return any(_DIMENSION[name] in {_DIMENSION.get(each) for each in other} for name in one if name in _DIMENSION)


def conflict(one: Quantities, other: Quantities) -> bool:
    """Whether a number counts different things: 5 kg and 5 g. No unit agrees with any, ``degree`` with ``celsius``."""
    return any(
        not any(mine <= theirs or theirs <= mine for mine in one[number] for theirs in other[number])
        for number in one.keys() & other.keys()
    )
