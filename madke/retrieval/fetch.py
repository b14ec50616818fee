"""Fetch a published index: download, verify, unpack, and register its name for ``--sources``.

Until it is complete, ``TARGET.tar.gz.part`` and a hidden folder for unpacking are kept next to the target. No library
resumes a broken download of many gigabytes from any server, so that is done here, with ``httpx2``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Annotated, Literal

import httpx2
from pydantic import BaseModel, Field, RootModel

from madke._util.assets import asset, cache_dir
from madke._util.files import file_lock, write_file
from madke._util.yaml_file import read_yaml
from madke.core.addresses import retry_after
from madke.core.errors import UserError, unknown
from madke.models.transport import failure_of, open_client
from madke.retrieval.index_sources import FETCHED, describe, is_faiss, is_lucene
from madke.retrieval.indexes.build import Progress
from madke.retrieval.indexes.dense import load_faiss
from madke.retrieval.indexes.lucene import start_jvm
from madke.retrieval.named import IndexSpec, known_sources, register, resolve

_MAX_ATTEMPTS = 6
"""Consecutive attempts without a new byte. The waits between them add up to half a minute."""
_MAX_WAIT = 60.0
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
"""Seconds between two pieces of data, and seconds to connect."""


class Published(BaseModel, frozen=True, extra="forbid"):
    """One published index in pyserini's format: a gzipped tar archive of its folder."""

    kind: Literal["lucene", "faiss"]
    about: str
    url: Annotated[str, Field(pattern=r"^https?://")]
    checksum: Annotated[str, Field(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]
    size: Annotated[int, Field(gt=0)]
    """Bytes of the archive."""
    unpacked: Annotated[int, Field(gt=0)]
    """Bytes on disk; may be slightly more."""
    documents: Annotated[int, Field(gt=0)]
    encoder: str | None = None
    """Only FAISS has this and the next."""
    texts: str | None = None
    """The name of the index that holds the passages' texts."""


# A name is also a folder name.
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


_Recipes = RootModel[dict[_Name, Published]]


def published_indexes(recipes: Path | None = None) -> dict[str, Published]:
    """Name -> published index, from a recipe file; default ``indexes/published.yaml``."""
    return read_yaml(recipes or asset("indexes", "published.yaml"), _Recipes).root


def fetch(
    name: str,
    *,
    into: Path | None = None,
    recipes: Path | None = None,
    progress: Progress = lambda done, total: None,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[Path, bool]:
    """Download a published index and register its name; an interrupted fetch resumes.

    By default it goes ``into`` a folder of its name in the cache folder, and ``recipes`` is ``indexes/published.yaml``.
    ``progress`` gets the bytes downloaded and their total, ``sleep`` the seconds to wait between two attempts. Returns
    the folder, and whether the index was already there.
    """
    known = published_indexes(recipes)
    if name not in known:
        raise unknown("published index", name, known)
    index = known[name]
    texts = None if index.texts is None else _texts(index.texts)
    out = (into or cache_dir("indexes") / name).absolute()
    part = out.with_name(f"{out.name}.tar.gz.part")
    work = out.with_name(f".{out.name}.unpacking")
    record = {"name": name, "checksum": index.checksum}
    already = _is_fetched(out, record)
    if not already:
        busy = UserError("another process is downloading this index; wait until it finishes", file=part)
        with file_lock(part, busy) as archive:
            try:
                if not _is_fetched(out, record):
                    # Report a missing Java or FAISS before hours of download.
                    (start_jvm if index.kind == "lucene" else load_faiss)()
                    _check_space(out, index, here=part.stat().st_size)
                    shutil.rmtree(work, ignore_errors=True)
                    download(index.url, archive, size=index.size, progress=progress, sleep=sleep)
                    folder = _unpack(index, part, archive, work)
                    write_file(folder / FETCHED, json.dumps(record).encode() + b"\n")
                    folder.rename(out)
            except OSError as error:
                kept = "the downloaded part is kept; run the same command again to continue"
                raise UserError(f"cannot be written: {error.strerror}; {kept}", file=out) from None
            finally:
                shutil.rmtree(work, ignore_errors=True)
                if part.exists() and not part.stat().st_size:
                    part.unlink()
    register(name, IndexSpec(index=out, encoder=index.encoder, texts=texts))
    # A fetch that was killed after the rename leaves these.
    part.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    return out, already


def _is_fetched(out: Path, record: dict[str, str]) -> bool:
    """Whether the folder holds this published index; UserError if it holds something else."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise UserError("found a file, expected a folder for the index", file=out)
    try:
        content = json.loads((out / FETCHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if content != record and any(out.iterdir()):
        other = f"something other than the published {record['name']}"
        raise UserError(f"this folder holds {other}; choose another folder", file=out)
    return bool(content == record)


def _texts(name: str) -> Path:
    """The folder of the index that holds the texts: fetched, or named in the user's sources file."""
    spec = resolve(name) if name in known_sources() else None
    if not isinstance(spec, IndexSpec) or not spec.index.is_dir():
        raise UserError(f"this index takes its texts from {name}; run first: madke index fetch {name}")
    return spec.index


def _check_space(out: Path, index: Published, *, here: int) -> None:
    """Refuse before the download if the disk cannot hold the archive and the unpacked index at the same time."""
    needed, free = max(0, index.size - here) + index.unpacked, shutil.disk_usage(out.parent).free
    if free < needed:
        remedy = "free some space, or name a folder on another disk with --out"
        lack = f"needs {needed / 1e9:,.1f} GB of disk space, but only {free / 1e9:,.1f} GB are free"
        raise UserError(f"{lack}; {remedy}", file=out.parent)


def download(
    url: str,
    part: IO[bytes],
    *,
    size: int,
    progress: Progress = lambda done, total: None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Download the rest of a file (opened unbuffered for appending) up to its published size in bytes.

    A broken connection is reopened and the download continues; if the server cannot resume, the file is downloaded
    from the start. UserError if the server refuses, is unreachable, or has a file of another size.
    """
    if _end(part) > size:
        part.truncate(0)
    furthest, failures = _end(part), 0
    with open_client(timeout=_TIMEOUT, follow_redirects=True) as client:
        while (here := _end(part)) < size:
            wait: float | None = None
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={here}-"} if here else {})
            try:
                with client.stream("GET", url, headers=headers) as reply:
                    reason, wait = f"HTTP {reply.status_code}", retry_after(reply.headers)
                    if reply.status_code in (200, 206, 416):
                        reason = "the connection was closed early"
                        _append(reply, part, here, size, progress)
                    elif reply.status_code not in (408, 429) and reply.status_code < 500:
                        raise UserError(f"{url}: {reason}; expected the file")
            except (httpx2.TooManyRedirects, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
                raise UserError(f"{url}: {error}") from None
            except httpx2.TransportError as error:
                reason = failure_of(error)
            here = _end(part)
            failures = 0 if here > furthest else failures + 1
            furthest = max(furthest, here)
            if failures == _MAX_ATTEMPTS:
                got = f"{here:,} of {size:,} bytes are downloaded; run the same command again to continue"
                raise UserError(f"{url}: {reason}, {_MAX_ATTEMPTS} times in a row; {got}")
            if here < size:
                sleep(min(_MAX_WAIT, 2.0 ** max(0, failures - 1) if wait is None else wait))


def _append(reply: httpx2.Response, part: IO[bytes], here: int, size: int, progress: Progress) -> None:
    """Append the bytes of a reply that begins at ``here``; any other reply starts the file over."""
    resumed = reply.status_code == 206
    sent = reply.headers.get("Content-Range" if resumed else "Content-Length", "")
    whole = re.search(r"(?:^|/)(\d+)$", sent, re.ASCII)
    if reply.status_code != 416 and whole and int(whole[1]) != size:
        sizes = f"found {int(whole[1]):,} bytes, expected {size:,}"
        raise UserError(f"{reply.url}: {sizes}: this is not the published file")
    if not resumed or not sent.startswith(f"bytes {here}-"):
        part.truncate(0)
    if reply.status_code == 200 or sent.startswith(f"bytes {here}-"):
        for block in reply.iter_raw():
            rest = memoryview(block)
            while rest:
                rest = rest[part.write(rest) :]
            progress(_end(part), size)


def _end(part: IO[bytes]) -> int:
    return part.seek(0, os.SEEK_END)


def _unpack(index: Published, part: Path, archive: IO[bytes], work: Path) -> Path:
    """Verify the archive, unpack it into ``work``, and return the folder of the index, which can be searched.

    An archive that does not match its recipe is removed.
    """
    algorithm, _, expected = index.checksum.partition(":")
    archive.seek(0)
    digest = hashlib.file_digest(archive, algorithm).hexdigest()  # type: ignore[arg-type]  # typeshed wants a buffer
    if digest != expected:
        part.unlink()
        remedy = "the download is removed; try again (if it fails again, the published file has changed)"
        raise UserError(f"{index.url}: found {algorithm} {digest}, expected {expected}; {remedy}")
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive, mode="r:gz") as tar:
            tar.extractall(work, filter="data")
        entries = list(work.iterdir())
        folder = entries[0] if len(entries) == 1 and entries[0].is_dir() else work
        if not (is_lucene if index.kind == "lucene" else is_faiss)(folder):
            raise UserError(f"it holds no {index.kind} index in pyserini's format")
        describe(folder)
    except (UserError, tarfile.TarError, EOFError, zlib.error) as error:
        part.unlink()
        what = f"the checksum is right, but {str(error).replace(f'{work}/', '')}"
        raise UserError(f"{index.url}: {what}; nothing is kept or registered, and {part} is removed") from None
    return folder
