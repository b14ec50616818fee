"""Scores from external scorers and graders: obtain them, store them in ``external.json``, and read them."""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import FiniteFloat, RootModel

from madke.command_scorer import CommandScorer, Item
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.files import write_file
from madke.runs.directory import Key
from madke.scoring.arms import ArmValues, Results, read_arm
from madke.scoring.debate_rows import GRADER
from madke.scoring.metrics import question_of
from madke.terminal import without_keys
from madke.yaml_file import read_json

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
            option = "--grader MODEL" if name == GRADER else f"--scorer {name}=..."
            warning = "%s: the scores by %r are ignored, because the run's answers changed; score them again with %s"
            _log.warning(warning, file, name, option)
            continue
        if scored.missing:
            reasons = ", ".join(f"{count} x {reason}" for reason, count in list(scored.missing.items())[:3])
            warning = "%s: %s has no score for %d answers, which are excluded from its mean: %s"
            _log.warning(warning, file, name, sum(scored.missing.values()), reasons)
        values = {(each.id, each.repeat): each.score for each in scored.scores}
        if name == GRADER:
            values |= {(t.id, t.repeat): 0.0 for t in arm.transcripts() if t.status == "abstained" and t.answers}
        if values:
            found[name] = values
    return found


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
        Item(source=question.question, candidate=answer, references=question.answers)
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
