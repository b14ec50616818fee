"""A run's directory: one writer, append-only transcripts, nothing half-written that a reader could see."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import ValidationError

from madke.core.errors import UserError
from madke.core.transcript import Transcript, from_json, to_json
from madke.files import replacing
from madke.runs.config import RunConfig, environment

Key = tuple[str, int]
"""Question id and repeat."""

_MADE_BEFORE = {"lock", "pools.jsonl"}
"""What a run that was stopped before it wrote ``run.json`` may have left."""


class RunDirectory:
    """The directory of one run, open for writing. Use it as a context manager.

    Opening takes the lock, creates or checks ``run.json``, and reads which questions are done. A last line that a
    kill cut off is dropped; so are failed questions when ``retry_failed`` is set, since they will be run again.

    Args:
        path: The directory; made if missing.
        config: What is about to run. A directory that holds another run is refused.
        retry_failed: Whether questions that failed before count as not done.
        replay: Make all transcripts anew; they take the old ones' place when the block ends well.

    Raises:
        UserError: The directory is in use, belongs to another configuration, or cannot be written.
    """

    def __init__(self, path: Path, config: RunConfig, *, retry_failed: bool = True, replay: bool = False) -> None:
        self.path = path
        self.config = config
        self.done: set[Key] = set()
        _refuse_other(path, config)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / "lock").open("a")
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=path) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(
                "another process is writing this run; wait for it or choose another --out", file=path
            ) from None
        try:
            _refuse_other(path, config)
            if not (path / "run.json").exists():
                record = {"config": config.model_dump(mode="json"), "environment": environment()}
                with replacing(path / "run.json") as file:
                    file.write(json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")
            self._target = path / "transcripts.jsonl"
            self._replay = self._target.with_suffix(".jsonl.replay") if replay else None
            if not replay:
                self._recover(retry_failed)
            self._transcripts: IO[bytes] = self._replay.open("wb") if self._replay else self._target.open("ab")
        except BaseException:
            self._lock.close()
            raise

    def write(self, transcript: Transcript) -> None:
        """Append one finished question; it is with the operating system when this returns.

        Raises:
            UserError: The file cannot be written (a full disk).
        """
        try:
            self._transcripts.write(to_json(transcript) + b"\n")
            self._transcripts.flush()
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=self._target) from None
        self.done.add((transcript.id, transcript.repeat))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transcripts.close()
        if self._replay and kind is None:
            self._replay.replace(self._target)
        elif self._replay:
            self._replay.unlink(missing_ok=True)
        self._lock.close()

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
    file = path / "run.json"
    try:
        return RunConfig.model_validate(json.loads(file.read_bytes())["config"])
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except (ValueError, KeyError, TypeError):
        raise UserError("is not a run's configuration", file=file) from None


def _refuse_other(path: Path, config: RunConfig) -> None:
    if not (path / "run.json").exists():
        if path.is_dir() and any(entry.name not in _MADE_BEFORE for entry in path.iterdir()):
            raise UserError("is not empty and holds no run; choose another --out", file=path)
        return
    if different := read_config(path).differences(config):
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
