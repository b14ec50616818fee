"""A run's directory: one writer, append-only transcripts, nothing half-written that a reader could see."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import ValidationError

from madke.core.errors import UserError
from madke.core.transcript import Transcript, from_json, to_json
from madke.files import replacing, unfinished
from madke.runs.config import RunConfig
from madke.versions import versions

Key = tuple[str, int]
"""Question id and repeat."""

_MADE_BEFORE = {"lock", "pools.jsonl"}
"""What a run that was stopped before it wrote ``run.json`` may have left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """What a run reads and writes that need not lie in its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


_OURS = {"run.json", "pools.jsonl", "transcripts.jsonl", "metrics.json", "external.json", "report.html"}
"""What is written whole or not at all in a run directory."""


class RunDirectory:
    """The directory of one run, open for writing. Use it as a context manager, then :meth:`begin`.

    Entering takes the lock, so that everything which is put into the directory, pools too, has one writer. A
    directory that was made for a run which did not begin is removed again.

    Args:
        path: The directory; made if missing.
        replay: Make all transcripts anew from the calls that are stored; they take the old ones' place at the end.

    Raises:
        UserError: The directory is in use, holds something else than a run, or cannot be written; under ``replay``,
            it holds no calls.
    """

    def __init__(self, path: Path, *, replay: bool = False) -> None:
        self.path = path
        self.done: set[Key] = set()
        """Questions with an outcome."""
        self._target = path / "transcripts.jsonl"
        self._replayed = self._target.with_suffix(".jsonl.replay") if replay else None
        self._lost = 0
        self._file: IO[bytes] | None = None
        self._lock: IO[str] | None = None

    def begin(self, config: RunConfig, files: RunFiles, *, retry_failed: bool = True) -> None:
        """Create or check ``run.json`` and read which questions are done.

        A last line that a kill cut off is dropped; so are failed questions when ``retry_failed`` is set, since they
        will be run again.

        Raises:
            UserError: The directory belongs to another configuration, or a line of it is no transcript.
        """
        if _is_run(self.path):
            _refuse_other(self.path, config)
        else:
            record = {
                "config": config.model_dump(mode="json"),
                "files": {
                    "calls": os.path.relpath(files.calls, self.path),
                    "pools": None if files.pools is None else os.path.relpath(files.pools, self.path),
                },
                "versions": versions(),
            }
            with replacing(self.path / "run.json") as file:
                file.write(json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")
        if self._replayed is None:
            self._recover(retry_failed)
            self._file = self._target.open("ab")
        else:
            old = _lines(self._target) if self._target.exists() else ()
            self._answered = {(t.id, t.repeat) for t in old if t is not None and t.status != "failed"}
            self._file = self._replayed.open("wb")

    def write(self, transcript: Transcript) -> None:
        """Append one finished question; it is with the operating system when this returns.

        Raises:
            UserError: The file cannot be written (a full disk).
        """
        assert self._file is not None, "begin() comes first"
        key = (transcript.id, transcript.repeat)
        try:
            self._file.write(to_json(transcript) + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self._target) from None
        self.done.add(key)
        if self._replayed is not None:
            self._lost += transcript.status == "failed" and key in self._answered

    def __enter__(self) -> Self:
        if self._replayed is not None and not (_is_run(self.path) and run_files(self.path).calls.is_file()):
            raise UserError("holds no calls to replay: there is no calls.sqlite of a run", file=self.path)
        if not _is_run(self.path) and self.path.is_dir():
            left = {path.name for path in unfinished(self.path, _OURS)}
            foreign = sorted(set(_names(self.path)) - _MADE_BEFORE - left)
            if foreign:
                raise UserError(f"holds no run, but {foreign[0]!r}; choose another --out", file=self.path)
        self._made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a")
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self.path) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the directory in between: then this lock guards nothing.
            if os.fstat(self._lock.fileno()).st_ino != (self.path / "lock").stat().st_ino:
                raise OSError
        except OSError:
            self._lock.close()
            raise UserError(
                "another process is writing this run; wait for it or choose another --out", file=self.path
            ) from None
        for part in unfinished(self.path, _OURS):
            part.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        try:
            if self._file is not None:
                self._file.close()
            if self._replayed is not None and self._file is not None:
                self._end_replay(complete=kind is None)
            if self._made and _names(self.path) == ["lock"]:
                (self.path / "lock").unlink()
                self.path.rmdir()
        finally:
            self._lock.close()

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

    def _recover(self, retry_failed: bool) -> None:
        """Read what is done; rewrite the file, whole, where it holds lines that must go."""
        path = self._target
        if not path.exists():
            return
        keep: list[bool] = []
        for transcript in _lines(path):
            kept = transcript is not None and not (retry_failed and transcript.status == "failed")
            if transcript is not None and kept:
                kept = (transcript.id, transcript.repeat) not in self.done
                self.done.add((transcript.id, transcript.repeat))
            keep.append(kept)
        if all(keep):
            return
        with path.open("rb") as old, replacing(path) as new:
            new.writelines(line for line, kept in zip(old, keep, strict=True) if kept)


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts of a run directory, in the order in which they finished.

    Raises:
        UserError: There is no such run, or a line other than a cut-off last one is no transcript.
    """
    file = path / "transcripts.jsonl"
    if not file.is_file():
        raise UserError("is not a run directory: there is no transcripts.jsonl in it", file=path)
    yield from (transcript for transcript in _lines(file) if transcript is not None)


def read_config(path: Path) -> RunConfig:
    """The configuration in a run directory.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    try:
        return RunConfig.model_validate(_record(path)["config"])
    except (ValueError, KeyError):
        raise UserError("is not a run's configuration", file=path / "run.json") from None


def _record(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise UserError("is not a run's configuration", file=file)
    return record


def run_files(path: Path) -> RunFiles:
    """Where a run's calls and pools are, as its ``run.json`` says; they may have been moved or removed since.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    said = _record(path).get("files", {})
    pools = said.get("pools")
    return RunFiles(
        calls=path / said.get("calls", "calls.sqlite"),
        pools=path / pools if pools is not None else None,
    )


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _names(path: Path) -> list[str]:
    return [entry.name for entry in path.iterdir()]


def _refuse_other(path: Path, config: RunConfig) -> None:
    before = read_config(path)
    if len(before.questions) != len(config.questions):
        counts = f"{len(before.questions)} questions, not {len(config.questions)} (--limit, or the data)"
        raise UserError(f"holds another run: {counts}; choose another --out", file=path)
    if different := before.differences(config):
        more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
        raise UserError(f"holds another run: {different[0]}{more}; choose another --out", file=path)


def _lines(path: Path) -> Iterator[Transcript | None]:
    """Each line's transcript; None for a last line that was cut off."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                yield None
                return
            try:
                yield from_json(line)
            except ValidationError:
                raise UserError("is not a transcript", file=path, line=number) from None
