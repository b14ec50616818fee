r"""Mathematics: a number, an expression, an interval, a set, a matrix, or a word.

The cheap comparison comes first: both texts in one spelling. Only texts that still differ go to math-verify.
"""

from __future__ import annotations

import re

from madke.core.question import Question
from madke.tasks.answer_text import declines, unmarked
from madke.tasks.base import BaseTask, require
from madke.tasks.equivalence import equivalent
from madke.tasks.latex import PERCENT, Expression, decimal, expression

_AROUND = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), (r"\boxed{", "}"), (r"\fbox{", "}"))
_EQUALS = re.compile(r"(?<![<>!])=|\\in(?![a-z])")
_UNKNOWN = re.compile(r"\\?[A-Za-z]+(?:\([A-Za-z]\))?")
_MARKS = 4
"""How many pairs of marks may stand around an answer."""


class Math(BaseTask):
    """Answers are LaTeX or plain text without the marks around it; the unit stays."""

    name = "math"
    metrics = ("math_equivalence",)
    reads_last_number = True

    def read(self, text: str, question: Question) -> str | None:
        r"""The text without ``$``, ``\boxed{}``, emphasis, quotes or a full stop around it.

        None for text without a letter or digit, and for words that decline to answer.
        """
        text = unmarked(text)
        for _ in range(_MARKS):
            text = unmarked(_unwrapped(text))
        said = any(character.isalnum() or character in "\u221e\u2205" for character in text)
        return text if said and not declines(text) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Equal as mathematics.

        A unit that only one side names makes no difference (``1.5 m/s`` is ``1.5``). Nor does the name of the unknown
        (``x = 5`` is ``5``), nor do the brackets of a tuple, as long as the order is the same.
        """
        one, other = expression(a), expression(b)
        if one.unit and other.unit and one.unit != other.unit:
            return False
        if one.words or other.words:
            return one.value == other.value
        value, other_value = _solved(one, other)
        if _equal(value, other_value):
            return True
        # "50%" is 50 percent, and also 0.5.
        if one.unit == PERCENT and not other.unit:
            return _equal(f"\\frac{{{value}}}{{100}}", other_value)
        if other.unit == PERCENT and not one.unit:
            return _equal(value, f"\\frac{{{other_value}}}{{100}}")
        return False

    def check(self, question: Question) -> str | None:
        """Every gold answer must be readable, and math-verify installed."""
        require("math_verify", self.name)
        wrong = [answer for answer in question.answers if self.read(answer, question) is None]
        return f"golden answer {wrong[0]!r} of a math question holds no letter or digit" if wrong else None


def _unwrapped(text: str) -> str:
    """The text without one pair of marks around all of it, or one full stop at its end."""
    if text.endswith(".") and not text.endswith((r"\right.", "..")):
        return text[:-1].rstrip()
    for opening, closing in _AROUND:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
            inner = text[len(opening) : len(text) - len(closing)]
            if opening not in inner and (closing != "}" or _closed(inner)):
                return inner.strip()
    return text


def _closed(text: str) -> bool:
    """Whether every brace that closes in the text was opened in it."""
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return True


def _solved(one: Expression, other: Expression) -> tuple[str, str]:
    """Both values; where only one is an equation for an unknown, its right side."""
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
    if left == right:
        return True
    if (exact := decimal(left)) is not None and (also := decimal(right)) is not None:
        return exact == also
    if bool(_EQUALS.search(left)) != bool(_EQUALS.search(right)):
        return False
    tuples = [side.startswith(("(", "[")) and side.endswith((")", "]")) for side in (left, right)]
    if tuples[0] != tuples[1] and "," in left and "," in right:
        # For the library a bare list is a set; beside a tuple its order matters.
        return right == left[1:-1] if tuples[0] else left == right[1:-1]
    return equivalent(*sorted((one, other)))
