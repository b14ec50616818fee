"""What scores, comparisons and reports read: a run, or answers from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.runs.config import RunConfig
from madke.runs.directory import read_config, read_transcripts


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The transcripts of one arm, wherever they come from."""

    name: str
    """How tables and plots call it."""
    path: Path
    """The run directory, or the file of predictions."""
    config: RunConfig | None
    """None for predictions from elsewhere."""
    transcripts: Callable[[], Iterator[Transcript]]
    """Reads them anew at each call, one after the other."""


def open_results(paths: Sequence[Path], questions: Sequence[Question] | None = None) -> list[Results]:
    """The results at some paths, in order, with names that tell them apart.

    Args:
        paths: Run directories.
        questions: What predictions from elsewhere answer.

    Raises:
        UserError: One of them is no run.
    """
    siblings = len({path.parent for path in paths}) == 1
    return [
        Results(
            name=(siblings and path.name) or str(path),
            path=path,
            config=read_config(path),
            transcripts=partial(read_transcripts, path),
        )
        for path in paths
    ]
