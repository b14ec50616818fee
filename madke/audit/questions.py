"""The questions of the audit, from ``eval/samples/audit.yaml``."""

import json
from functools import cache

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question


class _Text(BaseModel, extra="forbid", frozen=True):
    title: str
    text: str


class AuditQuestion(BaseModel, extra="forbid", frozen=True):
    """One question with its passages and two stances on it."""

    question: str
    right: str
    wrong: str
    right_in_other_words: str
    right_reason: str
    wrong_reason: str
    passages: tuple[_Text, ...] = Field(min_length=2)
    """The first holds the right answer."""

    def asked(self) -> Question:
        """The question as debates get it."""
        return Question(id=self.question, question=self.question, answers=(self.right,))

    def pool(self, *, gold_last: bool = False, more: tuple[Passage, ...] = ()) -> KnowledgePool:
        """Its passages, the one with the right answer first or last, and ``more`` after them."""
        texts = (*self.passages[1:], self.passages[0]) if gold_last else self.passages
        own = (
            Passage(source="audit", key=str(n), title=each.title, text=each.text, score=1.0, rank=n)
            for n, each in enumerate(texts)
        )
        return KnowledgePool(passages=(*own, *more))


class _File(BaseModel, extra="forbid", frozen=True):
    questions: tuple[AuditQuestion, ...] = Field(min_length=3)


@cache
def audit_questions() -> tuple[AuditQuestion, ...]:
    """The shipped questions."""
    return read_yaml(asset("eval", "samples", "audit.yaml"), _File).questions


_LONG = 25


def long_passages() -> tuple[Passage, ...]:
    """Passages of the sample corpus, together some 3,000 tokens."""
    with asset("indexes", "sample", "passages.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(_LONG), file, strict=False)]
    return tuple(
        Passage(source="sample", key=row["id"], title=row["title"], text=row["text"], score=0.5, rank=n)
        for n, row in enumerate(rows)
    )
