"""What scores, comparisons and reports read: a run, or answers from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.runs.predictions import read_predictions
from madke.runs.run_json import read_spec
from madke.runs.spec import RunSpec
from madke.runs.transcripts import read_transcripts


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The transcripts of one arm, wherever they come from."""

    name: str
    """How tables and plots call it."""
    path: Path
    """The run directory, or the file of predictions."""
    config: RunSpec | None
    """None for predictions from elsewhere."""
    transcripts: Callable[[], Iterator[Transcript]]
    """All of them from the first, one after the other, at each call. A run's are read anew."""


def open_results(paths: Sequence[Path], questions: Sequence[Question] | None = None) -> list[Results]:
    """The results at some paths, in order, with names that tell them apart.

    A path that is given twice, however it is written, counts once.

    Args:
        paths: Run directories, and files of predictions (see :func:`madke.runs.predictions.read_predictions`).
        questions: What the predictions answer; None where all paths are runs.

    Raises:
        UserError: A path is neither; there are predictions and no questions, or questions and no predictions; or a
            line of predictions is wrong.
    """
    once: dict[str, Path] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    paths = list(once.values())
    siblings = len({path.parent for path in paths}) == 1
    if questions is not None and not any(path.is_file() for path in paths):
        raise UserError("--data is for files of predictions, and there is none among the runs; leave it out")
    return [_opened(path, (siblings and path.name) or str(path), questions) for path in paths]


def _opened(path: Path, name: str, questions: Sequence[Question] | None) -> Results:
    if not path.is_file():
        if not (path / "run.json").is_file():
            raise UserError("is not a run directory: there is no run.json in it", file=path)
        return Results(name=name, path=path, config=read_spec(path), transcripts=partial(read_transcripts, path))
    if questions is None:
        raise UserError("is a file, not a run directory; for predictions name the questions with --data", file=path)
    predictions = read_predictions(path, questions)
    return Results(name=name, path=path, config=None, transcripts=lambda: iter(predictions))
