r"""The unit at the end of a mathematical answer, split off and written in one way.

``12 square inches``, ``12 in^2`` and ``12\text{ sq. in.}`` hold the same unit, and so do ``3 km/h`` and ``3 kilometers
per hour``. Any words after a number are its unit, for instance ``18 dollars per day`` or ``5 red apples``.
"""

from __future__ import annotations

import re
from collections import Counter

PERCENT = "%"
"""Percent as a unit."""

_NAMES = """
mm millimeter millimetre, cm centimeter centimetre, m meter metre, km kilometer kilometre, in inch inches,
ft foot feet, yd yard, mi mile, mg milligram, g gram, kg kilogram, lb pound, oz ounce, ml milliliter millilitre,
l liter litre, s sec second, min minute, h hr hour, degree deg, c celsius, f fahrenheit, dollar usd, % percent
"""
_SYMBOLS = {name: names.split()[0] for names in _NAMES.split(",") for name in names.split()}
_COMPOUNDS = {"mph": "mi/h", "kph": "km/h"}
_GLUED = frozenset([*_SYMBOLS, *_COMPOUNDS]) - frozenset("mglshcf")
"""Units that may follow a digit without a space. Other letters there are variables."""
_FUNCTIONS = frozenset({"sin", "cos", "tan", "cot", "csc", "log", "ln", "exp", "sqrt", "mod", "and", "or"})

_POWER = r"(?:\s?\^\s?\{?-?\d\}?)?"
_NAME = rf"(?:[A-Za-z]{{2,}}+\.?|[mgsLlhCFJNWVK](?![A-Za-z])|%){_POWER}"
_PER = r"(?:/\s?|(?:per|an?)\s)"
_UNIT = re.compile(rf"(?:(?<=\s)|(?<=[\d)}}\]])){_PER}?{_NAME}(?:(?:\s?/\s?|\s(?:per\s|an?\s|\\cdot\s)?){_NAME})*+\Z")
_PART = re.compile(
    rf"(?P<per>{_PER})?(?:(?P<prefix>square|sq|cubic)\b\.?\s?)?(?P<name>[A-Za-z]+|%)(?:\s?\^\s?\{{?(?P<power>-?\d))?"
)
_PREFIXES = {None: 1, "square": 2, "sq": 2, "cubic": 3}
_NUMBER = re.compile(r"(?:\w\s?=\s?)?(?:\\(?:frac|sqrt|times|pi|pm)|[-\d.,/{}()^\s])+")


def split_unit(text: str) -> tuple[str, str]:
    """The value and its unit: ``("5", "cm^2")``. The unit is empty if none is given, or if it is just ``units``."""
    found = _UNIT.search(text)
    if found is None:
        return text, ""
    value, unit = text[: found.start()].rstrip(), found[0].removesuffix(".")
    names = re.findall(r"[A-Za-z]+", unit)
    glued = text[found.start() - 1 : found.start()] != " " and unit[0].isalpha()
    if not re.search(r"[\d)}\]]\Z|\\pi\Z", value) or not _FUNCTIONS.isdisjoint(names):
        return text, ""
    if glued and names[0].lower() not in _GLUED:
        return text, ""
    # A lone letter is a unit only after a number: "2x - 5 m" may hold two variables.
    if names and len(names[0]) == 1 and not _NUMBER.fullmatch(value):
        return text, ""
    return value, _canonical(unit)


def _canonical(unit: str) -> str:
    """The parts of a unit as symbols with powers, in alphabetical order."""
    powers: Counter[str] = Counter()
    for part in _PART.finditer(unit):
        name = part["name"].lower()
        compound = _COMPOUNDS.get(name)
        for inner in _PART.finditer(compound or name):
            power = int(part["power"] or _PREFIXES[part["prefix"]])
            powers[_symbol(inner["name"])] += -power if part["per"] or inner["per"] else power
    return " ".join(
        name if power == 1 else f"{name}^{power}" for name, power in sorted(powers.items()) if name != "unit"
    )


def _symbol(name: str) -> str:
    singular = name if len(name) < 3 else name.removesuffix("s")
    return _SYMBOLS.get(name) or _SYMBOLS.get(singular, singular)
