"""Grades of answers by a language model: the calls, kept in a store of their own, and what came of them.

The store is ``grades.sqlite`` in a run's directory, ``NAME.grades.sqlite`` beside a file of predictions. Grading
again asks only for what it lacks; another model or another grading prompt is another call.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from madke.assets import asset
from madke.concurrency import together
from madke.core.chat import ChatRequest, Purpose
from madke.core.errors import UserError
from madke.core.question import Question
from madke.llm import CallStore, Limiter, close, open_model
from madke.runs.cast import guarded
from madke.runs.job import Watch
from madke.runs.meter import Meter
from madke.runs.results import Results
from madke.runs.scored import answers_of, beside, keep_scores
from madke.runs.stopping import drained, until_stopped
from madke.scoring.grader import GradingPrompt, read_grade
from madke.scoring.rows import GRADER
from madke.yaml_file import read_yaml

_log = logging.getLogger(__name__)

UNREAD = "no grade in the reply"
"""Why an answer has no grade although the grader replied."""
_NO_REFERENCE = "no reference"

_MAX_TOKENS = 1024
"""Of a grader's reply; what the debaters' is by default."""

Pair = tuple[str, str]
"""Question id and answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grader:
    """Who grades."""

    model: str
    """As ``--model`` takes it."""
    base_url: str | None = None
    """The endpoint of an ``openai/`` or ``azure/`` model."""
    concurrency: int = 16
    """Calls under way at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grades:
    """What a grader said of some answers."""

    model: str
    """The model's name."""
    right: Mapping[Pair, bool]
    missing: Mapping[Pair, str]
    """Answers without a grade -> why: :data:`UNREAD`, or how the call failed."""


def grade(
    answers: Iterable[tuple[Question, str]],
    grader: Grader,
    store: Path,
    *,
    watch: Watch = lambda meter: nullcontext(),
) -> Grades:
    """Grade answers at temperature 0, equal ones to one question once.

    Args:
        answers: Questions with their references, and an answer to each; ids tell questions apart.
        grader: Who grades.
        store: The call store; made if missing. Only replies count as known: a call that failed is made again.
        watch: Shows a meter while calls go on; its questions are answers here.

    Raises:
        UserError: The model or the store cannot be used, or a task has no worked examples of grading.
        Interrupted: A signal stopped it; all that had ended is kept.
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
    limiter = Limiter(grader.concurrency)
    meter = Meter(total=len(requests), limiter=limiter)
    right: dict[Pair, bool] = {}
    missing: dict[Pair, str] = {}
    with CallStore(store) as calls:
        guarded_model = guarded({"grader": model}, limiter=limiter, store=calls, meter=meter)["grader"]
        # One iterator shared by all workers: each takes the next answer when it is free.
        left = iter(requests.items())

        async def work() -> None:
            for pair, request in left:
                if meter.stopped:
                    missing[pair] = meter.stopped
                    continue
                completion = await guarded_model.complete(request)
                found = read_grade(completion.text) if completion.outcome == "ok" else None
                if found is not None:
                    right[pair] = found
                else:
                    failure = " ".join((completion.error or completion.outcome).split())
                    missing[pair] = UNREAD if completion.outcome == "ok" else failure
                meter.done += 1

        async def batch() -> None:
            await together(work() for _ in range(grader.concurrency))

        async def watched() -> None:
            try:
                async with watch(meter):
                    await until_stopped(batch(), partial(drained, limiter), seconds=None)
            finally:
                await close(model)

        asyncio.run(watched())
    return Grades(model=model.name, right=right, missing=missing)


def grade_results(
    results: Results,
    grader: Grader,
    *,
    watch: Watch = lambda meter: nullcontext(),
) -> int:
    """Grade the answers of an arm and keep the grades with it, where scores, comparisons and reports find them.

    An abstained answer is wrong without a call, and so is an arm of nothing else, of which a warning tells; a failed
    question has no grade.

    Returns:
        How many answers have no grade because their call failed: grading again asks for them again.

    Raises:
        UserError: As :func:`grade`; or not one of the answers got a grade: then what was kept before is left as it is.
    """
    held = answers_of(results.transcripts())
    with_reference = {key: found for key, found in held.items() if found[0].answers}
    if with_reference:
        grades = grade(with_reference.values(), grader, beside(results.path, "grades.sqlite"), watch=watch)
    else:
        _log.warning("%s: holds no answer with a reference, so nothing is asked of the grader", results.path)
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
