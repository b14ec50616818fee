r"""Mathematics: a number, an expression, an interval, a set, a matrix, or a word.

A cheap comparison comes first: both texts are normalised and split into value and unit. ``12 square inches``,
``12 in^2`` and ``12\text{ sq. in.}`` have the same unit, and so do ``3 km/h`` and ``3 kilometers per hour``. Any words
after a number are its unit (``18 dollars per day``). Only texts that still differ go to math-verify.

Its work is bounded, since answers come from models. Text that could make huge numbers or a long parse is rejected
first. The work of sympy stops after a fixed number of function calls: unlike an alarm, this works in any thread and
does not depend on the machine's speed.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from types import FrameType
from typing import Any, NamedTuple

from madke._util.assets import require
from madke.core.question import Question
from madke.tasks.base import BaseTask, declines, without_marks
from madke.tasks.words import RATES, SIGNS, UNITS, join_digits

_AROUND = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), (r"\boxed{", "}"), (r"\fbox{", "}"))
_EQUALS = re.compile(r"(?<![<>!])=|\\in(?![a-z])")
_APART = re.compile(r"\d \d")
_UNKNOWN = re.compile(r"\\?[A-Za-z]+(?:\([A-Za-z]\))?")
_MAX_MARKS = 4


class Math(BaseTask):
    """Answers are LaTeX or plain text without surrounding marks; units are kept."""

    name = "math"
    metrics = ("math_equivalence",)
    reads_last_number = True
    is_in_passages = False

    def read(self, text: str, question: Question) -> str | None:
        r"""The text without surrounding ``$``, ``\boxed{}``, emphasis, quotes or full stop; None if it is no answer."""
        text = without_marks(text)
        for _ in range(_MAX_MARKS):
            text = without_marks(_unwrap(text))
        has_content = any(character.isalnum() or character in "\u221e\u2205" for character in text)
        return text if has_content and not declines(text) else None

    def clearly_differ(self, a: str, b: str, question: Question) -> bool:
        """Whether the values differ: the matcher compares values, so no judge is needed."""
        return not self.same(a, b, question)

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both are mathematically equal, even if only one has a unit, an unknown (``x = 5``) or brackets."""
        one, other = expression(a), expression(b)
        if one.unit and other.unit and one.unit != other.unit:
            return False
        if one.words or other.words:
            return one.value == other.value
        value, other_value = _solve(one, other)
        if _equal(value, other_value):
            return True
        # "50%" equals 50 percent and 0.5.
        if one.unit == _PERCENT and not other.unit:
            return _equal(f"\\frac{{{value}}}{{100}}", other_value)
        if other.unit == _PERCENT and not one.unit:
            return _equal(value, f"\\frac{{{other_value}}}{{100}}")
        return False

    def check(self, question: Question) -> str | None:
        """Every gold answer must be readable, and math-verify installed."""
        require(f"the task {self.name!r} needs", "tasks", "math_verify")
        wrong = [answer for answer in question.answers if self.read(answer, question) is None]
        return f"golden answer {wrong[0]!r} of a math question holds no letter or digit" if wrong else None


def _unwrap(text: str) -> str:
    """The text without one pair of marks around the whole of it, or one final full stop."""
    if text.endswith(".") and not text.endswith((r"\right.", "..")):
        return text[:-1].rstrip()
    for opening, closing in _AROUND:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
            inner = text[len(opening) : len(text) - len(closing)]
            depths = accumulate((character == "{") - (character == "}") for character in inner)
            if opening not in inner and (closing != "}" or min(depths, default=0) >= 0):
                return inner.strip()
    return text


def _solve(one: Expression, other: Expression) -> tuple[str, str]:
    """Both values; if only one is an equation for an unknown, its right side is its value."""
    sides = [_EQUALS.split(form.value) for form in (one, other)]
    if (len(sides[0]) > 1) == (len(sides[1]) > 1):
        return one.value, other.value
    left, right = (
        parts[-1] if len(parts) > 1 and _UNKNOWN.fullmatch(parts[0].strip()) else form.value
        for parts, form in zip(sides, (one, other), strict=True)
    )
    return left.strip(), right.strip()


def _equal(one: str, other: str) -> bool:
    left, right = one.replace(" ", ""), other.replace(" ", "")
    if _APART.search(one) or _APART.search(other):
        return one == other  # "1 2" is not 12
    if left == right:
        return True
    if (exact := _decimal(left)) is not None and (also := _decimal(right)) is not None:
        return exact == also
    if bool(_EQUALS.search(left)) != bool(_EQUALS.search(right)):
        return False
    tuples = [side.startswith(("(", "[")) and side.endswith((")", "]")) for side in (left, right)]
    if tuples[0] != tuples[1] and "," in left and "," in right:
        # The library reads a bare list as a set; compared with a tuple, its order matters.
        return right == left[1:-1] if tuples[0] else left == right[1:-1]
    return _equivalent(*sorted((one, other)))


_PERCENT = UNITS["%"]
_SHORT = frozenset({"mm", "cm", "km", "in", "ft", "yd", "mi", "mg", "kg", "lb", "oz", "ml", "hr"})
_GLUED = _SHORT | {name for name in (*UNITS, *RATES) if len(name) > 2}
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


def _split_unit(text: str) -> tuple[str, str]:
    """The value and its unit: ``("5", "cm^2")``. The unit is empty if it is missing or just ``units``."""
    match = _UNIT.search(text)
    if match is None:
        return text, ""
    value, unit = text[: match.start()].rstrip(), match[0].removesuffix(".")
    names = re.findall(r"[A-Za-z]+", unit)
    glued = text[match.start() - 1 : match.start()] != " " and unit[0].isalpha()
    if not re.search(r"[\d)}\]]\Z|\\pi\Z", value) or not _FUNCTIONS.isdisjoint(names):
        return text, ""
    if glued and names[0].lower() not in _GLUED:
        return text, ""
    # A lone letter is a unit only after a number: "2x - 5 m" may hold two variables.
    if names and len(names[0]) == 1 and not _NUMBER.fullmatch(value):
        return text, ""
    return value, _canonical(unit)


def _canonical(unit: str) -> str:
    """The parts of a unit in full with powers, in alphabetical order."""
    powers: Counter[str] = Counter()
    for part in _PART.finditer(unit):
        name = part["name"].lower()
        for inner in _PART.finditer(RATES.get(name, name)):
            power = int(part["power"] or _PREFIXES[part["prefix"]])
            unit_name = inner["name"]
            singular = unit_name if len(unit_name) < 3 else unit_name.removesuffix("s")
            full = UNITS.get(unit_name) or UNITS.get(singular, singular)
            powers[full] += -power if part["per"] or inner["per"] else power
    return " ".join(
        name if power == 1 else f"{name}^{power}" for name, power in sorted(powers.items()) if name != "unit"
    )


_MAGNITUDES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_TEXT = r"\\(?:text|mathrm|textbf|textrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"
_REWRITES = (
    # Spacing, size and text commands, which do not change the value.
    (r"\\!\s*", ""),
    (r"\\(?:left|right|displaystyle)(?![a-z])|(?<!\\)\\[,;: ]|~|\\q?quad(?![a-z])", " "),
    (r"\\[dt]frac", r"\\frac"),
    (rf"\\frac\s*\{{\s*{_TEXT}\s*\}}\s*\{{\s*{_TEXT}(\^\{{?\d\}}?)?\s*\}}", r" \1/\2\3"),
    (_TEXT, r" \1 "),
    # Signs: degrees and cents are units; so are currency signs before a lone number, the others are removed.
    *((rf"\A\s*\\?{re.escape(sign)}\s?(\d[\d,]*(?:\.\d+)?)\s*\Z", rf"\1 {name}") for sign, name in SIGNS.items()),
    (r"\^\s*(?:\\circ(?![a-z])|\{\s*\\circ\s*\})|\u00b0", " degrees "),
    (r"\u00a2", " cents"),
    (r"\b([ap])\.\s?m\b\.?", r"\1m"),
    (r"\\?%", " % "),
    (r"\\\$|[$\u20ac\u00a3]", " "),
    (r"[\u2212\u2013]", "-"),
    (r"\u00b2", "^2"),
    (r"\u00b3", "^3"),
    (r"\u00b7", r" \\cdot "),
    (r"\u221e", r"\\infty "),
    (r"(?<![\\A-Za-z])pi(?![A-Za-z])|\u03c0", r"\\pi "),
    (r"\u221a\s*(\w+)", r"\\sqrt{\1}"),
    # Numbers: mixed, with an exponent, with a magnitude, fractions of digits without braces.
    (r"(?<![\w.])(\d+)\s+(\d+)/(\d+)(?![\w.])", r"\1\\frac{\2}{\3}"),
    (r"(?<=\d)[eE]([-+]?\d+)(?!\w)", r"\\times 10^{\1}"),
    *((rf"(?<=\d) ?{name}(?![a-z])", rf"\\times 10^{{{zeros}}}") for name, zeros in _MAGNITUDES.items()),
    (r"\\frac\s*(\d)\s*(\d+)", r"\\frac{\1}{\2}"),
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SEVERAL = ("(", "[", "\\{")
_BASE = re.compile(r"(?P<value>\d+)\s*_\s*\{?(?P<base>\d+)\}?")
_WORDS = re.compile(r"[^\W\d_]{3,}(?:[ '-][^\W\d_]+)*")
_MAX_LENGTH = 1000
_DECIMAL = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_LETTER = re.compile(r"\(([A-Za-z])\)")


class Expression(NamedTuple):
    """A mathematical answer, split into value and unit."""

    value: str
    unit: str = ""
    """Normalised: ``centimeter^2``, ``hour^-1 kilometer``, ``percent``, ``base 8``. Empty if none is given."""
    words: bool = False
    """Whether the value is plain words and not a product of variables."""


def _decimal(text: str) -> Fraction | None:
    """The exact value of a plain decimal number; None for anything else."""
    compact = text.replace(" ", "")
    return Fraction(compact) if _DECIMAL.fullmatch(compact) else None


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Split an answer into value and unit; a text too long for an expression is the value."""
    if len(text) > _MAX_LENGTH:
        return Expression(value=text)
    for pattern, written in _REWRITES:
        text = re.sub(pattern, written, text)
    text = join_digits(" ".join(text.replace("\u2019", "'").split()))
    if not text.startswith(_SEVERAL):  # In a tuple or a set a comma separates items.
        text = _THOUSANDS.sub("", text)
    if based := _BASE.fullmatch(text):
        return Expression(value=based["value"], unit=f"base {based['base']}")
    if words := _WORDS.fullmatch(text.strip("(). ")):
        return Expression(value=words[0].casefold(), words=True)
    value, unit = _split_unit(text)
    letter = _LETTER.fullmatch(value)
    return Expression(value=letter[1] if letter else value, unit=unit)


_MAX_COMPARED = 300
_MAX_DEPTH = 8
_MAX_DIGITS = 30
_MAX_POWER = 10**5
_MAX_FUEL = 5_000_000
"""Function calls and returns, two to three seconds. The first use of a part of sympy takes up to three million; after
that the slowest pair of MATH-500 golds takes 0.6 million."""

_HEAVY = re.compile(r"\*\*|(?<!\\)!|\^\s*(?:\d+|[^\W_])\s*\^|\\(?:sum|prod|int|lim|binom|dbinom|tbinom)(?![a-z])")
_EXPONENT = re.compile(r"\^\s*\{?\s*-?(\d+)")
_DIGITS = re.compile(r"\d+")


class _OutOfFuel(BaseException):
    """Not an ``Exception``, which libraries would catch."""


@lru_cache(maxsize=4096)
def _equivalent(left: str, right: str) -> bool:
    """Whether two LaTeX expressions (without dollar signs) are equal; False if the work exceeds the bounds."""
    if not (_tractable(left) and _tractable(right)):
        return False
    import math_verify  # Here, so that the import uses no fuel.

    # The library warns once that no timeout is set.
    logging.getLogger(math_verify.__name__).setLevel(logging.ERROR)
    try:
        # The library's comparison is not symmetric; ours must be.
        pairs = ((left, right), (right, left))
        return _with_fuel(
            lambda: any(math_verify.verify(_parse(one), _parse(two), timeout_seconds=None) for one, two in pairs)
        )
    except (_OutOfFuel, Exception):  # noqa: BLE001 - On hostile text the library can raise anything.
        return False


def _tractable(text: str) -> bool:
    """Whether no number in the text can have more than some hundred thousand digits."""
    if len(text) > _MAX_COMPARED or _HEAVY.search(text):
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


@lru_cache(maxsize=1024)
def _parse(text: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    # LaTeX only: the library's reader of plain expressions evaluates them as Python.
    parsed: list[Any] = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    return parsed


def _with_fuel(work: Callable[[], bool]) -> bool:
    left = _MAX_FUEL

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
