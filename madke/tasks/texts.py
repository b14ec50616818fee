"""Answers that are whole texts: lists of short answers, prose that cites, and translations."""

import re
import unicodedata
from collections.abc import Sequence

from madke._util.assets import require
from madke.core.question import Question
from madke.tasks.base import BaseTask, bare, declines, squad_normalize, without_marks
from madke.tasks.short_answer import ShortAnswer

_SHORT_ANSWER = ShortAnswer()
_BETWEEN = re.compile(r"[;\n]")
MAX_SHORT_ANSWERS = 100
"""Items of a list that are read. Each is compared with all others."""


class AnswerList(BaseTask):
    """Answers are short answers with semicolons between them. Lists are the same if each item is in the other list.

    Every gold answer is required, and no answer that the question's metadata lists as wrong.
    """

    name = "answer_list"
    metrics = ("all_golds", "f1")
    reads_whole_line = True
    is_list = True

    def read(self, text: str, question: Question) -> str | None:
        """The first :data:`MAX_SHORT_ANSWERS` items with ``; `` between them, each once; None if there is none."""
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
        return any(_SHORT_ANSWER.contained(item, text, question) for item in items_of(answer))


def items_of(answer: str) -> list[str]:
    """The first :data:`MAX_SHORT_ANSWERS` items of a list."""
    return [item.strip() for item in _BETWEEN.split(answer) if item.strip()][:MAX_SHORT_ANSWERS]


def _all_in(items: Sequence[str], others: Sequence[str], question: Question) -> bool:
    return all(any(_SHORT_ANSWER.same(item, other, question) for other in others) for item in items)


_NAMED = re.compile(r"[\[(]\s*(?:passages?|knowledge)\s+(\d[\d,\s-]*)[\])]", re.IGNORECASE)
_MARK = r"\[[\d,\s-]++\]\s*+"
_ENDS_IN_MARK = re.compile(rf"{_MARK}[.!?]?\Z")
_LEADING = re.compile(rf"(?P<marks>(?:{_MARK})++)(?P<sentence>[^\[]*+)")


class Text(BaseTask):
    """Answers are whole texts with citations such as ``[2]``; golds are short answers that a right text states.

    No two texts are compared: a judge decides whether debaters say the same.
    """

    name = "text"
    metrics = ("named", "match")
    reads_whole_line = True
    is_prose = True
    is_in_passages = False

    def read(self, text: str, question: Question) -> str | None:
        """The text with each citation as ``[2]`` after its sentence."""
        text = _NAMED.sub(lambda named: f"[{named[1].strip()}]", text.strip())
        if re.match(_MARK, text) and not _ENDS_IN_MARK.search(text):
            text = _LEADING.sub(_marks_last, text)
        return text if any(character.isalnum() for character in text) and not declines(text) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both are equal apart from case and spacing. Other words for the same thing are not."""
        return a.casefold().split() == b.casefold().split()

    def accepts(self, answer: str, question: Question) -> bool:
        """Whether the text states any gold."""
        return any(_SHORT_ANSWER.contained(gold, answer, question) for gold in question.answers)


def _marks_last(match: re.Match[str]) -> str:
    sentence = match["sentence"].rstrip()
    space = match["sentence"][len(sentence) :]
    stop = sentence[-1:] if sentence.endswith((".", "!", "?")) else ""
    return f"{sentence.removesuffix(stop)} {match['marks'].strip()}{stop}{space}"


class Translation(BaseTask):
    """Answers are the translated text on one line; golds are reference translations."""

    name = "translation"
    metrics = ("chrf", "bleu")
    scales = ("ambiguity_resolved", "quality")
    reads_whole_line = True
    is_in_passages = False

    def read(self, text: str, question: Question) -> str | None:
        """The text without emphasis or quotes around it; None if no letter or digit is left."""
        text = without_marks(text)
        return text if any(character.isalnum() for character in text) else None

    def same(self, a: str, b: str, question: Question) -> bool:
        """Whether both are equal, ignoring case, punctuation and spacing. Paraphrases are not the same."""
        return _plain(a) == _plain(b)

    def check(self, question: Question) -> str | None:
        """Accepts any reference; sacrebleu must be installed."""
        require(f"the task {self.name!r} needs", "tasks", "sacrebleu")
        return None


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if c.isalnum() or unicodedata.combining(c) else " " for c in folded).split())
