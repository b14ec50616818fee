"""Equality of two mathematical expressions, by math-verify, with bounded work.

The expressions come from model output. Text that could make huge numbers or a long parse is rejected first. The work of
sympy stops after a fixed number of function calls: unlike an alarm, this works in any thread and does not depend on the
machine's speed.
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
"""Function calls and returns, two to three seconds. The first use of a part of sympy takes up to three million; after
that the slowest pair of MATH-500 golds takes 0.6 million."""

_HEAVY = re.compile(r"\*\*|(?<!\\)!|\^\s*(?:\d+|[^\W_])\s*\^|\\(?:sum|prod|int|lim|binom|dbinom|tbinom)(?![a-z])")
_EXPONENT = re.compile(r"\^\s*\{?\s*-?(\d+)")
_DIGITS = re.compile(r"\d+")


class _OutOfFuel(BaseException):
    """Not an ``Exception``, which libraries would catch."""


@lru_cache(maxsize=4096)
def equivalent(left: str, right: str) -> bool:
    """Whether two LaTeX expressions (without dollar signs) are equal; False if the work exceeds the bounds."""
    if not (_tractable(left) and _tractable(right)):
        return False
    import math_verify  # Here, so that the import uses no fuel.

    # The library warns once that no timeout is set.
    logging.getLogger(math_verify.__name__).setLevel(logging.ERROR)
    try:
        return _with_fuel(lambda: _verified(left, right))
    except (_OutOfFuel, Exception):  # On hostile text the library can raise anything.
        return False


def _tractable(text: str) -> bool:
    """Whether no number in the text can have more than some hundred thousand digits."""
    if len(text) > _MAX_LENGTH or _HEAVY.search(text):
        return False
    if any(len(run) > _MAX_DIGITS for run in _DIGITS.findall(text)):
        return False
    if (depth := _depth(text)) is None:
        return False
    # Nested powers multiply; the depth of brackets limits the nesting.
    power = 1
    for exponent in sorted(map(int, _EXPONENT.findall(text)), reverse=True)[: depth + 1]:
        power *= max(exponent, 1)
    return power <= _MAX_POWER


def _depth(text: str) -> int | None:
    """The nesting depth of brackets; None if it is too deep, or for nested powers of anything but a letter."""
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

    # The library's comparison is not symmetric; ours must be.
    one, other = _parsed(left), _parsed(right)
    return any(verify(*pair, timeout_seconds=None) for pair in ((one, other), (other, one)))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    # LaTeX only: the library's reader of plain expressions evaluates them as Python.
    parsed: list[Any] = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    return parsed


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
