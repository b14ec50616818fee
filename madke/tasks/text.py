"""Prose: a few sentences, each with the numbers of the passages that show it."""

import re

from madke.core.question import Question
from madke.tasks.answer_text import declines
from madke.tasks.base import BaseTask
from madke.tasks.short_answer import ShortAnswer

_GOLDS = ShortAnswer()
_NAMED = re.compile(r"[\[(]\s*(?:passages?|knowledge)\s+(\d[\d,\s-]*)[\])]", re.IGNORECASE)
_MARK = r"\[[\d,\s-]++\]\s*+"
_ENDS_IN_MARK = re.compile(rf"{_MARK}[.!?]?\Z")
_LEADING = re.compile(rf"(?P<marks>(?:{_MARK})++)(?P<sentence>[^\[]*+)")


class Text(BaseTask):
    """Answers are whole texts with citations such as ``[2]``; golds are short answers that a right text states.

    No two texts are compared: a judge decides whether debaters say the same.
    """

    name = "text"
    answers_are = "a text whose sentences cite"
    right_when = (
        "scored by the golds that it names; for protocols that compare no answers ([texts](report.md#texts))"
    )
    metrics = ("named", "match")
    reads_whole_line = True
    is_prose = True

    def read(self, text: str, question: Question) -> str | None:
        """The text with each citation as ``[2]`` after its sentence.

        None if no letter or digit is left, or if it says that there is no answer.
        """
        text = _NAMED.sub(lambda named: f"[{named[1].strip()}]", text.strip())
        if re.match(_MARK, text) and not _ENDS_IN_MARK.search(text):
            text = _LEADING.sub(_marks_last, text)
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


def _marks_last(found: re.Match[str]) -> str:
    sentence = found["sentence"].rstrip()
    space = found["sentence"][len(sentence) :]
    stop = sentence[-1:] if sentence.endswith((".", "!", "?")) else ""
    return f"{sentence.removesuffix(stop)} {found['marks'].strip()}{stop}{space}"
