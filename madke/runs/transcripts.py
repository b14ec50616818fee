"""``transcripts.jsonl``: one line a question, in the order in which they finished."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.core.transcript import from_json as transcript_from_json
from madke.runs.options import RunOptions

Key = tuple[str, int]
"""Question id and repeat."""


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts of a run directory, in the order in which they finished.

    Raises:
        UserError: There is no such run, or a line other than a cut-off last one is no transcript.
    """
    file = path / "transcripts.jsonl"
    if not file.is_file():
        raise UserError("is not a run directory: there is no transcripts.jsonl in it", file=path)
    yield from _transcripts(file)


class OutcomeLine(NamedTuple):
    """What a line of the transcripts says of its question."""

    key: Key
    failed: bool
    degraded: bool

    def kept(self, options: RunOptions) -> bool:
        """Whether it stays when the run goes on. A degraded debate lost a debater, a verdict or a search."""
        return not (options.retry_failed if self.failed else self.degraded and options.retry_degraded)


def read_outcomes(path: Path) -> Iterator[OutcomeLine | None]:
    """Each line's outcome, without a look at the rest of it; None for a last line that was cut off."""
    for number, line in _whole(path):
        if line is None:
            yield None
            return
        try:
            record = from_json(line)
            key = (str(record["id"]), int(record["repeat"]))
            yield OutcomeLine(key, record["status"] == "failed", record.get("degraded") is True)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise _no_transcript(path, number) from None


def _transcripts(path: Path) -> Iterator[Transcript]:
    for number, line in _whole(path):
        if line is None:
            return
        try:
            yield transcript_from_json(line)
        except ValidationError:
            raise _no_transcript(path, number) from None


def _whole(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """(1-based number, line) of each line; None for a last one that was cut off."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, line if line.endswith(b"\n") else None


def _no_transcript(path: Path, number: int) -> UserError:
    return UserError("is not a transcript", file=path, line=number)
