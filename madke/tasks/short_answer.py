"""A short span of free text: a name, a date, a number, yes or no."""

from __future__ import annotations

import unicodedata

from madke.core.question import Question
from madke.tasks import matching
from madke.tasks.answer_text import bare, declines
from madke.tasks.base import BaseTask

_LONE_SIGNS = frozenset("*#%&@/\\")


class ShortAnswer(BaseTask):
    """Answers stay as the debater wrote them. The matcher compares what they name."""

    name = "short_answer"
    metrics = ("em", "f1", "match")

    def read(self, text: str, question: Question) -> str | None:
        """Any text with a letter, a digit or a symbol such as ``+``, or one sign such as ``#`` alone.

        Emphasis, quotes and a full stop around it are removed. None for words that decline to answer.
        """
        answer = bare(text)
        said = answer in _LONE_SIGNS or any(c.isalnum() or unicodedata.category(c)[0] == "S" for c in answer)
        return answer if said and not declines(answer) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both name the same thing (:mod:`madke.tasks.matching`)."""
        return matching.same(a, b)

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the answer, a phrase or whole sentences, is the same as a gold or states one."""
        return matching.accepts(answer, question.answers, question.question)
