"""A translation: the whole text is the answer."""

import unicodedata

from madke._util.assets import require
from madke.core.question import Question
from madke.tasks.answer_text import unmarked
from madke.tasks.base import BaseTask


class Translation(BaseTask):
    """Answers are the translated text on one line; golds are reference translations."""

    name = "translation"
    answers_are = "a text"
    right_when = "scored by chrF and BLEU, or by your own scorer"
    metrics = ("chrf", "bleu")
    scales = ("ambiguity_resolved", "quality")
    reads_whole_line = True

    def read(self, text: str, question: Question) -> str | None:
        """The text without emphasis or quotes around it; None if no letter or digit is left."""
        text = unmarked(text)
        return text if any(character.isalnum() for character in text) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both are equal, ignoring case, punctuation and spacing. Paraphrases are not the same."""
        return _plain(a) == _plain(b)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """None: no passage can show that the answer is right."""
        return None

    def check(self, question: Question) -> str | None:
        """Accepts any reference; sacrebleu must be installed."""
        require(f"the task {self.name!r} needs", "tasks", "sacrebleu")
        return None


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if c.isalnum() or unicodedata.combining(c) else " " for c in folded).split())
