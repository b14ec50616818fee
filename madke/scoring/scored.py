"""Scores of runs and predictions: from their answers, from a grading model, and from external programs.

The grade is the GPT-4 score of Wang et al. (MADKE, Appendix C), worded in ``prompts/grading/grade.yaml``. The grader
sees worked examples, the question, all references and the parsed answer, never the debate; its reply ends in
``[True]`` or ``[False]``. Quoted texts are put between tags, and a grade's marker inside them gets round brackets.
Grades and other scores are kept in ``external.json``, the grader's calls in ``grades.sqlite``: in a run's directory, or
next to a predictions file with its name as prefix.
"""

import asyncio
import json
import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import FiniteFloat, RootModel, TypeAdapter, ValidationError

from madke._util.assets import asset
from madke._util.child_process import CommandScorer, ScorerItem
from madke._util.files import fingerprint, write_file
from madke._util.terminal import printable, without_keys
from madke._util.yaml_file import read_json
from madke._version import __version__
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.core.events import Watch, silent
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.parse.decisions import parse_grade
from madke.engine.parse.reply import without_reasoning
from madke.engine.reading import without_tags
from madke.models.chat_models import close, open_model
from madke.models.endpoint import refuse_unreachable
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.prices import Prices, billed_as, cost, price_of
from madke.models.store import CallStore
from madke.runs.directory import Key, is_being_written, recorded_calls, sessions_of
from madke.runs.meter import Budget, Meter
from madke.runs.runner import drain_calls, until_limit, until_stopped
from madke.scoring.arms import ArmValues, Results, open_results, read_arm
from madke.scoring.metrics import GRADER, HUMAN, is_grader, question_of
from madke.scoring.scores import Scores, Spending, score_with_values, scores_of
from madke.tasks.base import with_letters

_log = logging.getLogger(__name__)

_METRICS, _EXTERNAL, _GRADES = "metrics.json", "external.json", "grades.sqlite"
_SCORES = TypeAdapter(Scores)


# Scores of a run


def score_run(run: Path | str | Results, prices: Prices = MappingProxyType({})) -> tuple[Scores, ArmValues]:
    """Score a run, including stored external scores and grades, and write its ``metrics.json``.

    In a read-only directory the scores are not stored, with a warning; those of predictions from elsewhere and of
    corrected results never are. ``prices`` are for the cost of the run's own calls. Returns the scores, and the values
    behind them. UserError if the directory is no run or cannot be written.
    """
    (arm,) = open_results([run])
    # Before the transcripts are read, because a run may be appending to them.
    state = _state(arm.path) if arm.path.is_dir() else ""
    scores, values = scored_arm(arm, state)
    if prices and arm.path.is_dir():
        scores = replace(scores, spending=run_spending(arm.path, prices))
    if not arm.path.is_dir() or arm.corrected:
        return scores, values
    scores = replace(scores, scored=state)
    try:
        write_file(arm.path / _METRICS, _SCORES.dump_json(scores, indent=2) + b"\n")
    except UserError as error:
        if os.access(arm.path, os.W_OK):
            raise
        _log.warning("%s; the scores are not stored", error)
    return scores, values


def kept_scores(directory: Path, state: str = "") -> Scores | None:
    """The scores that :func:`score_run` stored, or None if they are missing or not of this (or the present) state."""
    try:
        scores = _SCORES.validate_json((directory / _METRICS).read_bytes())
    except (OSError, ValidationError):
        return None
    return scores if scores.scored == (state or _state(directory)) else None


def scored_arm(arm: Results, state: str = "") -> tuple[Scores, ArmValues]:
    """The scores of an arm, including stored external scores and costs, and the values behind them; writes nothing."""
    kept = kept_scores(arm.path, state) if arm.path.is_dir() and not arm.corrected else None
    scores, values = score_with_values(arm.name, arm.transcripts(), external_values(arm))
    spending = kept.spending if kept else None
    return replace(scores, spending=spending, incomplete=incomplete(arm, scores.transcripts)), values


def scores_by_dataset(arm: Results) -> dict[str | None, Scores]:
    """Dataset name -> the scores of its questions; the name is empty for questions without one."""
    external = external_values(arm)
    scores: dict[str | None, Scores] = {
        name: scores_of((t for t in arm.transcripts() if (t.dataset or "") == name), external)
        for name in sorted({transcript.dataset or "" for transcript in arm.transcripts()})
    }
    done = incomplete(arm, sum(each.transcripts for each in scores.values()))
    return {name: replace(each, incomplete=done) for name, each in scores.items()}


def incomplete(arm: Results, debates: int) -> str | None:
    """How many of a run's ``debates`` are done and why not all, or None for a complete run and for predictions."""
    total = len(arm.config.questions) * arm.config.repeats if arm.config else 0
    if debates >= total:
        return None
    sessions = sessions_of(arm.path)
    ended = str(sessions[-1].get("ended", "")) if sessions else ""
    done = f"{debates:,} of {total:,}"
    if is_being_written(arm.path):
        return f"{done} (still running)"
    # Only a killed command leaves no reason. The error of a model whose calls all fail is long.
    ends = {"": "killed", "interrupted": "interrupted", "an error": "stopped by an error"}
    why = f"stopped at {ended}" if ended.startswith("--") else ends.get(ended, f"stopped: {ended.partition(': ')[0]}")
    how = " with a higher limit" if ended in ("--max-cost", "--token-budget") else ""
    # "finished": a later command had fewer questions.
    text = f"{done} ({'' if ended == 'finished' else f'{why}; '}the same command{how} goes on)"
    return " ".join(printable(text).split())


def _state(directory: Path) -> str:
    """A hash of the transcripts, their external scores, the sessions and the version of madke."""
    files = [directory / "transcripts.jsonl", directory / _EXTERNAL]
    calls = json.dumps(list(sessions_of(directory))) if (directory / "run.json").is_file() else ""
    parts = [__version__, calls, *(fingerprint(file) if file.exists() else "" for file in files)]
    return sha256(" ".join(parts).encode()).hexdigest()


def run_spending(directory: Path, prices: Prices) -> Spending | None:
    """The cost of a run's own calls; None if no call is recorded."""
    costs: defaultdict[str, float] = defaultdict(float)
    unpriced: set[str] = set()
    calls = 0
    for call in recorded_calls(directory):
        calls += 1
        used = call.completion.usage
        if price := price_of(billed_as(call.model, call.completion.tier), prices):
            costs[call.purpose.stage] += cost(used, price)
        elif used.prompt_tokens + used.completion_tokens:
            unpriced.add(call.model)
    return Spending(cost=dict(costs), unpriced=tuple(sorted(unpriced))) if calls else None


# Scores by graders, programs and people, kept with an arm

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
    """The external scores of an arm's answers, by scorer name or :data:`madke.scoring.metrics.GRADER`.

    Scores of answers that have changed since are ignored with a warning, and answers without a score cause a warning.
    For the grader, an abstained answer to a question with references is wrong.
    """
    kept = _read(arm.path)
    if not kept:
        return {}
    file, answers = _beside(arm.path, _EXTERNAL), _fingerprint(answers_of(arm.transcripts()))
    by_name: dict[str, dict[Key, float]] = {}
    for name, scored in kept.items():
        if scored.answers_sha256 != answers:
            option = "--grader MODEL" if is_grader(name) else f"--scorer {name}=..."
            option = "madke annotate read" if name.startswith(HUMAN) else option
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
            by_name[name] = values
    return by_name


def grader_of(arm: Results, name: str = GRADER) -> str | None:
    """The model that graded an arm under this name; None without such grades."""
    kept = _read(arm.path).get(name)
    return kept.command if kept else None


def arm_of(arm: Results) -> ArmValues:
    """All values of an arm, including those of graders and external scorers."""
    return read_arm(arm.name, arm.transcripts(), external_values(arm))


def answers_of(transcripts: Iterable[Transcript]) -> dict[Key, tuple[Question, str]]:
    """The answers to score; abstained and failed debates have none."""
    answers = {
        (t.id, t.repeat): (question_of(t), t.answer) for t in transcripts if t.status == "ok" and t.answer is not None
    }
    # Transcripts are in order of completion, which a replay may change.
    return dict(sorted(answers.items(), key=lambda each: each[0]))


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
    write_file(_beside(path, _EXTERNAL), _File(kept).model_dump_json(indent=2).encode() + b"\n")


def _beside(path: Path, name: str) -> Path:
    """A file about an arm: in a run's directory, or next to a predictions file with its name as prefix."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def _fingerprint(answers: Answers) -> str:
    """SHA-256 of the answers with their questions and references: everything that a scorer reads."""
    read = [[*key, question.question, answer, question.answers] for key, (question, answer) in answers.items()]
    return sha256(json.dumps(read).encode()).hexdigest()


def _read(path: Path) -> dict[str, _Scored]:
    file = _beside(path, _EXTERNAL)
    wrong = "not a file that `madke score` writes with --scorer or --grader; remove it and score again"
    return read_json(file, _File, wrong).root if file.exists() else {}


def ask_outside(
    arms: Sequence[Results],
    graders: "Sequence[Grader]" = (),
    scorers: Mapping[str, CommandScorer | str] = MappingProxyType({}),
    *,
    budget: Budget | None = None,
    watch: Watch = lambda: nullcontext(silent),
) -> int:
    """Run external scorers and graders on the answers of arms, and store their scores next to the arms.

    Each distinct prompt is graded once, at temperature 0. An abstained answer is wrong without a call; a failed
    question has no grade. ``budget`` pays for the graders' calls: none starts once its limit is reached. ``watch``
    opens a listener for the calls on an arm. Returns the number of answers whose grading call failed; grading again
    retries them. UserError if there is nothing to score, a grader or scorer cannot be used, a task has no worked
    examples, a cost limit lacks the price of a grader, or no answer was graded: then earlier grades are kept.
    """
    answers = [answers_of(arm.transcripts()) for arm in arms] if scorers or graders else []
    one = arms[0].path if len(arms) == 1 else None
    none = "no answer" if one else f"none of the {len(arms)} runs has an answer"
    if answers and not any(answers):
        raise UserError(f"{none} to score", file=one)
    if graders and not any(question.answers for pairs in answers for question, _ in pairs.values()):
        raise UserError(f"{none} with a reference, so there is nothing to grade", file=one)
    commands = {name: CommandScorer(each) if isinstance(each, str) else each for name, each in scorers.items()}
    for arm, pairs in zip(arms, answers, strict=True) if commands else ():
        if not pairs:
            _log.warning("%s: no answer, so no score by %s", arm.path, ", ".join(commands))
        items = [ScorerItem(source=q.question, candidate=text, references=q.answers) for q, text in pairs.values()]
        scores = {name: scorer.scores(items) for name, scorer in commands.items()}
        for name, values in scores.items():  # only if all scorers have succeeded
            scored = dict(zip(pairs, values, strict=True))
            keep_scores(arm.path, name, pairs, command=commands[name].command, scores=scored)
    known = _known_grades(arms, budget) if graders else {}

    async def grade_all(grader: Grader) -> int:
        if budget is not None:
            budget.check([grader.model])
        model = open_model(grader.model, base_url=grader.base_url)
        try:
            refuse_unreachable([model])
            each = zip(arms, answers, strict=True)
            return sum([await _grade(arm, pairs, grader, model, known, budget, watch) for arm, pairs in each])
        finally:
            await close(model)

    return sum(asyncio.run(grade_all(grader)) for grader in graders)


# The grading model

_KnownGrades = dict[tuple[str, str], bool]
"""(grader, hash of the prompt) -> whether the answer is right."""
NO_GRADE = "no grade in the reply"
"""The reason for a missing grade if the grader replied."""
_MAX_TOKENS = 1024
_MARK = re.compile(r"\[\W{0,9}(?:true|false)\W{0,9}\]", re.IGNORECASE)


def grading_messages(question: Question, answer: str) -> tuple[Message, ...]:
    """The prompt for one answer; the part that all answers of a task share comes first."""
    wording = _wording()
    if question.task not in wording["examples"]:
        raise UserError(f"task {question.task!r}: the grading prompt has no examples for it")
    examples = (
        f"{_grading_text(each['question'], each.get('choices', ()), each['references'], each['answer'])}\n\n"
        f"{each['reasoning']}\n[{each['right']}]"
        for each in wording["examples"][question.task]
    )
    task = _grading_text(question.question, question.choices, question.answers, answer)
    parts = (wording["instruction"], "Worked examples:", *examples, "(end of the examples)", task, wording["closing"])
    return Message(role="system", content=wording["system"]), Message(role="user", content="\n\n".join(parts))


@cache
def _wording() -> Any:
    return yaml.safe_load(Path(asset("prompts", "grading", "grade.yaml")).read_text(encoding="utf-8"))


def _grading_text(question: str, choices: Sequence[str], references: Sequence[str], answer: str) -> str:
    def quoted(text: str, *, one_line: bool = True) -> str:
        text = without_tags(" ".join(text.split()) if one_line else text, ("task", "reference", "answer"))
        return _MARK.sub(lambda mark: mark.group().translate(str.maketrans("[]", "()")), text)

    task = [
        quoted(question, one_line=False),
        *(f"({letter}) {quoted(choice)}" for letter, choice in with_letters(tuple(choices))),
    ]
    golds = (f"<reference>{quoted(reference)}</reference>" for reference in references)
    return "\n".join(["<task>", *task, "</task>", *golds, f"<answer>{quoted(answer)}</answer>"])


def read_grade(reply: str) -> bool | None:
    """Parse the grade in a reply: True (right), False, or None if it contains no ``[True]`` or ``[False]``."""
    text = without_reasoning(reply)
    parsed = parse_grade(text)
    return parsed.value if parsed.span and _MARK.search(text[slice(*parsed.span)]) else None


def _grade_in(completion: Completion) -> bool | None:
    return read_grade(completion.text) if completion.outcome == "ok" else None


def _prompt_key(messages: Sequence[Message]) -> str:
    return sha256("\0".join(f"{each.role}\0{each.content}" for each in messages).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Grader:
    """The grading model and its settings."""

    model: str
    """A model name as for ``--model``."""
    name: str = GRADER
    """The name of its grades: :data:`~madke.scoring.metrics.GRADER`, or for a second opinion ``grader:MODEL``."""
    base_url: str | None = None
    """The endpoint of an ``openai/`` or ``azure/`` model."""
    concurrency: int = 16


def graders_of(models: str, *, base_url: str | None = None, concurrency: int = 16) -> list[Grader]:
    """The graders of ``A,B``: the first one's grades are the score, the others are second opinions."""
    names = [name.strip() for name in models.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UserError(f"--grader {models!r}: expected MODEL,... with a different model each")
    return [
        Grader(model=each, name=f"{GRADER}:{each}" if n else GRADER, base_url=base_url, concurrency=concurrency)
        for n, each in enumerate(names)
    ]


def _known_grades(arms: Iterable[Results], budget: Budget | None) -> _KnownGrades:
    """The grades of earlier commands; the budget counts what they cost."""
    known: _KnownGrades = {}
    for file in (_beside(arm.path, _GRADES) for arm in arms):
        if file.is_file():
            with CallStore(file) as calls:
                if budget is not None:
                    budget.pay_stored(calls)
                for call in calls.calls():
                    if (grade := _grade_in(call.completion)) is not None:
                        known[call.model, _prompt_key(call.messages)] = grade
    return known


async def _grade(
    arm: Results,
    answers: Answers,
    grader: Grader,
    model: ChatModel,
    known: _KnownGrades,
    budget: Budget | None,
    watch: Watch,
) -> int:
    """Grade the answers of an arm: see :func:`ask_outside`. New grades are added to ``known``."""
    prompts: dict[Key, tuple[str, str]] = {}
    requests: dict[tuple[str, str], ChatRequest] = {}
    for key, (question, answer) in answers.items():
        if question.answers:
            messages = grading_messages(question, answer)
            prompt = prompts[key] = (model.name, _prompt_key(messages))
            if prompt not in known:
                purpose = Purpose(question=question.id, stage="grade", agent="grader", round=1)
                request = ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=_MAX_TOKENS)
                requests.setdefault(prompt, request)
    if not prompts:
        _log.warning("%s: no answer with a reference, so the grader is not called", arm.path)
    limits = Limits(grader.concurrency)
    meter = Meter(total=len(requests), limits=limits, budget=budget)
    failed: dict[tuple[str, str], str] = {}
    with CallStore(_beside(arm.path, _GRADES)) as calls, watch() as listen:
        piped = CallPipeline(limits=limits, store=calls, meter=meter).model(model)

        async def work(item: tuple[tuple[str, str], ChatRequest]) -> None:
            prompt, request = item
            completion = await piped.complete(request)
            if (grade := _grade_in(completion)) is not None:
                known[prompt] = grade
            else:
                failure = " ".join((completion.error or completion.outcome).split())
                failed[prompt] = NO_GRADE if completion.outcome == "ok" else failure
            meter.done += 1

        batch = until_limit(meter, requests.items(), work, workers=grader.concurrency)
        async with meter.reporting_to(listen):
            await until_stopped(batch, partial(drain_calls, limits), seconds=None)
    scores = {key: float(known[prompt]) for key, prompt in prompts.items() if prompt in known}
    missing = Counter(failed.get(each, str(meter.stopped)) for each in prompts.values() if each not in known)
    if prompts and not scores:
        raise UserError(f"{model.name} graded no answer: {missing.most_common(1)[0][0]}", file=arm.path)
    failures = sum(count for reason, count in missing.items() if reason != NO_GRADE)
    if without := len(answers) - len(prompts):
        missing["no reference"] = without
    keep_scores(arm.path, grader.name, answers, command=model.name, scores=scores, missing=missing)
    return failures
