"""A run's directory: one writer, append-only transcripts, nothing half-written that a reader could see."""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from pydantic import ValidationError
from pydantic_core import from_json

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Transcript, to_json
from madke.core.transcript import from_json as transcript_from_json
from madke.files import atomic_write, file_lock, is_held, unexpected_files, unfinished
from madke.knowledge.pools import asking_folder
from madke.runs.options import RunOptions
from madke.runs.run_json import RunFiles, Session, begin_session, end_session, read_spec, run_files
from madke.runs.spec import RunSpec

Key = tuple[str, int]
"""Question id and repeat."""

_log = logging.getLogger(__name__)

_POOLS = "pools.jsonl"

_MADE_BEFORE = {"lock", _POOLS, asking_folder(_POOLS)}
"""What a run that was stopped before it wrote ``run.json`` may have left."""

_WHOLE = "run.json transcripts.jsonl unfinished.jsonl metrics.json external.json report.html"
_OURS = {_POOLS, *_WHOLE.split()}
"""What is written whole or not at all in a run directory."""


class OutcomeLine(NamedTuple):
    """What a line of the transcripts says of its question."""

    key: Key
    failed: bool
    degraded: bool

    def kept(self, options: RunOptions) -> bool:
        """Whether it stays when the run goes on. A degraded debate lost a debater, a verdict or a search."""
        return not (options.retry_failed if self.failed else self.degraded and options.retry_degraded)


class RunDirectory:
    """The directory of one run, open for writing. Use it as a context manager, then :meth:`begin`.

    Entering takes the lock, so that everything which is put into the directory, pools too, has one writer; it is
    refused where the directory is in use or holds something else. A directory that was made for a run which did not
    begin is removed again.

    Args:
        path: The directory; made if missing.
        replay: Make all transcripts anew from the calls that are stored; they take the old ones' place at the end.
    """

    def __init__(self, path: Path, *, replay: bool = False) -> None:
        self.path = path
        self.done: set[Key] = set()
        """Questions with an outcome."""
        self._target = path / "transcripts.jsonl"
        self._replayed = self._target.with_suffix(".jsonl.replay") if replay else None
        self._lost = 0
        self._file: IO[bytes] | None = None
        self._works = False
        self._held = ExitStack()

    @property
    def begun(self) -> bool:
        """Whether it holds a run."""
        return (self.path / "run.json").is_file()

    def pending(self, questions: Sequence[Question], repeats: int, options: RunOptions) -> list[tuple[Question, int]]:
        """Questions and repeats without an outcome, or to be done again. It can be called before :meth:`begin`."""
        done = set() if self._replayed else {line.key for line in self._lines if line and line.kept(options)}
        asked = ((question, repeat) for repeat in range(repeats) for question in questions)
        return [(question, repeat) for question, repeat in asked if (question.id, repeat) not in done]

    def begin(
        self, spec: RunSpec, endpoints: Mapping[str, Any], files: RunFiles, started: str, *, work: bool = True
    ) -> None:
        """Check that the directory is this run's, and begin a session in ``run.json``. Then comes :meth:`resume`.

        The run may have more or fewer questions than the directory knows. Without ``work`` nothing is written.
        """
        if self.begun:
            before = read_spec(self.path)
            _refuse_other(self.path, before, spec)
            held, asked = len(before.questions), len(spec.questions)
            if held != asked:
                then = "the others are debated too" if held < asked else "scores are of all of them"
                _log.warning("%s holds a run of %d questions, %d are asked for; %s", self.path, held, asked, then)
            spec = spec.extended(before)
        self._works = self._replayed is None and (work or not self.begun)
        if self._works:
            begin_session(self.path, spec, endpoints, files, started)

    def resume(self, options: RunOptions) -> None:
        """See which questions are done, and open the transcripts for more.

        A last line that a kill cut off is dropped; so are the questions that will be debated again.
        """
        if self._replayed is None:
            (self.path / "unfinished.jsonl").unlink(missing_ok=True)
            self._file = self._opened()
            self._recover(options)
            if not is_held(self._target, self._file):  # it was rewritten
                self._file.close()
                self._file = self._opened()
        else:
            self._had_outcome = {line.key for line in self._lines if line}
            self._answered = {line.key for line in self._lines if line and not line.failed}
            self._file = self._replayed.open("wb")

    def end(self, session: Session | None, left: Sequence[Key], endpoints: Mapping[str, Any]) -> None:
        """Write what this command did into ``run.json``; list questions without an outcome in ``unfinished.jsonl``."""
        if not self._works:
            return  # a replay asks nobody, and may be refused at the end
        self.check_lock()
        end_session(self.path, session, endpoints)
        if left:
            with atomic_write(self.path / "unfinished.jsonl") as file:
                file.writelines(json.dumps({"id": id_, "repeat": n}).encode() + b"\n" for id_, n in left)

    def write(self, transcript: Transcript) -> bool:
        """Append one finished question; it is with the operating system when this returns.

        Returns:
            Whether it is an outcome. A question that had none before, and whose calls a replay does not find, has none.
        """
        assert self._file is not None, "resume() comes first"
        self.check_lock()
        key = (transcript.id, transcript.repeat)
        if self._replayed is not None and transcript.status == "failed" and key not in self._had_outcome:
            return False
        try:
            self._file.write(to_json(transcript) + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self._target) from None
        self.done.add(key)
        if self._replayed is not None:
            self._lost += transcript.status == "failed" and key in self._answered
        return True

    def check_lock(self) -> None:
        """Refuse to go on where the lock was removed or replaced, so that another command may write here too."""
        if not is_held(self.path / "lock", self._lock):
            raise UserError(
                "its lock was removed or replaced while this command was writing; it stops, so that no two commands "
                "write here. Wait until no other one does; then the same command goes on from there",
                file=self.path,
            )

    def __enter__(self) -> Self:
        if self._replayed is not None and not (self.begun and run_files(self.path).calls.is_file()):
            raise UserError("holds no calls to replay: there is no calls.sqlite of a run", file=self.path)
        if not self.begun and (others := unexpected_files(self.path, _MADE_BEFORE, _OURS)):
            raise UserError(f"holds no run, but {others[0]!r}; choose another --out", file=self.path)
        self._made = not self.path.exists()
        self._lock = self._held.enter_context(file_lock(self.path / "lock", self._busy()))
        for part in unfinished(self.path, _OURS):
            part.unlink()
        return self

    def _busy(self) -> UserError:
        return UserError("another process is writing this run; wait for it or choose another --out", file=self.path)

    def _opened(self) -> IO[bytes]:
        """The transcripts, open and held too: nobody can remove that without removing what is in them."""
        file = self._target.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise self._busy() from None
        return file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            if self._file is not None:
                self._file.close()
            if self._replayed is not None and self._file is not None:
                self._end_replay(complete=kind is None)
            if self._made and [entry.name for entry in self.path.iterdir()] == ["lock"]:
                (self.path / "lock").unlink()
                self.path.rmdir()

    def _end_replay(self, *, complete: bool) -> None:
        assert self._replayed is not None
        self._lost += len(self._answered - self.done)
        if complete and not self._lost:
            self._replayed.replace(self._target)
            return
        self._replayed.unlink()
        if complete:
            raise UserError(
                f"the call store lacks calls of {self._lost} questions that have an outcome; "
                "the transcripts are left as they were",
                file=self.path,
            )

    @cached_property
    def _lines(self) -> list[OutcomeLine | None]:
        """What the transcripts were when the directory was opened."""
        return list(read_outcomes(self._target)) if self._target.exists() else []

    def _recover(self, options: RunOptions) -> None:
        """See what is done; rewrite the file, whole, where it holds lines that must go."""
        keep: list[bool] = []
        for line in self._lines:
            kept = line is not None and line.kept(options) and line.key not in self.done
            if line is not None and kept:
                self.done.add(line.key)
            keep.append(kept)
        if all(keep):
            return
        with self._target.open("rb") as old, atomic_write(self._target) as new:
            new.writelines(line for line, kept in zip(old, keep, strict=True) if kept)


def _refuse_other(path: Path, before: RunSpec, spec: RunSpec) -> None:
    old, new = before.questions.keys(), spec.questions.keys()
    if not (old <= new or new <= old):
        shared = f"{len(old)} questions, of which {len(old & new)} are among these {len(new)}"
        raise UserError(f"holds another run: {shared} (--limit, or the data); choose another --out", file=path)
    if different := before.differences(spec):
        more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
        raise UserError(f"holds another run: {different[0]}{more}; choose another --out", file=path)


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts of a run directory, in the order in which they finished.

    Raises:
        UserError: There is no such run, or a line other than a cut-off last one is no transcript.
    """
    file = path / "transcripts.jsonl"
    if not file.is_file():
        raise UserError("is not a run directory: there is no transcripts.jsonl in it", file=path)
    for number, line in _whole(file):
        if line is None:
            return
        try:
            yield transcript_from_json(line)
        except ValidationError:
            raise _no_transcript(file, number) from None


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


def _whole(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """(1-based number, line) of each line; None for a last one that was cut off."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, line if line.endswith(b"\n") else None


def _no_transcript(path: Path, number: int) -> UserError:
    return UserError("is not a transcript", file=path, line=number)
