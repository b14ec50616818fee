"""Grade answers with a language model: the prompt, the parsing of grades, and their storage.

The GPT-4 score of Wang et al. (MADKE, Appendix C), worded in ``prompts/grading/grade.yaml``. The grader sees worked
examples, the question, all references and the parsed answer, never the debate; its reply ends in ``[True]`` or
``[False]``. Quoted texts are put between tags, and a grade's marker inside them gets round brackets. Calls are stored
in ``grades.sqlite`` in a run's directory, or in ``NAME.grades.sqlite`` next to a predictions file.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from pydantic import BaseModel, Field

from madke.assets import asset
from madke.core.chat import ChatRequest, Message, Purpose
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.parse import parse_grade, without_reasoning
from madke.engine.view import without_tags
from madke.llm import CallStore, Limiter, close, open_model
from madke.llm.endpoints import probe
from madke.runs.cast import guarded
from madke.runs.meter import Meter, MeterDisplay
from madke.runs.stopping import drained, until_limit, until_stopped
from madke.scoring.arms import Results
from madke.scoring.debate_rows import GRADER
from madke.scoring.outside import answers_of, companion_file, keep_scores
from madke.tasks.choice import lettered
from madke.yaml_file import read_yaml

_log = logging.getLogger(__name__)

_TAGS = ("task", "reference", "answer")
_MARK = re.compile(r"\[\W{0,9}(?:true|false)\W{0,9}\]", re.IGNORECASE)
_ROUND = str.maketrans("[]", "()")

_MARK_RULES = ("marker", "alone")
"""Accepted parsing rules: a word without a marker may be a repetition of the answer."""


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
    parsed = parse_grade(without_reasoning(reply))
    return parsed.value if parsed.rule in _MARK_RULES else None


def _shown(question: str, choices: tuple[str, ...], references: tuple[str, ...], answer: str) -> str:
    task = [_quoted(question), *(f"({letter}) {_on_one_line(choice)}" for letter, choice in lettered(choices))]
    golds = (f"<reference>{_on_one_line(reference)}</reference>" for reference in references)
    return "\n".join(["<task>", *task, "</task>", *golds, f"<answer>{_on_one_line(answer)}</answer>"])


def _on_one_line(text: str) -> str:
    return _quoted(" ".join(text.split()))


def _quoted(text: str) -> str:
    return _MARK.sub(lambda mark: mark.group().translate(_ROUND), without_tags(text, _TAGS))


UNREAD = "no grade in the reply"
"""The reason for a missing grade if the grader replied."""
_NO_REFERENCE = "no reference"

_MAX_TOKENS = 1024

Pair = tuple[str, str]
"""(question id, answer)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grader:
    """The grading model and its settings."""

    model: str
    """A model name as for ``--model``."""
    base_url: str | None = None
    """The endpoint of an ``openai/`` or ``azure/`` model."""
    concurrency: int = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Grades:
    """The grades of some answers."""

    model: str
    right: Mapping[Pair, bool]
    missing: Mapping[Pair, str]
    """Answers without a grade -> reason: :data:`UNREAD`, or the error of the call."""


def grade(
    answers: Iterable[tuple[Question, str]],
    grader: Grader,
    store: Path,
    *,
    watch: MeterDisplay = lambda meter: nullcontext(),
) -> Grades:
    """Grade answers at temperature 0; equal answers to one question are graded once.

    Args:
        answers: Questions with their references, and an answer to each; question ids must be unique.
        grader: The grading model.
        store: The call store; created if missing. Failed calls are retried.
        watch: Shows a meter during the calls; it counts answers, not questions.

    Raises:
        UserError: The model or the store cannot be used, or a task has no worked grading examples.
        Interrupted: A signal stopped the grading; finished calls are stored.
    """
    prompt = _prompt()
    requests = {
        (question.id, answer): ChatRequest(
            messages=prompt.messages(question, answer),
            purpose=Purpose(question=question.id, stage="grade", agent="grader", round=1),
            temperature=0.0,
            max_tokens=_MAX_TOKENS,
        )
        for question, answer in answers
    }
    model = open_model(grader.model, base_url=grader.base_url)
    probe([model])
    limiter = Limiter(grader.concurrency)
    meter = Meter(total=len(requests), limiter=limiter)
    right: dict[Pair, bool] = {}
    missing: dict[Pair, str] = {}
    with CallStore(store) as calls:
        guarded_model = guarded({"grader": model}, limiter=limiter, store=calls, meter=meter)["grader"]

        async def work(asked: tuple[Pair, ChatRequest]) -> None:
            pair, request = asked
            completion = await guarded_model.complete(request)
            found = read_grade(completion.text) if completion.outcome == "ok" else None
            if found is not None:
                right[pair] = found
            else:
                failure = " ".join((completion.error or completion.outcome).split())
                missing[pair] = UNREAD if completion.outcome == "ok" else failure
            meter.done += 1

        async def watched() -> None:
            batch = until_limit(meter, requests.items(), work, workers=grader.concurrency)
            try:
                async with watch(meter):
                    await until_stopped(batch, partial(drained, limiter), seconds=None)
            finally:
                await close(model)

        asyncio.run(watched())
    missing |= {pair: str(meter.stopped) for pair in requests.keys() - right.keys() - missing.keys()}
    return Grades(model=model.name, right=right, missing=missing)


def grade_results(results: Results, grader: Grader, *, watch: MeterDisplay = lambda meter: nullcontext()) -> int:
    """Grade the answers of an arm and store the grades with it for scores, comparisons and reports.

    An abstained answer is wrong without a call; a failed question has no grade. Returns the number of answers whose
    call failed; grading again retries them. UserError as in :func:`grade`, and if no answer was graded: then earlier
    grades are kept.
    """
    held = answers_of(results.transcripts())
    with_reference = {key: found for key, found in held.items() if found[0].answers}
    if with_reference:
        grades = grade(with_reference.values(), grader, companion_file(results.path, "grades.sqlite"), watch=watch)
    else:
        _log.warning("%s: no answer with a reference, so the grader is not called", results.path)
        grades = Grades(model=grader.model, right={}, missing={})
    pairs = {key: (question.id, answer) for key, (question, answer) in with_reference.items()}
    missing = Counter(grades.missing[pair] for pair in pairs.values() if pair in grades.missing)
    if with_reference and not grades.right:
        raise UserError(f"{grades.model} graded no answer: {missing.most_common(1)[0][0]}", file=results.path)
    if without := len(held) - len(with_reference):
        missing[_NO_REFERENCE] = without
    scores = {key: float(grades.right[pair]) for key, pair in pairs.items() if pair in grades.right}
    keep_scores(results.path, GRADER, held, command=grades.model, scores=scores, missing=missing)
    return sum(count for reason, count in missing.items() if reason not in (UNREAD, _NO_REFERENCE))


@cache
def _prompt() -> GradingPrompt:
    return read_yaml(Path(asset("prompts", "grading", "grade.yaml")), GradingPrompt)
