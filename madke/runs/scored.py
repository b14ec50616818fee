"""The scores of a run directory: what its transcripts say, and what scorers outside said of its answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from madke.core.errors import UserError
from madke.files import replacing
from madke.runs.directory import Key, read_transcripts
from madke.scoring.external import CommandScorer, Item, without_keys
from madke.scoring.rows import over_questions
from madke.scoring.scores import Scores, score, scores_to_json
from madke.scoring.statistics import Estimate

_log = logging.getLogger(__name__)

_EXTERNAL = "external.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class _AnswerScore:
    id: str
    repeat: int
    score: FiniteFloat


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    """What one scorer made of a run: the value of its name in ``external.json``."""

    command: str
    answers_sha256: str
    """Of the answers that were scored, with their questions and references; see :func:`_fingerprint`."""
    scores: tuple[_AnswerScore, ...]

    def mean(self) -> Estimate | None:
        rows: dict[str, list[dict[str, float]]] = {}
        for answer in self.scores:
            rows.setdefault(answer.id, []).append({"score": answer.score})
        return over_questions(rows, "score")


def score_run(directory: Path, scorers: Mapping[str, CommandScorer] | None = None) -> Scores:
    """Score a run from its transcripts and write its ``metrics.json``.

    Args:
        directory: The run.
        scorers: Name -> a scorer outside, which gets all answers of the run in one batch. What it says is kept in the
            run's ``external.json``, in place of what a scorer of that name said before. It is written when all of
            them are done.

    Raises:
        UserError: The directory is no run, or cannot be written to; a scorer failed.
    """
    if scorers:
        _score_outside(directory, scorers)
    scores = scores_of(directory)
    with replacing(directory / "metrics.json") as file:
        file.write(scores_to_json(scores))
    return scores


def scores_of(directory: Path) -> Scores:
    """The scores of a run, with those of its ``external.json`` among the metrics; nothing is written.

    What a scorer said of other answers than the run holds now is left out, and a warning says so.

    Raises:
        UserError: The directory is no run, or its ``external.json`` is not one of ours.
    """
    scores = score(read_transcripts(directory))
    kept = _read(directory)
    if not kept:
        return scores
    held = _fingerprint(_answers(directory))
    metrics = dict(scores.metrics)
    for name, scored in kept.items():
        if scored.answers_sha256 != held:
            _log.warning(
                "%s: the scores of %r are left out: the run's answers have changed; --scorer %s=... scores them anew",
                directory / _EXTERNAL,
                name,
                name,
            )
        elif mean := scored.mean():
            metrics.setdefault(name, mean)
    return replace(scores, metrics=metrics)


def _score_outside(directory: Path, scorers: Mapping[str, CommandScorer]) -> None:
    answers = _answers(directory)
    if not answers:
        raise UserError("holds no answer, so there is nothing for a scorer", file=directory)
    kept = _read(directory)
    for name, scorer in scorers.items():
        found = zip(answers, scorer.scores(list(answers.values())), strict=True)
        kept[name] = _Scored(
            command=without_keys(scorer.command),
            answers_sha256=_fingerprint(answers),
            scores=tuple(_AnswerScore(id=id_, repeat=repeat, score=value) for (id_, repeat), value in found),
        )
    with replacing(directory / _EXTERNAL) as file:
        file.write(_adapter().dump_json(kept, indent=2) + b"\n")


def _answers(directory: Path) -> dict[Key, Item]:
    """What there is to score. Abstained and failed debates gave no answer, so they are not among it."""

    def found() -> Iterator[tuple[Key, Item]]:
        for transcript in read_transcripts(directory):
            if transcript.status == "ok" and transcript.answer is not None:
                yield (
                    (transcript.id, transcript.repeat),
                    Item(source=transcript.question, candidate=transcript.answer, references=transcript.answers),
                )

    # Transcripts stand in the order in which they finished, which a replay may change.
    return dict(sorted(found(), key=lambda each: each[0]))


def _fingerprint(answers: Mapping[Key, Item]) -> str:
    """SHA-256 of the answers, by question and repeat, with all that a scorer reads."""
    return sha256(json.dumps([[*key, *astuple(item)] for key, item in answers.items()]).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[dict[str, _Scored]]:
    return TypeAdapter(dict[str, _Scored])


def _read(directory: Path) -> dict[str, _Scored]:
    """Scorer's name -> what is kept of it; empty where nothing was scored outside."""
    file = directory / _EXTERNAL
    try:
        return _adapter().validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValidationError:
        raise UserError(
            "does not hold what `madke score --scorer` writes; remove it and score again", file=file
        ) from None
