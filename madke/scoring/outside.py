"""Scores from a grading model and from external programs, stored in ``external.json`` next to the run.

The grade is the GPT-4 score of Wang et al. (MADKE, Appendix C), worded in ``prompts/grading/grade.yaml``. The grader
sees worked examples, the question, all references and the parsed answer, never the debate; its reply ends in
``[True]`` or ``[False]``. Quoted texts are put between tags, and a grade's marker inside them gets round brackets.
Calls are stored in ``grades.sqlite`` in a run's directory, or in ``NAME.grades.sqlite`` next to a predictions file.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, Field, FiniteFloat, RootModel

from madke._util.assets import asset
from madke._util.child_process import CommandScorer, ScorerItem
from madke._util.files import write_file
from madke._util.terminal import without_keys
from madke._util.yaml_file import read_json, read_yaml
from madke.core.chat import ChatRequest, Message, Purpose
from madke.core.errors import UserError
from madke.core.events import Watch, silent
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.parse import parse_grade, without_reasoning
from madke.engine.reading import without_tags
from madke.models.chat_models import close, open_model
from madke.models.endpoint import refuse_unreachable
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.store import CallStore
from madke.runs.directory import Key
from madke.runs.meter import Budget, Meter
from madke.runs.stopping import drained, until_limit, until_stopped
from madke.scoring.arms import ArmValues, Results, read_arm
from madke.scoring.metrics import GRADER, HUMAN, is_grader, question_of
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


GRADES = "grades.sqlite"

Known = dict[tuple[str, str], bool]
"""(grader, :func:`prompt_key`) -> whether the answer is right."""

_log = logging.getLogger(__name__)

EXTERNAL = "external.json"

Answers = Mapping[Key, tuple[Question, str]]
"""(question id, repeat) -> (question with its references, answer)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _AnswerScore:
    id: str
    repeat: int
    score: FiniteFloat


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    """The scores of an arm by one scorer: the value under its name in ``external.json``."""

    command: str
    """The scorer's command, or the grader's model."""
    answers_sha256: str
    scores: tuple[_AnswerScore, ...]
    missing: Mapping[str, int] = field(default_factory=dict)


class _File(RootModel[dict[str, _Scored]]):
    pass


def external_values(arm: Results) -> dict[str, dict[Key, float]]:
    """The external scores of an arm's answers, by scorer name or :data:`madke.scoring.debate_rows.GRADER`.

    Scores of answers that have changed since are ignored with a warning, and answers without a score cause a warning.
    For the grader, an abstained answer to a question with references is wrong.
    """
    kept = _read(arm.path)
    if not kept:
        return {}
    file, held = companion_file(arm.path, EXTERNAL), _fingerprint(answers_of(arm.transcripts()))
    found: dict[str, dict[Key, float]] = {}
    for name, scored in kept.items():
        if scored.answers_sha256 != held:
            by_people = "madke annotate read"
            option = "--grader MODEL" if is_grader(name) else f"--scorer {name}=..."
            option = by_people if name.startswith(HUMAN) else option
            warning = "%s: the scores by %r are ignored, because the run's answers changed; score them again with %s"
            _log.warning(warning, file, name, option)
            continue
        if scored.missing:
            reasons = ", ".join(f"{count} x {reason}" for reason, count in list(scored.missing.items())[:3])
            warning = "%s: %s has no score for %d answers, which are excluded from its mean: %s"
            _log.warning(warning, file, name, sum(scored.missing.values()), reasons)
        values = {(each.id, each.repeat): each.score for each in scored.scores}
        if is_grader(name):
            values |= {(t.id, t.repeat): 0.0 for t in arm.transcripts() if t.status == "abstained" and t.answers}
        if values:
            found[name] = values
    return found


def grader_of(arm: Results, name: str = GRADER) -> str | None:
    """The model that graded an arm under this name; None without such grades."""
    kept = _read(arm.path).get(name)
    return kept.command if kept else None


def arm_of(arm: Results) -> ArmValues:
    """All values of an arm, including those of graders and external scorers."""
    return read_arm(arm.name, arm.transcripts(), external_values(arm))


def require_answers(arms: Sequence[Results], *, references: bool = False) -> None:
    """UserError if no arm has an answer (with ``references``: an answer to a question with gold answers)."""
    for arm in arms:
        if any(t.status == "ok" and t.answer is not None and (t.answers or not references) for t in arm.transcripts()):
            return
    found = "no answer" if len(arms) == 1 else f"none of the {len(arms)} runs has an answer"
    message = f"{found} with a reference, so there is nothing to grade" if references else f"{found} to score"
    raise UserError(message, file=arms[0].path if len(arms) == 1 else None)


def score_outside(arm: Results, scorers: Mapping[str, CommandScorer]) -> None:
    """Score an arm's answers, one batch per scorer, and replace the stored scores; UserError if a scorer fails."""
    answers = answers_of(arm.transcripts())
    if not answers:
        _log.warning("%s: no answer, so no score by %s", arm.path, ", ".join(scorers))
    items = [
        ScorerItem(source=question.question, candidate=answer, references=question.answers)
        for question, answer in answers.values()
    ]
    found = {
        name: dict(zip(answers, scorer.scores(items), strict=True)) if items else {} for name, scorer in scorers.items()
    }
    for name, values in found.items():
        keep_scores(arm.path, name, answers, command=scorers[name].command, scores=values)


def keep_scores(
    path: Path,
    name: str,
    answers: Answers,
    *,
    command: str,
    scores: Mapping[Key, float],
    missing: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Store the scores of a run's or predictions file's answers; ``missing``: reason -> number of answers."""
    kept = _read(path)
    kept[name] = _Scored(
        command=without_keys(command),
        answers_sha256=_fingerprint(answers),
        scores=tuple(_AnswerScore(id=id_, repeat=n, score=value) for (id_, n), value in sorted(scores.items())),
        missing=dict(Counter(missing).most_common()),
    )
    write_file(companion_file(path, EXTERNAL), _File(kept).model_dump_json(indent=2).encode() + b"\n")


def companion_file(path: Path, name: str) -> Path:
    """The path of a file about an arm: in a run's directory, or next to a predictions file with its name as prefix."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def answers_of(transcripts: Iterable[Transcript]) -> dict[Key, tuple[Question, str]]:
    """The answers to score; abstained and failed debates have none."""
    found = {
        (t.id, t.repeat): (question_of(t), t.answer) for t in transcripts if t.status == "ok" and t.answer is not None
    }
    # Transcripts are in order of completion, which a replay may change.
    return dict(sorted(found.items(), key=lambda each: each[0]))


def _fingerprint(answers: Answers) -> str:
    """SHA-256 of the answers with their questions and references: everything that a scorer reads."""
    read = [[*key, question.question, answer, question.answers] for key, (question, answer) in answers.items()]
    return sha256(json.dumps(read).encode()).hexdigest()


def _read(path: Path) -> dict[str, _Scored]:
    file = companion_file(path, EXTERNAL)
    wrong = "not a file that `madke score` writes with --scorer or --grader; remove it and score again"
    return read_json(file, _File, wrong).root if file.exists() else {}


NO_GRADE = "no grade in the reply"
"""The reason for a missing grade if the grader replied."""
_NO_REFERENCE = "no reference"

_MAX_TOKENS = 1024

QuestionAnswer = tuple[str, str]
"""(question id, answer)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grader:
    """The grading model and its settings."""

    model: str
    """A model name as for ``--model``."""
    name: str = GRADER
    """The name of its grades: :data:`~madke.scoring.debate_rows.GRADER`, or for a second opinion ``grader:MODEL``."""
    base_url: str | None = None
    """The endpoint of an ``openai/`` or ``azure/`` model."""
    concurrency: int = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Grades:
    """The grades of some answers."""

    model: str
    right: Mapping[QuestionAnswer, bool]
    missing: Mapping[QuestionAnswer, str]
    """Answers without a grade -> reason: :data:`NO_GRADE`, or the error of the call."""


def grade(
    answers: Iterable[tuple[Question, str]],
    grader: Grader,
    store: Path,
    *,
    known: Known | None = None,
    budget: Budget | None = None,
    watch: Watch = lambda: nullcontext(silent),
) -> Grades:
    """Grade answers at temperature 0; each distinct prompt is asked once.

    Args:
        answers: Questions with their references, and an answer to each; question ids must be unique.
        grader: The grading model.
        store: The call store; created if missing. Failed calls are retried.
        known: Grades that need no call; new ones are added.
        budget: Pays for the calls; no call starts once its limit is reached.
        watch: Opens a listener for the calls, which gets :class:`madke.core.events.RunProgress` of prompts.

    Raises:
        UserError: The model or the store cannot be used, a task has no worked grading examples, or a cost limit lacks
            the price of the model.
        Interrupted: A signal stopped the grading; finished calls are stored.
    """
    if budget is not None:
        budget.check([grader.model])
    model = open_model(grader.model, base_url=grader.base_url)
    refuse_unreachable([model])
    known = {} if known is None else known
    prompts: dict[QuestionAnswer, tuple[str, str]] = {}
    requests: dict[tuple[str, str], ChatRequest] = {}
    for question, answer in answers:
        request = grading_request(question, answer)
        prompt = prompts[question.id, answer] = (model.name, prompt_key(request.messages))
        if prompt not in known:
            requests.setdefault(prompt, request)
    limits = Limits(grader.concurrency)
    meter = Meter(total=len(requests), limits=limits, budget=budget)
    failed: dict[tuple[str, str], str] = {}
    with CallStore(store) as calls, watch() as listen:
        piped = CallPipeline(limits=limits, store=calls, meter=meter).model(model)

        async def work(asked: tuple[tuple[str, str], ChatRequest]) -> None:
            prompt, request = asked
            completion = await piped.complete(request)
            found = read_grade(completion.text) if completion.outcome == "ok" else None
            if found is not None:
                known[prompt] = found
            else:
                failure = " ".join((completion.error or completion.outcome).split())
                failed[prompt] = NO_GRADE if completion.outcome == "ok" else failure
            meter.done += 1

        async def watched() -> None:
            batch = until_limit(meter, requests.items(), work, workers=grader.concurrency)
            try:
                async with meter.told_to(listen):
                    await until_stopped(batch, partial(drained, limits), seconds=None)
            finally:
                await close(model)

        asyncio.run(watched())
    right = {pair: known[prompt] for pair, prompt in prompts.items() if prompt in known}
    missing = {pair: failed.get(prompt, str(meter.stopped)) for pair, prompt in prompts.items() if prompt not in known}
    return Grades(model=model.name, right=right, missing=missing)


def grading_request(question: Question, answer: str) -> ChatRequest:
    """The call that grades an answer."""
    return ChatRequest(
        messages=_prompt().messages(question, answer),
        purpose=Purpose(question=question.id, stage="grade", agent="grader", round=1),
        temperature=0.0,
        max_tokens=_MAX_TOKENS,
    )


def graders_of(models: str, *, base_url: str | None = None, concurrency: int = 16) -> list[Grader]:
    """The graders of ``A,B``: the first one's grades are the score, the others are second opinions."""
    names = [name.strip() for name in models.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UserError(f"--grader {models!r}: expected MODEL,... with a different model each")
    return [
        Grader(model=each, name=f"{GRADER}:{each}" if n else GRADER, base_url=base_url, concurrency=concurrency)
        for n, each in enumerate(names)
    ]


def known_grades(arms: Iterable[Results], budget: Budget | None = None) -> Known:
    """All grades in the stores of some arms, and of the other arms of their experiments.

    A ``budget`` counts what they cost.
    """
    known: Known = {}
    for file in grade_stores(companion_file(arm.path, GRADES) for arm in arms):
        with CallStore(file) as calls:
            if budget is not None:
                budget.pay_stored(calls)
            for call in calls.recorded():
                found = read_grade(call.completion.text) if call.completion.outcome == "ok" else None
                if found is not None:
                    known[call.model, prompt_key(call.messages)] = found
    return known


def grade_results(
    results: Results,
    grader: Grader,
    *,
    known: Known | None = None,
    budget: Budget | None = None,
    watch: Watch = lambda: nullcontext(silent),
) -> int:
    """Grade the answers of an arm and store the grades with it for scores, comparisons and reports.

    An abstained answer is wrong without a call; a failed question has no grade. Returns the number of answers whose
    call failed; grading again retries them. UserError as in :func:`grade`, and if no answer was graded: then earlier
    grades are kept.
    """
    held = answers_of(results.transcripts())
    with_reference = {key: found for key, found in held.items() if found[0].answers}
    if with_reference:
        store = companion_file(results.path, GRADES)
        grades = grade(with_reference.values(), grader, store, known=known, budget=budget, watch=watch)
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
    keep_scores(results.path, grader.name, held, command=grades.model, scores=scores, missing=missing)
    return sum(count for reason, count in missing.items() if reason not in (NO_GRADE, _NO_REFERENCE))


@cache
def _prompt() -> GradingPrompt:
    return read_yaml(Path(asset("prompts", "grading", "grade.yaml")), GradingPrompt)


def prompt_key(messages: Sequence[Message]) -> str:
    """A hash of a prompt."""
    return sha256("\0".join(f"{each.role}\0{each.content}" for each in messages).encode()).hexdigest()


def grade_stores(stores: Iterable[Path]) -> list[Path]:
    """The existing ones of these stores, and those of all other arms of their experiments."""
    found: dict[Path, None] = {}
    for store in stores:
        found[store] = None
        arms = store.parent.parent
        if arms.name == "arms" and (arms.parent / "experiment.json").is_file():
            found |= dict.fromkeys(sorted(arms.glob(f"*/{GRADES}")))
    return [store for store in found if store.is_file()]
