"""A language model as grader: what it is shown of an answer, and how its grade is read.

The GPT-4 score of Wang et al. (MADKE, Appendix C), in words of our own (``prompts/grading/grade.yaml``): the grader
sees worked examples of the task, the question, all references and the answer that was read, never the debate. It
reasons step by step and ends with ``[True]`` or ``[False]``.

Questions, references and answers are text of others. They stand between tags, in which they cannot write a tag of
ours, and a grade's mark inside them is shown with round brackets: a grader that repeats an answer repeats no grade.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from madke.core.chat import Message
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.parse import parse_grade, without_reasoning
from madke.engine.quoting import without_tags
from madke.tasks.choice import lettered

_TAGS = ("task", "reference", "answer")
_MARK = re.compile(r"\[\W{0,9}(?:true|false)\W{0,9}\]", re.IGNORECASE)
_ROUND = str.maketrans("[]", "()")

_MARK_RULES = ("marker", "alone")
"""How :func:`madke.engine.parse.parse_grade` may have read a grade. A bare word or a line "Grade: true" does not count:
either may be the answer, repeated."""


class GradingExample(BaseModel):
    """One graded answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    choices: tuple[str, ...] = ()
    references: tuple[str, ...] = Field(min_length=1)
    answer: str
    reasoning: str
    """The steps that lead to the grade, without the grade itself."""
    right: bool


class GradingPrompt(BaseModel):
    """The wording of the grading prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    instruction: str
    closing: str
    examples: Mapping[str, tuple[GradingExample, ...]]
    """Task -> graded answers, right and wrong ones."""

    def messages(self, question: Question, answer: str) -> tuple[Message, ...]:
        """What the grader is sent about one answer; what is the same for all answers of a task comes first.

        Raises:
            UserError: There are no examples of the question's task.
        """
        if question.task not in self.examples:
            raise UserError(f"task {question.task!r}: the grading prompt has no examples of it")
        examples = (
            f"{_shown(example.question, example.choices, example.references, example.answer)}\n\n"
            f"{example.reasoning}\n[{example.right}]"
            for example in self.examples[question.task]
        )
        parts = (
            self.instruction,
            "Worked examples:",
            *examples,
            "(end of the examples)",
            _shown(question.question, question.choices, question.answers, answer),
            self.closing,
        )
        return Message(role="system", content=self.system), Message(role="user", content="\n\n".join(parts))


def read_grade(reply: str) -> bool | None:
    """The grade in a reply: True (right), False, or None where it holds no ``[True]`` or ``[False]`` of its own."""
    parsed = parse_grade(without_reasoning(reply))
    return parsed.value if parsed.rule in _MARK_RULES else None


def _shown(question: str, choices: tuple[str, ...], references: tuple[str, ...], answer: str) -> str:
    task = [_quoted(question), *(f"({letter}) {_on_one_line(choice)}" for letter, choice in lettered(choices))]
    return "\n".join(
        [
            "<task>",
            *task,
            "</task>",
            *(f"<reference>{_on_one_line(reference)}</reference>" for reference in references),
            f"<answer>{_on_one_line(answer)}</answer>",
        ]
    )


def _on_one_line(text: str) -> str:
    return _quoted(" ".join(text.split()))


def _quoted(text: str) -> str:
    """The text without tags and grades of ours."""
    return _MARK.sub(lambda mark: mark.group().translate(_ROUND), without_tags(text, _TAGS))
