"""Lists: all right answers of a question that has several, such as the people of one name. RAMDocs asks for them."""

import re
from collections.abc import Sequence

from madke.core.question import Question
from madke.tasks.answer_text import bare, declines, squad_normalize
from madke.tasks.base import BaseTask
from madke.tasks.short_answer import ShortAnswer

_ITEM = ShortAnswer()
_BETWEEN = re.compile(r"[;\n]")
MOST_ITEMS = 100
"""Items of a list that are read. Each is compared with all others."""


class AnswerList(BaseTask):
    """Answers are short answers with semicolons between them. Lists are the same if each item is in the other list.

    Every gold answer is required, and no answer that the question's metadata lists as wrong.
    """

    name = "answer_list"
    answers_are = "short answers with semicolons between them"
    right_when = "all golds are named, and none that `metadata.wrong_answers` lists, as RAMDocs asks (`all_golds`)"
    metrics = ("all_golds", "f1")
    reads_whole_line = True
    is_list = True

    def read(self, text: str, question: Question) -> str | None:
        """The first :data:`MOST_ITEMS` items with ``; `` between them, each once; None if there is none.

        Items are repeated if their words are. The matcher would also take "Liberal" for "Liberal-Progressives", which
        are two parties.
        """
        kept: dict[str, str] = {}
        for item in map(bare, items_of(text.strip().removesuffix("."))):
            if any(character.isalnum() for character in item) and not declines(item):
                kept.setdefault(squad_normalize(item) or item, item)
        return "; ".join(kept.values()) or None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether each item is the same as one of the other list."""
        one, other = items_of(a), items_of(b)
        return a == b or (_all_in(one, other, question) and _all_in(other, one, question))

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the list has every gold answer; what else it has is not looked at. See the metric ``all_golds``."""
        return bool(question.answers) and _all_in(question.answers, items_of(answer), question)

    def contained(self, answer: str, text: str, question: Question) -> bool | None:
        """Whether a passage contains at least one item."""
        return any(_ITEM.contained(item, text, question) for item in items_of(answer))


def items_of(answer: str) -> list[str]:
    """The first :data:`MOST_ITEMS` items of a list."""
    return [item.strip() for item in _BETWEEN.split(answer) if item.strip()][:MOST_ITEMS]


def _all_in(items: Sequence[str], others: Sequence[str], question: Question) -> bool:
    return all(any(_ITEM.same(item, other, question) for other in others) for item in items)
