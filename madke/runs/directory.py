"""The directory of a run: one writer, append-only transcripts, and no partly written files visible to readers."""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, TypeVar
from zlib import crc32

import pydantic_core

from madke._util.files import (
    atomic_write,
    file_lock,
    is_held,
    is_written,
    refuse_special,
    unexpected_files,
    unfinished_parts,
    writing_here,
)
from madke.core.chat import ChatModel
from madke.core.errors import UserError, count_of
from madke.core.question import Question
from madke.core.transcript import Transcript, from_json, to_json
from madke.models.endpoint import endpoints_of, start_from
from madke.retrieval.pools.building import asking_folder
from madke.retrieval.pools.pool_file import MORE
from madke.runs.record import (
    RunFiles,
    RunRecord,
    begin_session,
    end_session,
    endpoints_before,
    note_endpoints,
    read_run,
    run_files,
    update_run,
)
from madke.runs.request import RunOptions

T = TypeVar("T")

Key = tuple[str, int]
"""Question id and repeat."""

_log = logging.getLogger(__name__)

_EARLY_FILES = {"lock", "pools.jsonl", MORE, asking_folder(MORE)}
_EARLY_FILES |= {f"calls.sqlite{end}" for end in ("", "-wal", "-shm")}
"""Files that a run may leave if it is stopped before it writes ``run.json``."""

_RUN_FILES = {
    *(MORE, "pools.jsonl", "run.json", "transcripts.jsonl"),
    *("unfinished.jsonl", "metrics.json", "external.json", "report.html"),
}
"""Files that are written atomically in a run directory."""


class OutcomeLine(NamedTuple):
    """The outcome of one question, read from its transcript line."""

    key: Key
    failed: bool
    degraded: bool
    """Whether the debate lost a debater, a verdict or a search."""

    def kept(self, options: RunOptions, *, retry: bool) -> bool:
        """Whether to keep it when the run resumes."""
        return not (retry and (self.failed or (self.degraded and options.retry_degraded)))


class RunDirectory:
    """The directory of one run, created if missing, open for writing. Use it as a context manager, then :meth:`begin`.

    Entering takes the lock, so that all files in the directory, pools included, have one writer. It raises UserError if
    the directory is in use or holds other files. A directory created for a run that does not begin is removed.
    Under ``replay`` all transcripts are recomputed from the stored calls; they replace the old ones at the end.
    """

    def __init__(self, path: Path, *, replay: bool = False) -> None:
        self.path = path
        self.done: set[Key] = set()
        """Questions with an outcome."""
        self._target = path / "transcripts.jsonl"
        self._replayed = self._target.with_suffix(".jsonl.replay") if replay else None
        self._file: IO[bytes] | None = None
        self._writes_session = False
        self._learned: dict[str, object] = {}
        """Name of a model -> its dialect when it was last noted. Most replies show nothing new."""
        self._held = ExitStack()

    def __enter__(self) -> Self:
        begun = self.begun
        if self._replayed is not None and not (begun and run_files(self.path).calls.is_file()):
            raise UserError("holds no run with stored calls (calls.sqlite) to replay", file=self.path)
        others = unexpected_files(self.path, _EARLY_FILES, _RUN_FILES)
        # In this order: another process may begin the run in between.
        if is_written(self.path, _RUN_FILES) and not self.begun:
            raise writing_here(self.path)
        if others and not self.begun:
            raise UserError(f"holds {others[0]!r} but no run; choose another --out", file=self.path)
        self._created = not self.path.exists()
        self._lock = self._held.enter_context(file_lock(self.path / "lock", self._busy()))
        for part in unfinished_parts(self.path, _RUN_FILES):
            part.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            if self._file is not None:
                self._file.close()
                if self._replayed is not None:
                    self._end_replay(self._replayed, complete=kind is None)
            if self._created and [entry.name for entry in self.path.iterdir()] == ["lock"]:
                (self.path / "lock").unlink()
                self.path.rmdir()

    @property
    def begun(self) -> bool:
        """Whether the directory holds a run."""
        return (self.path / "run.json").is_file()

    @cached_property
    def _lines(self) -> list[OutcomeLine | None]:
        """The outcomes in the transcripts when the directory was opened."""
        return list(read_outcomes(self._target)) if self._target.exists() else []

    @cached_property
    def _failed(self) -> set[Key]:
        """The questions whose outcome was that they failed."""
        return {line.key for line in self._lines if line and line.failed}

    def pending(
        self, questions: Sequence[Question], repeats: int, options: RunOptions, *, retry: bool = True
    ) -> list[tuple[Question, int]]:
        """Questions and repeats to debate: without an outcome, or to be retried. Can be called before :meth:`begin`."""
        kept = {line.key for line in self._lines if line and line.kept(options, retry=retry)}
        both = ((question, repeat) for repeat in range(repeats) for question in questions)
        return [(question, repeat) for question, repeat in both if self._replayed or (question.id, repeat) not in kept]

    def begin(self, spec: RunRecord, models: Iterable[object], files: RunFiles, *, work: bool = True) -> None:
        """Check that the directory belongs to this run, and begin a session in ``run.json``; next, :meth:`resume`.

        The run may have more or fewer questions than the directory. ``models`` start from what earlier sessions learned
        of their endpoints. Without ``work`` nothing is written.
        """
        models = list(models)
        if self.begun:
            before = read_run(self.path)
            _refuse_other(self.path, before, spec)
            held, requested = len(before.questions), len(spec.questions)
            if held > requested:
                _log.warning("%s: scores cover all %d questions that it holds, not %d", self.path, held, requested)
            spec = spec.extended(before)
            try:
                start_from(models, endpoints_before(self.path))
            except (ValueError, TypeError, AttributeError):
                raise UserError("does not describe a run: damaged endpoints", file=self.path / "run.json") from None
        self._endpoints = endpoints_of(models)
        self._writes_session = self._replayed is None and (work or not self.begun)
        if self._writes_session:
            begin_session(self.path, spec, self._endpoints, files)

    def note_model(self, model: ChatModel) -> None:
        """Record what a reply has shown of the model's endpoint, before the reply is used: a resumed run starts there.

        Otherwise it would try again what an endpoint takes, and ask in another form than the run that was not stopped.
        """
        learned = getattr(model, "dialect", None)
        if not self._writes_session or learned is self._learned.get(model.name):
            return
        self._learned[model.name], shown = learned, endpoints_of([model])
        if any(self._endpoints.get(name) != endpoint for name, endpoint in shown.items()):
            self._endpoints |= shown
            self.check_lock()
            note_endpoints(self.path, self._endpoints)

    def extend(self, spec: RunRecord) -> None:
        """Write the description with further questions into ``run.json``, for a run that gets them one by one."""
        self.check_lock()
        update_run(self.path, spec)

    def resume(self, options: RunOptions, *, retry: bool = True) -> None:
        """Find the finished questions and open the transcripts; incomplete lines and retried questions are dropped."""
        if self._replayed is not None:
            self._file = self._replayed.open("wb")
            return
        (self.path / "unfinished.jsonl").unlink(missing_ok=True)
        self._file = self._opened()
        keep: list[bool] = []
        for line in self._lines:
            keep.append(line is not None and line.kept(options, retry=retry) and line.key not in self.done)
            if line is not None and keep[-1]:
                self.done.add(line.key)
        if not all(keep):
            with self._target.open("rb") as old, atomic_write(self._target) as new:
                new.writelines(line for line, kept in zip(old, keep, strict=True) if kept)
            self._file.close()
            self._file = self._opened()

    def _opened(self) -> IO[bytes]:
        """Open and lock the transcripts. Unlike the lock file, this lock cannot be removed without the transcripts."""
        refuse_special(self._target)
        file = self._target.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise self._busy() from None
        return file

    def _busy(self) -> UserError:
        return UserError("another process is writing this run; wait for it or choose another --out", file=self.path)

    def check_lock(self) -> None:
        """UserError if the lock was removed or replaced, since another command may then write here too."""
        if not is_held(self.path / "lock", self._lock):
            raise UserError(
                "its lock was removed or replaced, so another command may be writing here; this one stops. Wait until "
                "no other command is writing, then run this one again to continue",
                file=self.path,
            )

    def write(self, transcript: Transcript) -> bool:
        """Append a finished question; False if a replay omits it: it failed and had no outcome before."""
        assert self._file is not None, "resume() comes first"
        self.check_lock()
        key = (transcript.id, transcript.repeat)
        if self._replayed and transcript.status == "failed" and key not in self._failed:
            return False
        try:
            self._file.write(sealed(to_json(transcript)))
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self._target) from None
        self.done.add(key)
        return True

    def end(self, session: Mapping[str, Any] | None, left: Sequence[Key]) -> None:
        """Complete the session in ``run.json``; list questions without an outcome in ``unfinished.jsonl``."""
        if not self._writes_session:
            return  # a replay makes no calls, and may be refused at the end
        self.check_lock()
        end_session(self.path, session)
        if left:
            with atomic_write(self.path / "unfinished.jsonl") as file:
                file.writelines(json.dumps({"id": id_, "repeat": n}).encode() + b"\n" for id_, n in left)

    def _end_replay(self, replayed: Path, *, complete: bool) -> None:
        """Replace the transcripts by the replayed ones, unless a question has lost its outcome."""
        lost = {line.key for line in self._lines if line and not line.failed} - self.done
        if complete and not lost:
            replayed.replace(self._target)
            return
        replayed.unlink()
        if complete:
            why = f"the call store lacks calls of {count_of(len(lost), 'question')} with an outcome"
            raise UserError(f"{why}; the transcripts are unchanged", file=self.path)


def _refuse_other(path: Path, before: RunRecord, spec: RunRecord) -> None:
    old, new = before.questions.keys(), spec.questions.keys()
    if not (old <= new or new <= old):
        shared = f"it has {count_of(len(old), 'question')}, this one {len(new)}, and they share {len(old & new)}"
        raise UserError(f"holds another run: {shared} (check --limit and the data); choose another --out", file=path)
    if different := before.differences(spec):
        more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
        raise UserError(f"holds another run: {different[0]}{more}; choose another --out", file=path)


def is_being_written(path: Path) -> bool:
    """Whether a process is working on the run in this directory now."""
    if not (path / "transcripts.jsonl").is_file():
        return False  # opening a named pipe would wait
    try:
        with (path / "transcripts.jsonl").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts of a run in order of completion, without an incomplete last line; UserError if one is invalid."""
    file = path / "transcripts.jsonl"
    refuse_special(file)
    if not file.is_file():
        raise UserError("is not a run directory: it holds no transcripts.jsonl", file=path)
    yield from filter(None, _each_line(file, from_json))


def read_outcomes(path: Path) -> Iterator[OutcomeLine | None]:
    """The outcome of each line, without validating the rest; None for an incomplete last line."""

    def outcome(line: bytes) -> OutcomeLine:
        record = pydantic_core.from_json(line)
        key = (str(record["id"]), int(record["repeat"]))
        return OutcomeLine(key, record["status"] == "failed", record.get("degraded") is True)

    refuse_special(path)
    return _each_line(path, outcome)


def _each_line(path: Path, read: Callable[[bytes], T]) -> Iterator[T | None]:
    """What ``read`` makes of each line; None for an incomplete last one. UserError if a line is damaged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                found = read(unsealed(line)) if line.endswith(b"\n") else None
            except (ValueError, KeyError) as error:  # also pydantic's
                why = str(error).splitlines()[0]
                cure = (
                    "delete this line, then run the same command again: it debates the question anew, from stored calls"
                )
                raise UserError(f"is not a transcript: {why}; {cure}", file=path, line=number) from None
            yield found


_SEAL = b',"checksum":"%08x"}\n'


def sealed(record: bytes) -> bytes:
    """The line of a record, a JSON object with at least one field."""
    body = record.removesuffix(b"}")
    return body + _SEAL % crc32(body)


def unsealed(line: bytes) -> bytes:
    """The record in a line; ValueError if the line was altered."""
    body = line[: -len(_SEAL % 0)]
    if line != body + _SEAL % crc32(body):
        raise ValueError("its checksum does not fit its text")
    return body + b"}"


RECORDS = ("run.json", "experiment.json")
"""The records that make a folder a run or an experiment."""
OWN_FILES = frozenset(
    "lock metrics.json report.html transcripts.jsonl transcripts.jsonl.replay unfinished.jsonl pools.jsonl asked.jsonl "
    f"external.json {' '.join(RECORDS)}".split()
) | {f"{store}.sqlite{end}" for store in ("calls", "grades") for end in ("", "-wal", "-shm", "-journal")}
"""Files that runs and experiments keep in their folders."""


def refuse_own_files(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse inputs that a command would overwrite in the run or experiment folder that it writes."""
    own = {identity(folder / name) for name in OWN_FILES}
    for path in inputs:
        if path.is_file() and identity(path) in own:
            found = f"is an input, and this command would overwrite it in {folder}; choose another --out"
            raise UserError(found, file=path)


def question_files(data: Path | None) -> list[Path]:
    """The question files at a path: all CSV files of a folder (MMLU), a ``.zh`` file and its ``.en`` (CommonMT)."""
    if data is None:
        return []
    if data.is_dir():
        return sorted(data.glob("*.csv"))
    return [data, data.with_suffix(".en")] if data.suffix == ".zh" else [data]


def identity(path: Path) -> object:
    """A value that is equal for two paths of the same file, existing or not."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
