"""The prompt of a grading model, and its reply."""

import re
from collections.abc import Mapping

from pydantic import BaseModel, Field

from madke.core.chat import Message
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.parse import parse_grade, without_reasoning
from madke.engine.reading import without_tags
from madke.tasks.choice import lettered

_TAGS = ("task", "reference", "answer")
_MARK = re.compile(r"\[\W{0,9}(?:true|false)\W{0,9}\]", re.IGNORECASE)
_ROUND = str.maketrans("[]", "()")


class GradingExample(BaseModel, extra="forbid", frozen=True):
    """One graded answer."""

    question: str
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = Field(min_length=1)
    answer: str
    reasoning: str
    """The steps that lead to the grade, without the grade itself."""
    right: bool


class GradingPrompt(BaseModel, extra="forbid", frozen=True):
    """The wording of the grading prompt."""

    system: str
    instruction: str
    closing: str
    examples: Mapping[str, tuple[GradingExample, ...]]
    """Task -> graded answers, right and wrong ones."""

    def messages(self, question: Question, answer: str) -> tuple[Message, ...]:
        """The prompt for one answer; the part that all answers of a task share comes first."""
        if question.task not in self.examples:
            raise UserError(f"task {question.task!r}: the grading prompt has no examples for it")
        examples = (
            f"{_shown(example.question, example.choices, example.references, example.answer)}\n\n"
            f"{example.reasoning}\n[{example.right}]"
            for example in self.examples[question.task]
        )
        task = _shown(question.question, question.choices, question.answers, answer)
        parts = (self.instruction, "Worked examples:", *examples, "(end of the examples)", task, self.closing)
        return Message(role="system", content=self.system), Message(role="user", content="\n\n".join(parts))


def read_grade(reply: str) -> bool | None:
    """Parse the grade in a reply: True (right), False, or None if it contains no ``[True]`` or ``[False]``."""
    text = without_reasoning(reply)
    parsed = parse_grade(text)
    return parsed.value if parsed.span and _MARK.search(text[slice(*parsed.span)]) else None


def _shown(question: str, choices: tuple[str, ...], references: tuple[str, ...], answer: str) -> str:
    task = [_quoted(question), *(f"({letter}) {_on_one_line(choice)}" for letter, choice in lettered(choices))]
    golds = (f"<reference>{_on_one_line(reference)}</reference>" for reference in references)
    return "\n".join(["<task>", *task, "</task>", *golds, f"<answer>{_on_one_line(answer)}</answer>"])


def _on_one_line(text: str) -> str:
    return _quoted(" ".join(text.split()))


def _quoted(text: str) -> str:
    return _MARK.sub(lambda mark: mark.group().translate(_ROUND), without_tags(text, _TAGS))
