"""Reading JSON Lines and tables with helpful errors, atomic writes, locks, and records of finished shards."""

import csv
import errno
import fcntl
import gzip
import hashlib
import json
import logging
import os
import re
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any, cast

from madke.core.errors import UserError

_log = logging.getLogger(__name__)


MAX_LINE = 64 << 20
"""Maximum size of a line in bytes. A file without line ends must not fill the memory."""


def refuse_special(path: Path) -> None:
    """UserError for a named pipe, a socket or a device: reading it may never begin or never end."""
    try:
        mode = path.stat().st_mode
    except OSError:  # opening it tells why
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise UserError(f"is {kind}; expected a regular file", file=path)


@contextmanager
def open_unpacked(path: Path, *, packed: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes; ``.gz`` is unpacked unless ``packed``. UserError if it cannot be read."""
    refuse_special(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" and not packed else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except gzip.BadGzipFile as error:
        why = f"is not gzip, or is damaged ({error}); an uncompressed file must not be named .gz"
        raise UserError(why, file=path) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(1-based number, line with its end) of a file; UserError for a line of more than :data:`MAX_LINE` bytes."""
    with open_unpacked(path) as file:
        for number in count(1):
            line = file.readline(MAX_LINE + 1)
            if len(line) > MAX_LINE:
                raise UserError(
                    f"is longer than {MAX_LINE >> 20} MiB; are its line ends missing?", file=path, line=number
                )
            if not line:
                return
            yield number, line


def parse_object(line: bytes, number: int, *, file: Path) -> dict[str, Any]:
    """The JSON object in a line; UserError, with the 1-based line number, for anything else."""
    try:
        item = json.loads(line)
        if b"\\ud" in line.lower():
            json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        why = "contains a lone surrogate, which is not a character"
        raise UserError(why, file=file, line=number) from None
    except UnicodeDecodeError as error:
        raise not_utf8(error, file, number) from None
    except (ValueError, RecursionError) as error:
        why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"is not JSON: {why}", file=file, line=number) from None
    if not isinstance(item, dict):
        raise UserError(f"expected a JSON object, found a {type(item).__name__}", file=file, line=number)
    return item


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(1-based line number, object) of each non-blank line, also from ``.gz``; UserError for anything else."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, parse_object(line, number, file=path)


def drop_torn_line(path: Path) -> None:
    """Cut off a last line without its line end, which a killed process left; creates a file that is missing."""
    with path.open("a+b") as opened:
        opened.seek(0)
        opened.truncate(opened.read().rfind(b"\n") + 1)


def text_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file with their ends; only ``\n`` ends a line."""
    for number, line in numbered_lines(path):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(error, path, number) from None


def not_utf8(error: UnicodeDecodeError, path: Path, line: int | None) -> UserError:
    """The error for a file in another encoding, with how to convert it."""
    where = f"{error.reason} at byte {error.start} of the {'file' if line is None else 'line'}"
    how = "save it as 'CSV UTF-8' in Excel or as UTF-8 in an editor, or run iconv -f ENCODING -t UTF-8"
    return UserError(f"is not UTF-8 text: {where}; convert the file: {how}", file=path, line=line)


def cells_of(path: Path, delimiter: str = ",", *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield (1-based line, cells) of each row of a table. ``strict``: refuse misplaced and open quotes."""
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(text_lines(path), delimiter=delimiter, strict=strict)
    begins = 1
    try:
        for cells in reader:
            line, begins = begins, reader.line_num + 1
            yield line, cells
    except csv.Error as error:
        raise UserError(f"is not CSV: {error}; is a quote not closed?", file=path, line=begins) from None


def sheet_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(1-based line, column -> stripped cell) of each row that is not empty, of a sheet that people fill in.

    Columns are in any order, separated by commas, semicolons or tabs. A missing cell is empty. UserError for any other
    file.
    """
    first = next(text_lines(path), "")
    # An open quote would swallow the rows below it; without ``strict`` only the limit of a cell ends it.
    rows = cells_of(path, max(",;\t", key=first.count), strict=True)
    _, headings = next(rows, (1, []))
    if missing := [name for name in needed if name not in headings]:
        raise UserError(f"column {missing[0]!r} is missing; expected {', '.join(needed)}", file=path, line=1)
    for line, cells in rows:
        by_heading = dict(zip(headings, map(str.strip, cells), strict=False))
        row = {name: by_heading.get(name, "") for name in needed}
        if any(row.values()):
            yield line, row


def refuse_repeated(seen: dict[Any, int], key: Any, line: int, *, file: Path, what: str) -> None:
    """Record the line of a key. UserError, naming ``what`` it is, if another line had the same key."""
    if seen.setdefault(key, line) != line:
        raise UserError(f"{what} is already on line {seen[key]}; expected each once", file=file, line=line)


_PART = re.compile(r"\.(.+)\.(\d{1,9})\.part")
"""Name and process id in the name of a file that :func:`atomic_write` makes."""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def unfinished_parts(folder: Path, names: Collection[str]) -> list[Path]:
    """Parts of files with these names that killed processes left in :func:`atomic_write`."""
    parts = [(path, _PART.fullmatch(path.name)) for path in (folder.iterdir() if folder.is_dir() else ())]
    return [path for path, part in parts if part and part[1] in names and not _is_running(int(part[2]))]


def unexpected_files(folder: Path, made: Collection[str], replaced: Collection[str]) -> list[str]:
    """Sorted names in a folder that no command of ours can have made; none if the folder is missing.

    Such a command creates the names ``made``, and parts of :func:`atomic_write` for the names ``replaced``.
    """
    names = {entry.name for entry in (folder.iterdir() if folder.is_dir() else ())}.difference(made)
    return sorted(name for name in names if not ((part := _PART.fullmatch(name)) and part[1] in replaced))


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` if the block succeeds, else vanishes; UserError if it cannot be written."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        parent = path.parent.resolve()
        # Renaming a file to the name of a device, such as /dev/stdout, would replace it for every program.
        if (path.exists() and not path.is_file()) or parent == Path("/dev") or parent.is_relative_to("/proc"):
            raise OSError(errno.EINVAL, "it is a folder, a device, a pipe or a socket; expected a regular file")
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


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file by :func:`atomic_write`."""
    with atomic_write(path) as file:
        file.write(content)


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Values of ``OSError.errno`` for a full disk."""


def disk_full(path: Path) -> UserError:
    """The error for a full disk."""
    why = "cannot be written: the disk is full; free some space, then resume with the same command"
    return UserError(why, file=path)


@contextmanager
def dir_lock(folder: Path) -> Iterator[None]:
    """Create and lock a folder. If another process holds the lock, log a warning and wait."""
    with _lock(folder, folder, os.O_RDONLY, None):
        yield


@contextmanager
def file_lock(file: Path, busy: UserError) -> Iterator[IO[bytes]]:
    """Create and lock a file, open for unbuffered reading and appending; raises ``busy`` if another process holds it.

    The kernel releases the lock when the process ends, also after a kill.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with _lock(file, file.parent, flags, busy) as handle, open(handle, "a+b", buffering=0, closefd=False) as opened:
        yield opened


def is_held(file: Path, opened: int | IO[bytes]) -> bool:
    """Whether an opened file still has that name. If not, another process can lock a new file of that name."""
    try:
        return os.path.samestat(os.fstat(opened if isinstance(opened, int) else opened.fileno()), file.stat())
    except OSError:
        return False


@contextmanager
def _lock(path: Path, folder: Path, flags: int, busy: UserError | None) -> Iterator[int]:
    """Create the folder, then open and lock the path. Without ``busy``, wait for the lock."""
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
                _log.warning("another process is working in %s; waiting for it", path)
                fcntl.flock(handle, fcntl.LOCK_EX)
            if is_held(path, handle):  # the previous holder may have renamed or removed the path, and the lock with it
                yield handle
                return
        finally:
            os.close(handle)


def fingerprint(path: Path) -> str:
    """SHA-256 of the file's bytes, in hexadecimal. UserError if it cannot be read."""
    with open_unpacked(path, packed=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed wants a buffer


def short_hash(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256: in a million, two are equal with a chance of 1 in 37 million."""
    return hashlib.sha256(content).hexdigest()[:16]


def is_intact(path: Path, sha256: str) -> bool:
    """Whether the file can be read and has this fingerprint."""
    try:
        return fingerprint(path) == sha256
    except UserError:
        return False


# Shards: files that are expensive to make, each with a record of its inputs. A finished shard is reused.

_RECORD = ".made.json"

Inputs = Mapping[str, str | int]
"""Everything that determines the bytes of a shard."""


def is_finished(path: Path, inputs: Inputs) -> bool:
    """Whether the file exists, is intact, and was made from these inputs. A damaged file is logged."""
    record = _record(path)
    if record.get("inputs") != dict(inputs) or not path.exists():
        return False
    intact = is_intact(path, record.get("sha256", ""))
    if not intact:
        _log.warning("%s: is damaged and will be made again", path)
    return intact


def any_finished(folder: Path) -> bool:
    """Whether the folder has a finished file."""
    return any(folder.glob(f"*{_RECORD}"))


def mark_finished(path: Path, inputs: Inputs) -> None:
    """Record that the file is finished."""
    record = {"inputs": dict(inputs), "sha256": fingerprint(path)}
    write_file(_record_path(path), json.dumps(record).encode())


def _record(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        return record if isinstance(record, dict) else {}
    return {}


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + _RECORD)
