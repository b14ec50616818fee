"""The directory of a run: its description in ``run.json``, its transcripts, and the one process that writes them.

Transcripts are only appended, and readers see no partly written file.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, NamedTuple, Self, TypeVar
from zlib import crc32

import pydantic_core
from pydantic import BaseModel, Field

from madke._util.assets import versions
from madke._util.files import (
    atomic_write,
    file_lock,
    is_held,
    refuse_special,
    short_hash,
    unexpected_files,
    unfinished_parts,
    write_file,
)
from madke.core.chat import ChatModel, fields_of
from madke.core.errors import UserError, count_of
from madke.core.question import Question
from madke.core.transcript import Transcript, from_json, to_json
from madke.data.first_round import Draw
from madke.engine.deferral import Deferring
from madke.engine.protocol import AnyProtocol
from madke.models.endpoint import endpoints_of, start_from
from madke.models.store import CallStore, Recorded
from madke.retrieval.pools import MORE, asking_folder
from madke.runs.request import RunOptions

T = TypeVar("T")

Key = tuple[str, int]
"""Question id and repeat."""

_log = logging.getLogger(__name__)

RUN_FORMAT = 2
"""Format version of ``run.json``. The first format had no number."""

_BY_QUESTION = ("questions", "pools", "first_round")
"""Fields with one entry per question; they grow when a run is extended."""


class RunRecord(BaseModel, extra="forbid", frozen=True):
    """Everything that can change the results of a run, frozen in its ``run.json``. Equal specs mean the same run.

    ``pools`` and ``sources`` are empty until the pools are frozen.
    """

    data: str
    """The dataset's file name, for display."""
    dataset: str | None = None
    """The published format of the file; None for madke's own."""
    task: str | None = None
    """The task requested for questions that name none."""
    tasks: Mapping[str, str] = {}
    """Custom task -> its code and a fingerprint of its prompt texts."""
    questions: Mapping[str, str]
    """Id -> hash of the question with all its fields, in order; see :func:`question_hash`."""
    sample_seed: int | None = None
    """Seed of the sample; None: the first questions."""
    variant: str
    wording: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """``paper``, or the name of the file that its words are from; None: the protocol's own."""
    protocol: AnyProtocol
    prompts_sha256: Mapping[str, str]
    """Fingerprint of every prompt file."""
    models: Mapping[str, str]
    """Role -> name of its model. Addresses are not part of the spec; see ``endpoints`` in run.json."""
    source_specs: Mapping[str, str | None]
    """Source name -> requested specification; None for the name's default, or a pool file."""
    sources: Mapping[str, str] = {}
    """Source name -> its description when the pools were built, with the index fingerprint."""
    pools: Mapping[str, str] = {}
    """Question id -> hash of its line in the pool file; empty without knowledge."""
    searched: Mapping[str, str] = {}
    """Source name -> its description for searches of debaters; empty if they may not search."""
    first_round: Mapping[str, str] = {}
    """Question id -> hash of its first-round stances, if they were supplied."""
    first_round_draw: Annotated[Draw | None, Field(exclude_if=lambda value: value is None)] = None
    """How they were drawn from another arm's stances; None: they were not."""
    answer_scorer: str | None = None
    """The command of the answer scorer."""
    seed: int | None = None
    """Sampling seed; None: the servers choose their own."""
    repeats: int = 1
    deferring: Annotated[Deferring | None, Field(exclude_if=lambda value: value is None)] = None
    """Which answers are left to a person; None: none."""

    def differences(self, other: RunRecord) -> list[str]:
        """The differences, as ``field: mine, not theirs``. Questions of only one spec are ignored: runs can grow."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        for name in _BY_QUESTION:
            both = [id_ for id_ in mine[name] if id_ in theirs[name]]
            for record in (mine, theirs):
                record[name] = {id_: record[name][id_] for id_ in both}
        return list(_differences("", mine, theirs))

    def extend(self, before: RunRecord) -> RunRecord:
        """The same run, extended by the questions of an earlier command."""
        both = {name: {**getattr(before, name), **getattr(self, name)} for name in _BY_QUESTION}
        return self.model_copy(update=both)


def question_hash(question: Question) -> str:
    """The hash of a question with all its fields; independent of the format of its file."""
    known = fields_of(question)
    if not question.instructions:
        del known["instructions"]  # runs without instructions keep the hashes that earlier versions wrote
    return short_hash(json.dumps(known, sort_keys=True).encode())


def question_hashes(questions: Sequence[Question]) -> dict[str, str]:
    """Id -> hash, in order."""
    return {question.id: question_hash(question) for question in questions}


def _differences(path: str, mine: Any, theirs: Any) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            yield from _differences(f"{path}.{key}" if path else key, mine.get(key), theirs.get(key))
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for number, (own, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from _differences(f"{path}.{number}", own, other)
    elif mine != theirs:
        shown = "protocol" if path == "variant" else path  # as the option is called
        yield f"{shown}: {_short(mine)}, not {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """Files of a run that may be outside its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


def read_run(path: Path) -> RunRecord:
    """The description of the run in a directory; UserError (like all of this module) if ``run.json`` is invalid."""
    try:
        return RunRecord.model_validate(_record(path)["spec"])
    except (ValueError, KeyError):
        raise UserError("does not describe a run", file=path / "run.json") from None


def run_files(path: Path) -> RunFiles:
    """Paths of a run's calls and pools in its last session; the files may have been moved or removed since."""
    sessions = sessions_of(path)
    files = sessions[-1].get("files", {}) if sessions else {}
    calls, pools = files.get("calls", "calls.sqlite"), files.get("pools")
    return RunFiles(calls=path / str(calls), pools=None if pools is None else path / str(pools))


def sessions_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """The work of each command, oldest first: :meth:`madke.runs.meter.Meter.session`, or only the start if killed."""
    return list(_record(path)["sessions"])


def _record(path: Path) -> dict[str, Any]:
    record = read_record(path / "run.json", RUN_FORMAT, "a run")
    endpoints, sessions = record.get("endpoints"), record.get("sessions")
    if not (isinstance(endpoints, dict) and isinstance(sessions, list) and all(map(_is_session, sessions))):
        raise UserError("does not describe a run", file=path / "run.json")
    return record


def _is_session(session: Any) -> bool:
    """Whether what is read of a session has the expected types."""
    if not (isinstance(session, dict) and isinstance(session.get("versions", {}), dict)):
        return False
    files = session.get("files", {})
    return isinstance(files, dict) and all(isinstance(each, str | None) for each in files.values())


def read_record(file: Path, version: int, what: str) -> dict[str, Any]:
    """The JSON object in a file of this format version; UserError if there is none, or not of ``what``."""
    refuse_special(file)
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise UserError(f"does not describe {what}", file=file)
    if (number := record.get("format", 1)) != version:
        expected = f"this version of madke reads format {version}; choose another --out"
        raise UserError(f"has format {number!r}, but {expected}", file=file)
    return record


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    # A path that is not UTF-8 has lone surrogates: the handler writes their JSON escapes.
    content = json.dumps(record, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace")
    write_file(file, content + b"\n")


# The writer of a run

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

    def is_kept(self, options: RunOptions, *, retry: bool) -> bool:
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
        self._record: dict[str, Any] = {}
        """The content of ``run.json``, if this process writes it."""
        self._learned: dict[str, object] = {}
        """Name of a model -> its dialect when it was last noted. Most replies show nothing new."""
        self._held = ExitStack()

    def __enter__(self) -> Self:
        begun = self.has_run
        if self._replayed is not None and not (begun and run_files(self.path).calls.is_file()):
            raise UserError("holds no run with stored calls (calls.sqlite) to replay", file=self.path)
        others = unexpected_files(self.path, _EARLY_FILES, _RUN_FILES)
        if others and not self.has_run:  # in this order: another process may begin the run in between
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
    def has_run(self) -> bool:
        """Whether the directory holds a run."""
        return (self.path / "run.json").is_file()

    @cached_property
    def _lines(self) -> list[OutcomeLine | None]:
        """The outcomes in the transcripts when the directory was opened."""
        return list(read_outcomes(self._target)) if self._target.exists() else []

    def pending(
        self, questions: Sequence[Question], repeats: int, options: RunOptions, *, retry: bool = True
    ) -> list[tuple[Question, int]]:
        """Questions and repeats to debate: without an outcome, or to be retried. Can be called before :meth:`begin`."""
        kept = {line.key for line in self._lines if line and line.is_kept(options, retry=retry)}
        both = ((question, repeat) for repeat in range(repeats) for question in questions)
        return [(question, repeat) for question, repeat in both if self._replayed or (question.id, repeat) not in kept]

    def begin(self, spec: RunRecord, models: Iterable[object], files: RunFiles, *, work: bool = True) -> None:
        """Check that the directory belongs to this run, and begin a session in ``run.json``; next, :meth:`resume`.

        The run may have more or fewer questions than the directory. ``models`` start from what earlier sessions learned
        of their endpoints. Without ``work`` nothing is written.
        """
        models = list(models)
        record: dict[str, Any] = {"endpoints": {}, "sessions": []}
        if self.has_run:
            before, record = read_run(self.path), _record(self.path)
            _refuse_other(self.path, before, spec)
            count, requested = len(before.questions), len(spec.questions)
            if count > requested:
                _log.warning("%s: scores cover all %d questions that it holds, not %d", self.path, count, requested)
            spec = spec.extend(before)
            try:
                start_from(models, record["endpoints"])
            except (ValueError, TypeError, AttributeError):
                raise UserError("does not describe a run: damaged endpoints", file=self.path / "run.json") from None
        self._writes_session = self._replayed is None and (work or not self.has_run)
        if self._writes_session:
            pools = None if files.pools is None else os.path.relpath(files.pools, self.path)
            session = {
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "files": {"calls": os.path.relpath(files.calls, self.path), "pools": pools},
                "versions": versions(),
            }
            self._record = {
                "format": RUN_FORMAT,
                "spec": spec.model_dump(mode="json"),
                "endpoints": {**record["endpoints"], **endpoints_of(models)},
                "sessions": [*record["sessions"], session],
            }
            self._write_record()

    def note_model(self, model: ChatModel) -> None:
        """Record what a reply has shown of the model's endpoint, before the reply is used: a resumed run starts there.

        Otherwise it would try again what an endpoint takes, and ask in another form than the run that was not stopped.
        """
        learned = getattr(model, "dialect", None)
        if not self._writes_session or learned is self._learned.get(model.name):
            return
        self._learned[model.name] = learned
        endpoints = {**self._record["endpoints"], **endpoints_of([model])}
        if endpoints != self._record["endpoints"]:
            self._write_record(endpoints=endpoints)

    def extend(self, spec: RunRecord) -> None:
        """Write the description with further questions into ``run.json``, for a run that gets them one by one."""
        self._write_record(spec=spec.model_dump(mode="json"))

    def _write_record(self, **changed: Any) -> None:
        self.check_lock()
        self._record |= changed
        write_record(self.path / "run.json", self._record)

    def resume(self, options: RunOptions, *, retry: bool = True) -> None:
        """Find the finished questions and open the transcripts; incomplete lines and retried questions are dropped."""
        if self._replayed is not None:
            self._file = self._replayed.open("wb")
            return
        (self.path / "unfinished.jsonl").unlink(missing_ok=True)
        self._file = self._open_transcripts()
        keep: list[bool] = []
        for line in self._lines:
            keep.append(line is not None and line.is_kept(options, retry=retry) and line.key not in self.done)
            if line is not None and keep[-1]:
                self.done.add(line.key)
        if not all(keep):
            with self._target.open("rb") as old, atomic_write(self._target) as new:
                new.writelines(line for line, kept in zip(old, keep, strict=True) if kept)
            self._file.close()
            self._file = self._open_transcripts()

    def _open_transcripts(self) -> IO[bytes]:
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
            why = "its lock was removed or replaced, so another command may be writing here; this one stops"
            raise UserError(f"{why}. Run it again when no other command is writing", file=self.path)

    def write(self, transcript: Transcript) -> bool:
        """Append a finished question; False if a replay omits it: it failed and had no outcome before."""
        assert self._file is not None, "resume() comes first"
        self.check_lock()
        key = (transcript.id, transcript.repeat)
        failed = transcript.status == "failed"
        if self._replayed and failed and not any(line and line.failed and line.key == key for line in self._lines):
            return False
        try:
            self._file.write(seal(to_json(transcript)))
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self._target) from None
        self.done.add(key)
        return True

    def end(self, session: Mapping[str, Any] | None, left: Sequence[Key]) -> None:
        """Complete the session in ``run.json``; list questions without an outcome in ``unfinished.jsonl``."""
        if not self._writes_session:
            return  # a replay makes no calls, and may be refused at the end
        *before, last = self._record["sessions"]
        # A command that had nothing to do leaves no session.
        self._write_record(sessions=before if session is None and before else [*before, {**last, **(session or {})}])
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


def recorded_calls(path: Path) -> Iterator[Recorded]:
    """The calls that a run made itself, in the order of writing; none for predictions, or if its call store is gone."""
    if (path / "run.json").is_file() and (file := run_files(path).calls).is_file():
        # In the store that the arms of an experiment share, calls carry the name of their arm.
        payer = "" if file.resolve().parent == path.resolve() else path.resolve().name
        with CallStore(file) as store:
            yield from store.calls(payer=payer)


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
                value = read(unseal(line)) if line.endswith(b"\n") else None
            except (ValueError, KeyError) as error:  # also pydantic's
                why = str(error).splitlines()[0]
                cure = (
                    "delete this line, then run the same command again: it debates the question anew, from stored calls"
                )
                raise UserError(f"is not a transcript: {why}; {cure}", file=path, line=number) from None
            yield value


_SEAL = b',"checksum":"%08x"}\n'


def seal(record: bytes) -> bytes:
    """The line of a record, a JSON object with at least one field."""
    body = record.removesuffix(b"}")
    return body + _SEAL % crc32(body)


def unseal(line: bytes) -> bytes:
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
            problem = f"is an input, and this command would overwrite it in {folder}; choose another --out"
            raise UserError(problem, file=path)


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
