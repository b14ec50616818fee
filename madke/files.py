"""Files as every room reads and writes them: JSON Lines with errors for people, and whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import logging
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import IO, Any, cast

from madke.core.errors import UserError

_log = logging.getLogger(__name__)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file; ``.gz`` is unpacked. UserError where it cannot be read."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except gzip.BadGzipFile as error:
        why = f"is not gzip, or is damaged ({error}); a file that is not packed has a name without .gz"
        raise UserError(why, file=path) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(1-based line number, object) of every line that is not blank; ``.gz`` is unpacked.

    Raises:
        UserError: The file cannot be read, or a line is no JSON object.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
                if b"\\ud" in line.lower():
                    json.dumps(item, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                why = "holds half of a surrogate pair, which is no character"
                raise UserError(why, file=path, line=number) from None
            except (ValueError, RecursionError) as error:
                why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
                raise UserError(f"is not JSON: {why}", file=path, line=number) from None
            if not isinstance(item, dict):
                raise UserError(f"expected a JSON object, found a {type(item).__name__}", file=path, line=number)
            yield number, item


def refuse_repeated(seen: dict[Any, int], key: Any, line: int, *, file: Path, what: str) -> None:
    """Note on which line a key stands; UserError, about ``what`` it is, where it stood on another line before."""
    if seen.setdefault(key, line) != line:
        raise UserError(f"{what} stands on line {seen[key]} already; expected each once", file=file, line=line)


_PART = re.compile(r"\.(.+)\.(\d+)\.part")


def unfinished(folder: Path, names: Collection[str]) -> list[Path]:
    """What :func:`atomic_write` was writing for files of these names when its process was killed."""
    parts = [(path, _PART.fullmatch(path.name)) for path in folder.iterdir() if path.is_file()]
    return [path for path, part in parts if part and part[1] in names and not _is_running(int(part[2]))]


def unexpected_files(folder: Path, made: Collection[str], replaced: Collection[str]) -> list[str]:
    """What a folder holds, if it is there, that an earlier command of ours cannot have left; names, sorted.

    Such a command makes what is called ``made``, and may have been :func:`atomic_write` what is called ``replaced``.
    """
    if not folder.is_dir():
        return []
    left = {part.name for part in unfinished(folder, replaced)}
    return sorted({entry.name for entry in folder.iterdir()}.difference(made, left))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes ``path``'s place when the block ends well, and leaves no trace when it does not.

    Raises:
        UserError: The folder cannot be written to, or the disk is full.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("wb")
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=path) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise disk_full(path) from None
        raise
    finally:
        part.unlink(missing_ok=True)


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What an OSError says where there is no room."""


def disk_full(path: Path) -> UserError:
    """The error for a file that found no room."""
    why = "cannot be written: the disk is full; make room, and the same command goes on from here"
    return UserError(why, file=path)


@contextmanager
def dir_lock(folder: Path) -> Iterator[None]:
    """Make the folder and hold it: a second process that comes for it says so, and waits until the first is done."""
    with _held(folder, folder, os.O_RDONLY, None):
        yield


@contextmanager
def file_lock(file: Path, busy: UserError) -> Iterator[IO[bytes]]:
    """Make the file, in its folder, and hold it, open for reading and appending without a buffer.

    The kernel lets go of it when the process ends, however it ends.

    Raises:
        UserError: ``busy``, where another process holds it; or it cannot be made.
    """
    with (
        _held(file, file.parent, os.O_RDWR | os.O_APPEND | os.O_CREAT, busy) as handle,
        open(handle, "a+b", buffering=0, closefd=False) as opened,
    ):
        yield opened


def is_held(file: Path, opened: IO[bytes]) -> bool:
    """Whether what :func:`file_lock` opened is still the file of that name: nobody removed or replaced it.

    Without it another process can make a file of that name, and hold that.
    """
    try:
        return os.path.samestat(os.fstat(opened.fileno()), file.stat())
    except OSError:
        return False


@contextmanager
def _held(path: Path, folder: Path, flags: int, busy: UserError | None) -> Iterator[int]:
    """Make the folder, open the path, and hold it; without ``busy``, wait for whoever does."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, flags, 0o666)
        except OSError as error:
            raise UserError(f"cannot be written: {error.strerror}", file=folder) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if busy is not None:
                    raise busy from None
                _log.warning("another process is at work in %s; waiting for it", path)
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever held the lock may have renamed or removed what it is on, and the lock went with it.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                yield handle
                return
        finally:
            os.close(handle)


def fingerprint(path: Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal; UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None


# Shards: files that take long to make, each with a record of what it was made from. A finished one is not made again.

_RECORD = ".made.json"

Inputs = Mapping[str, str | int]
"""Everything that decides the bytes of a shard."""


def is_finished(path: Path, inputs: Inputs) -> bool:
    """Whether the file is there, whole, and made from these inputs. A damaged one is reported, and made again."""
    record = _record(path)
    if record.get("inputs") != dict(inputs):
        return False
    try:
        sha256 = fingerprint(path)
    except UserError:
        return False
    if record.get("sha256") != sha256:
        _log.warning("%s: is damaged, and is made again", path)
        return False
    return True


def made_from(path: Path) -> dict[str, str | int] | None:
    """What a finished file was made from; None where nothing says so."""
    inputs = _record(path).get("inputs")
    return inputs if isinstance(inputs, dict) else None


def any_finished(folder: Path) -> bool:
    """Whether the folder holds a finished file."""
    return any(folder.glob(f"*{_RECORD}"))


def finish(path: Path, inputs: Inputs) -> None:
    """Record that the file is finished."""
    record = {"inputs": dict(inputs), "sha256": fingerprint(path)}
    with atomic_write(_record_path(path)) as file:
        file.write(json.dumps(record).encode())


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + _RECORD)
