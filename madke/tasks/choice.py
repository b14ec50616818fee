"""Multiple choice: the answer is the letter of an option."""

from __future__ import annotations

import re
from string import ascii_uppercase

from madke.core.question import Question
from madke.tasks.base import Task
from madke.tasks.normalize import squad_normalize

_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?\(?([A-Za-z])\)?[.:]?", re.IGNORECASE)
_LETTER_THEN_TEXT = re.compile(
    r"(?:(?:option|choice|answer)\s+)?\(?([A-Z])(\)\s*[.:]?|[.:]|,|\s+[-\u2013])\s*(\S.*)",
    re.DOTALL,
)

_SIGN = re.compile(r"(?<![\w.])-(?=\.?\d)")
_POINT = re.compile(r"\.(?=\d)")


def lettered(choices: tuple[str, ...]) -> list[tuple[str, str]]:
    """The options with their letters: ``[("A", first), ("B", second), ...]``."""
    return list(zip(ascii_uppercase, choices, strict=False))


class Choice(Task):
    """Answers are upper-case letters."""

    name = "choice"
    metrics: tuple[str, ...] = ("choice_accuracy",)

    def read(self, raw: str, question: Question) -> str | None:
        """``B``, ``(B)``, ``Option B``, ``B) its text`` or exactly one option's text, as a letter that exists."""
        text = raw.strip()
        options = lettered(question.choices)
        if found := _LETTER.fullmatch(text):
            letter = found.group(1).upper()
            return letter if letter in dict(options) else None
        if found := _LETTER_THEN_TEXT.fullmatch(text):
            letter, mark, rest = found.groups()
            told = dict(options).get(letter)
            # After a comma or a dash "A" may be an article; the text must be that option's then.
            certain = mark[0] in ").:" or (told is not None and _wording(rest) == _wording(told))
            if told is not None and certain:
                return str(letter)
        named = [letter for letter, option in options if _wording(option) == _wording(text)]
        return named[0] if len(named) == 1 else None

    def same(self, left: str, right: str) -> bool:
        """The same letter."""
        return left == right

    def check(self, question: Question) -> str | None:
        """There must be 2 to 26 options, and every gold answer must be the letter of one."""
        letters = [letter for letter, _ in lettered(question.choices)]
        if not 2 <= len(question.choices) <= len(ascii_uppercase):
            return f"a choice needs 2 to 26 choices, found {len(question.choices)}"
        wrong = [answer for answer in question.answers if answer not in letters]
        return f"golden answer {wrong[0]!r} is not a letter of A to {letters[-1]}" if wrong else None


def _wording(text: str) -> str:
    """What tells one option from another: its words, and the signs and decimal points of its numbers."""
    return squad_normalize(_POINT.sub("point", _SIGN.sub("minus", text)))
