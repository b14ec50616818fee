"""A short span of free text: a name, a date, a number, yes or no."""

from __future__ import annotations

from madke.core.question import Question
from madke.tasks.normalize import squad_normalize


class ShortAnswer:
    """Answers are kept as the debater wrote them and compared after SQuAD normalisation."""

    name = "short_answer"
    metrics: tuple[str, ...] = ("em", "f1")

    def read(self, raw: str, question: Question) -> str | None:
        """Any text with at least one letter, digit or symbol that survives normalisation."""
        answer = " ".join(raw.split())
        return answer if squad_normalize(answer) else None

    def same(self, left: str, right: str) -> bool:
        """Equal after SQuAD normalisation."""
        return squad_normalize(left) == squad_normalize(right)

    def check(self, question: Question) -> str | None:
        """Nothing to check: any gold text is a short answer."""
        return None
