"""What scorers outside and graders said of an arm's answers: asked for, kept in ``external.json``, and read again."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from madke.command_scorer import CommandScorer, Item
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.files import atomic_write
from madke.runs.directory import Key
from madke.scoring.arms import ArmValues, Results, read_arm
from madke.scoring.debate_rows import GRADER
from madke.scoring.metrics import question_of
from madke.terminal import without_keys

_log = logging.getLogger(__name__)

EXTERNAL = "external.json"

Answers = Mapping[Key, tuple[Question, str]]
"""What was answered, with its references, and the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _AnswerScore:
    id: str
    repeat: int
    score: FiniteFloat


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    """What one scorer made of an arm: the value of its name in ``external.json``."""

    command: str
    """The scorer's command, or the grader's model."""
    answers_sha256: str
    scores: tuple[_AnswerScore, ...]
    missing: Mapping[str, int] = field(default_factory=dict)


def external_values(arm: Results) -> dict[str, dict[Key, float]]:
    """What was said of an arm's answers outside: by the name of a scorer, or :data:`madke.scoring.debate_rows.GRADER`.

    What was said of other answers than the arm holds now is left out; warnings tell of it, and of answers without a
    value. To the grader an abstained answer to a question with references is wrong.
    """
    kept = _read(arm.path)
    if not kept:
        return {}
    file, held = beside(arm.path, EXTERNAL), _fingerprint(answers_of(arm.transcripts()))
    found: dict[str, dict[Key, float]] = {}
    for name, scored in kept.items():
        if scored.answers_sha256 != held:
            option = "--grader MODEL" if name == GRADER else f"--scorer {name}=..."
            said = "%s: the scores of %r are left out: the run's answers have changed; %s scores them anew"
            _log.warning(said, file, name, option)
            continue
        if scored.missing:
            reasons = ", ".join(f"{count} x {reason}" for reason, count in list(scored.missing.items())[:3])
            said = "%s: %s has no score for %d answers, which are left out of its mean: %s"
            _log.warning(said, file, name, sum(scored.missing.values()), reasons)
        values = {(each.id, each.repeat): each.score for each in scored.scores}
        if name == GRADER:
            values |= {(t.id, t.repeat): 0.0 for t in arm.transcripts() if t.status == "abstained" and t.answers}
        if values:
            found[name] = values
    return found


def arm_of(arm: Results) -> ArmValues:
    """All values of an arm, those of graders and scorers outside among them."""
    return read_arm(arm.name, arm.transcripts(), external_values(arm))


def require_answers(arms: Sequence[Results], *, references: bool = False) -> None:
    """Refuse arms of which none holds an answer (with ``references``: to a question with gold answers)."""
    for arm in arms:
        if any(t.status == "ok" and t.answer is not None and (t.answers or not references) for t in arm.transcripts()):
            return
    who = "holds" if len(arms) == 1 else f"and {len(arms) - 1} more hold"
    what = "answer with a reference, so there is nothing for a grader" if references else ""
    raise UserError(f"{who} no {what or 'answer, so there is nothing for a scorer'}", file=arms[0].path)


def score_outside(arm: Results, scorers: Mapping[str, CommandScorer]) -> None:
    """Have scorers outside score the answers of an arm, each all of them in one batch, and keep what they say.

    It takes the place of what a scorer of that name said before, when all of them are done. UserError where one failed.
    """
    answers = answers_of(arm.transcripts())
    if not answers:
        _log.warning("%s: holds no answer, so it has no score of %s", arm.path, ", ".join(scorers))
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
    """Keep what a scorer, ``command``, said of all the answers that the run, or file of predictions, at ``path`` held.

    ``missing``: why answers have no score -> how many.
    """
    kept = _read(path)
    kept[name] = _Scored(
        command=without_keys(command),
        answers_sha256=_fingerprint(answers),
        scores=tuple(_AnswerScore(id=id_, repeat=n, score=value) for (id_, n), value in sorted(scores.items())),
        missing=dict(Counter(missing).most_common()),
    )
    with atomic_write(beside(path, EXTERNAL)) as file:
        file.write(_adapter().dump_json(kept, indent=2) + b"\n")


def beside(path: Path, name: str) -> Path:
    """Where a file about an arm stands: in a run's directory, or beside a file of predictions, under its name too."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def answers_of(transcripts: Iterable[Transcript]) -> dict[Key, tuple[Question, str]]:
    """What there is to score: abstained and failed debates gave no answer."""
    found = {
        (t.id, t.repeat): (question_of(t), t.answer) for t in transcripts if t.status == "ok" and t.answer is not None
    }
    # Transcripts stand in the order in which they finished, which a replay may change.
    return dict(sorted(found.items(), key=lambda each: each[0]))


def _fingerprint(answers: Answers) -> str:
    """SHA-256 of the answers, by question and repeat, with all that a scorer reads."""
    read = [[*key, question.question, answer, question.answers] for key, (question, answer) in answers.items()]
    return sha256(json.dumps(read).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[dict[str, _Scored]]:
    return TypeAdapter(dict[str, _Scored])


def _read(path: Path) -> dict[str, _Scored]:
    file = beside(path, EXTERNAL)
    try:
        return _adapter().validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValidationError:
        raise UserError(
            "does not hold what `madke score` writes with --scorer and --grader; remove it and score again", file=file
        ) from None
