"""Whether two mathematical expressions are equal, by math-verify, with a bound on the work.

The expressions come from model output. Text that could make big numbers or a long parse is turned away before the
library sees it; what sympy does with the rest is stopped after a fixed number of function calls, which, unlike an
alarm, works in any thread and does not depend on the speed of the machine.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Any

_MAX_LENGTH = 300
_MAX_DEPTH = 8
_MAX_DIGITS = 30
_MAX_POWER = 10**5
_FUEL = 5_000_000
"""Calls and returns of functions, two to three seconds. The first use of a part of sympy takes up to three million,
the dearest pair of MATH-500 golds then 0.6 million."""

_HEAVY = re.compile(r"\*\*|(?<!\\)!|\^\s*(?:\d+|[^\W_])\s*\^|\\(?:sum|prod|int|lim|binom|dbinom|tbinom)(?![a-z])")
_EXPONENT = re.compile(r"\^\s*\{?\s*-?(\d+)")
_DIGITS = re.compile(r"\d+")


class _OutOfFuel(BaseException):
    """Not an ``Exception``: libraries catch those on the way."""


@lru_cache(maxsize=4096)
def equivalent(left: str, right: str) -> bool:
    """Whether both LaTeX expressions, without dollar signs, parse and one verifies the other within the bounds."""
    if not (_tractable(left) and _tractable(right)):
        return False
    import math_verify  # Before any fuel is spent, for the import takes much of it.

    # It warns once that no timeout is set.
    logging.getLogger(math_verify.__name__).setLevel(logging.ERROR)
    try:
        return _with_fuel(lambda: _verified(left, right))
    except (_OutOfFuel, Exception):  # A library that reads hostile text may raise anything.
        return False


def _tractable(text: str) -> bool:
    """Whether no number that the text spells out can grow beyond some hundred thousand digits."""
    if len(text) > _MAX_LENGTH or _HEAVY.search(text):
        return False
    if any(len(run) > _MAX_DIGITS for run in _DIGITS.findall(text)):
        return False
    if (depth := _depth(text)) is None:
        return False
    # Powers of powers multiply, and brackets bound how many can be stacked.
    power = 1
    for exponent in sorted(map(int, _EXPONENT.findall(text)), reverse=True)[: depth + 1]:
        power *= max(exponent, 1)
    return power <= _MAX_POWER


def _depth(text: str) -> int | None:
    """How deep brackets are nested; None if too deep, or for a tower of powers other than that of a letter."""
    exponents: list[bool] = []  # For each open bracket, whether it holds an exponent.
    deepest = 0
    previous = ""
    for character in text.replace(" ", ""):
        if character in "([{":
            exponents.append(previous == "^")
            deepest = max(deepest, len(exponents))
        elif character in ")]}" and exponents:
            exponents.pop()
        elif character == "^" and any(exponents) and (sum(exponents) > 1 or not previous.isalpha()):
            return None
        previous = character
    return deepest if deepest <= _MAX_DEPTH else None


def _verified(left: str, right: str) -> bool:
    from math_verify import verify

    # The library's comparison follows the form of its first argument; agreement must not.
    one, other = _parsed(left), _parsed(right)
    return any(verify(*pair, timeout_seconds=None) for pair in ((one, other), (other, one)))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    # Its other reader, of plain expressions, evaluates them as Python.
    found: list[Any] = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    return found


def _with_fuel(work: Callable[[], bool]) -> bool:
    left = _FUEL

    def burn(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _OutOfFuel

    before = sys.getprofile()
    sys.setprofile(burn)
    try:
        return work()
    finally:
        sys.setprofile(before)
