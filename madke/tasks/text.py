"""Prose: a few sentences, each with the numbers of the passages that show it."""

from madke.core.question import Question
from madke.tasks.answer_text import declines
from madke.tasks.base import BaseTask
from madke.tasks.short_answer import ShortAnswer

_GOLDS = ShortAnswer()


class Text(BaseTask):
    """Answers are whole texts with citations such as ``[2]``; golds are short answers that a right text states.

    No two texts are compared: a judge decides whether debaters say the same.
    """

    name = "text"
    metrics = ("named", "match")
    reads_whole_line = True
    is_prose = True

    def read(self, text: str, question: Question) -> str | None:
        """The text as it is; None if no letter or digit is left, or if it says that there is no answer."""
        text = text.strip()
        return text if any(character.isalnum() for character in text) and not declines(text) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both are equal apart from case and spacing. Other words for the same thing are not."""
        return a.casefold().split() == b.casefold().split()

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the text states any gold."""
        return any(_GOLDS.contained(gold, answer, question) for gold in question.answers)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """None: a passage shows single sentences of a text."""
        return None
