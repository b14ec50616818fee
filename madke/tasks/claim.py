"""Fact verification with FEVER's three labels."""

from __future__ import annotations

import re

from madke.core.question import Question
from madke.tasks.base import Task

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")

_FORMS = {
    "supports": "SUPPORTS",
    "support": "SUPPORTS",
    "supported": "SUPPORTS",
    "refutes": "REFUTES",
    "refute": "REFUTES",
    "refuted": "REFUTES",
    "not enough info": "NOT ENOUGH INFO",
    "not enough information": "NOT ENOUGH INFO",
    "not enough evidence": "NOT ENOUGH INFO",
    "insufficient information": "NOT ENOUGH INFO",
    "insufficient evidence": "NOT ENOUGH INFO",
    "nei": "NOT ENOUGH INFO",
}
_CLAIM = re.compile(r"\Athe (?:claim|label) is | the claim\Z")


class Claim(Task):
    """The answer is one of :data:`LABELS`."""

    name = "claim"
    metrics: tuple[str, ...] = ("label_accuracy",)

    def read(self, raw: str, question: Question) -> str | None:
        """A label in any case and inflection: ``REFUTES``, ``**Refuted.**``, ``The claim is refuted``."""
        words = " ".join(re.sub(r"[^a-z]+", " ", raw.lower()).split())
        return _FORMS.get(_CLAIM.sub("", words))

    def same(self, left: str, right: str) -> bool:
        """The same label."""
        return left == right

    def check(self, question: Question) -> str | None:
        """Every gold answer must be a label."""
        wrong = [answer for answer in question.answers if answer not in LABELS]
        return f"golden answer {wrong[0]!r} of a claim is not one of {', '.join(LABELS)}" if wrong else None
