"""The scores of an arm: what its transcripts say, and what scorers outside and a grader said of its answers."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.files import fingerprint, replacing
from madke.llm.prices import Prices
from madke.runs.external import CommandScorer, Item
from madke.runs.results import Results
from madke.runs.run_json import sessions_of
from madke.runs.spending import run_spending
from madke.runs.transcripts import Key, read_transcripts
from madke.scoring.metrics import question_of
from madke.scoring.rows import GRADER
from madke.scoring.scores import Scores, score, scores_from_json, scores_to_json
from madke.terminal import without_keys
from madke.versions import versions

_log = logging.getLogger(__name__)

_METRICS = "metrics.json"
_EXTERNAL = "external.json"

_REASONS = 3
"""How many reasons a warning names, the commonest first."""

Values = Mapping[Key, float]
"""A value for each answer, by question id and repeat."""

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
    """Of all answers, with their questions and references; see :func:`_fingerprint`."""
    scores: tuple[_AnswerScore, ...]
    missing: Mapping[str, int] = field(default_factory=dict)
    """Why answers have no score -> how many."""


def score_run(directory: Path, *, prices: Prices = MappingProxyType({}), tokenizer: str | None = None) -> Scores:
    """Score a run, as :func:`scores_of`, and write its ``metrics.json``, with what its calls cost and share.

    The scores of a directory that is read-only are not kept; a warning says so.

    Reading all prompts takes long, so what was counted of these transcripts' calls is kept unless prices or a tokenizer
    are given.

    Args:
        directory: The run.
        prices: For :func:`madke.runs.spending.run_spending`, as ``tokenizer``.
        tokenizer: See there.

    Raises:
        UserError: As :func:`scores_of` and :func:`madke.runs.spending.run_spending`; or the directory cannot be written
            to.
    """
    state = _state(directory)  # before the transcripts are read: a run may be adding to them
    kept = None if prices or tokenizer is not None else _kept(directory, state)
    scores = replace(
        score(read_transcripts(directory), external_values(directory)),
        spending=(kept and kept.spending) or run_spending(directory, prices, tokenizer),
        scored=state,
    )
    try:
        with replacing(directory / _METRICS) as file:
            file.write(scores_to_json(scores))
    except UserError as error:
        if os.access(directory, os.W_OK):
            raise
        _log.warning("%s; the scores are not kept", error)
    return scores


def kept_scores(directory: Path) -> Scores | None:
    """What :func:`score_run` wrote, if it is of what the directory holds now; else None.

    Raises:
        UserError: The transcripts cannot be read.
    """
    return _kept(directory, _state(directory))


def _kept(directory: Path, state: str) -> Scores | None:
    try:
        scores = scores_from_json((directory / _METRICS).read_bytes())
    except (OSError, ValidationError):
        return None
    return scores if scores.scored == state else None


def _state(directory: Path) -> str:
    """Changes with the transcripts, with what was said of them outside, with the calls made, and with this program."""
    files = [directory / "transcripts.jsonl", directory / _EXTERNAL]
    calls = json.dumps(list(sessions_of(directory))) if (directory / "run.json").is_file() else ""
    parts = [versions()["madke"], calls, *(fingerprint(file) if file.exists() else "" for file in files)]
    return sha256(" ".join(parts).encode()).hexdigest()


def scores_of(arm: Path | Results) -> Scores:
    """The scores of an arm, with what was kept from outside among the metrics; nothing is written.

    What its calls cost and share is what :func:`score_run` wrote, where that is of these transcripts.

    Args:
        arm: A run directory, or results from anywhere.

    Raises:
        UserError: The directory is no run, or its ``external.json`` is not one of ours.
    """
    transcripts, path = _opened(arm)
    kept = kept_scores(path) if path.is_dir() else None
    return replace(score(transcripts(), external_values(arm)), spending=kept.spending if kept else None)


def scores_by_dataset(arm: Path | Results) -> dict[str, Scores]:
    """The same for each dataset that the arm's questions come from, by name; those of no name have the empty one.

    Raises:
        UserError: As for :func:`scores_of`.
    """
    transcripts, _ = _opened(arm)
    outside = external_values(arm)
    datasets = {transcript.id: transcript.dataset or "" for transcript in transcripts()}
    return {
        name: score((t for t in transcripts() if datasets[t.id] == name), outside)
        for name in sorted(set(datasets.values()))
    }


def external_values(arm: Path | Results) -> dict[str, dict[Key, float]]:
    """What was said of an arm's answers outside: by the name of a scorer, or :data:`madke.scoring.rows.GRADER`.

    What was said of other answers than the arm holds now is left out, and a warning says so; another says how many
    answers have no value. To the grader an abstained answer to a question with references is wrong.

    Args:
        arm: A run directory, or results from anywhere.

    Raises:
        UserError: Its ``external.json`` is not one of ours.
    """
    transcripts, path = _opened(arm)
    kept = _read(path)
    if not kept:
        return {}
    held = _fingerprint(answers_of(transcripts()))
    found: dict[str, dict[Key, float]] = {}
    for name, scored in kept.items():
        option = "--grader MODEL" if name == GRADER else f"--scorer {name}=..."
        if scored.answers_sha256 != held:
            _log.warning(
                "%s: the scores of %r are left out: the run's answers have changed; %s scores them anew",
                beside(path, _EXTERNAL),
                name,
                option,
            )
            continue
        if scored.missing:
            _log.warning(
                "%s: %s has no score for %d answers, which are left out of its mean: %s",
                beside(path, _EXTERNAL),
                name,
                sum(scored.missing.values()),
                ", ".join(f"{count} x {reason}" for reason, count in list(scored.missing.items())[:_REASONS]),
            )
        values = {(each.id, each.repeat): each.score for each in scored.scores}
        if name == GRADER:
            values |= {(t.id, t.repeat): 0.0 for t in transcripts() if t.status == "abstained" and t.answers}
        if values:
            found[name] = values
    return found


def require_answers(arms: Sequence[Results], *, references: bool = False) -> None:
    """Refuse arms of which none holds an answer, before scorers outside start.

    Args:
        arms: One alone may have abstained throughout.
        references: Only answers to questions with gold answers count.

    Raises:
        UserError: There is no answer.
    """
    for arm in arms:
        if any(t.status == "ok" and t.answer is not None and (t.answers or not references) for t in arm.transcripts()):
            return
    who = "holds" if len(arms) == 1 else f"and {len(arms) - 1} more hold"
    what = "answer with a reference, so there is nothing for a grader" if references else ""
    raise UserError(f"{who} no {what or 'answer, so there is nothing for a scorer'}", file=arms[0].path)


def score_outside(arm: Results, scorers: Mapping[str, CommandScorer]) -> None:
    """Have scorers outside score the answers of an arm, each all of them in one batch, and keep what they say.

    It takes the place of what a scorer of that name said before, when all of them are done. An arm without an answer
    has no such score, and a warning says so.

    Raises:
        UserError: A scorer failed, or what it said cannot be written.
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
    scores: Values,
    missing: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Keep what a scorer said of an arm's answers: in a run's ``external.json``, or beside a file of predictions.

    Args:
        path: The run directory, or the file.
        name: The scorer's, under which its mean is reported.
        answers: All that the arm held when it was scored.
        command: What made the scores.
        scores: A value for each answer that has one.
        missing: Why answers have none -> how many.
    """
    kept = _read(path)
    kept[name] = _Scored(
        command=without_keys(command),
        answers_sha256=_fingerprint(answers),
        scores=tuple(_AnswerScore(id=id_, repeat=n, score=value) for (id_, n), value in sorted(scores.items())),
        missing=dict(Counter(missing).most_common()),
    )
    with replacing(beside(path, _EXTERNAL)) as file:
        file.write(_adapter().dump_json(kept, indent=2) + b"\n")


def beside(path: Path, name: str) -> Path:
    """Where a file about an arm stands: in a run's directory, or beside a file of predictions, under its name too."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def answers_of(transcripts: Iterable[Transcript]) -> dict[Key, tuple[Question, str]]:
    """What there is to score. Abstained and failed debates gave no answer, so they are not among it."""
    found = {
        (t.id, t.repeat): (question_of(t), t.answer) for t in transcripts if t.status == "ok" and t.answer is not None
    }
    # Transcripts stand in the order in which they finished, which a replay may change.
    return dict(sorted(found.items(), key=lambda each: each[0]))


def _opened(arm: Path | Results) -> tuple[Callable[[], Iterator[Transcript]], Path]:
    if isinstance(arm, Results):
        return arm.transcripts, arm.path
    return partial(read_transcripts, arm), arm


def _fingerprint(answers: Answers) -> str:
    """SHA-256 of the answers, by question and repeat, with all that a scorer reads."""
    read = [[*key, question.question, answer, question.answers] for key, (question, answer) in answers.items()]
    return sha256(json.dumps(read).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[dict[str, _Scored]]:
    return TypeAdapter(dict[str, _Scored])


def _read(path: Path) -> dict[str, _Scored]:
    """Scorer's name -> what is kept of it; empty where nothing was scored outside."""
    file = beside(path, _EXTERNAL)
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
