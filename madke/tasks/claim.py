"""Fact verification with FEVER's three labels."""

from __future__ import annotations

import re

from madke.core.question import Question
from madke.tasks.base import BaseTask

_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")

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


class Claim(BaseTask):
    """The answer is one of three labels."""

    name = "claim"
    metrics = ("label_accuracy",)
    choices = _LABELS

    def read(self, text: str, question: Question) -> str | None:
        """A label in any case and inflection: ``REFUTES``, ``**Refuted.**``, ``The claim is refuted``."""
        words = " ".join(re.sub(r"[^a-z]+", " ", text.lower()).split())
        return _FORMS.get(_CLAIM.sub("", words))
