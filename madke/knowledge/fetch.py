"""Published indexes, and fetching one: download, check, unpack, and give it a name for ``--sources``.

Beside the target stand, until it is there, ``TARGET.tar.gz.part`` and a hidden folder that is unpacked into.
"""

from __future__ import annotations

import gzip
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
from typing import IO, Annotated, Any, Literal, NamedTuple
from urllib.parse import urljoin

import requests
import urllib3
from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from madke.assets import asset, cache_dir
from madke.core.addresses import retry_after
from madke.core.errors import UserError, unknown
from madke.files import atomic_write, file_lock
from madke.indexing.faiss_files import FaissShards, load_faiss
from madke.indexing.lucene import start
from madke.indexing.pyserini import FETCHED, VECTORS, DocIds, describe, is_faiss, is_lucene
from madke.knowledge.named import known_sources, register, resolve
from madke.knowledge.source_spec import IndexSpec
from madke.yaml_file import read_yaml

Progress = Callable[[int, int | None], None]
Counter = Callable[[str], Progress]
"""FirstRounds what is counted, makes the callback that is told how much of it is done, and of how much."""

_BLOCK = 1 << 18
_MARGIN = 1.1
"""Of what an archive may unpack to, over what its recipe says."""
_ATTEMPTS = 6
"""In a row without a new byte. The waits between them add up to half a minute."""
_LONGEST_WAIT = 60.0
_TIMEOUT = (10.0, 60.0)
"""Seconds to connect, and between two pieces of data."""


class Published(BaseModel):
    """One published index in a format of pyserini's: a gzipped tar archive of its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lucene", "faiss"]
    about: str
    url: Annotated[str, Field(pattern=r"^https?://")]
    checksum: Annotated[str, Field(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]
    """Of the archive."""
    size: Annotated[int, Field(gt=0)]
    """Bytes of the archive."""
    unpacked: Annotated[int, Field(gt=0)]
    """Bytes on disk, or somewhat more."""
    documents: Annotated[int, Field(gt=0)]
    encoder: str | None = None
    texts: str | None = None
    """The name of the index that holds the passages' texts."""

    @model_validator(mode="after")
    def _check(self) -> Published:
        if self.kind == "faiss" and (self.encoder is None or self.texts is None):
            raise ValueError("kind faiss needs encoder and texts")
        if self.kind == "lucene" and (self.encoder or self.texts):
            raise ValueError("kind lucene has its own texts and no encoder")
        return self


# A name becomes that of a folder.
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Recipes(RootModel[dict[_Name, Published]]):
    pass


def published_indexes(recipes: Path | None = None) -> dict[str, Published]:
    """Name -> published index, of a file like ``indexes/published.yaml``, by default that one."""
    return read_yaml(recipes or asset("indexes", "published.yaml"), _Recipes).root


class Fetched(NamedTuple):
    """A published index that is here; ``already`` before it was asked for."""

    folder: Path
    already: bool


def fetch(
    name: str,
    *,
    into: Path | None = None,
    recipes: Path | None = None,
    counter: Counter = lambda what: lambda done, total: None,
    sleep: Callable[[float], object] = time.sleep,
) -> Fetched:
    """Bring a published index here and register it under its name; a fetch that was stopped goes on.

    Args:
        name: A name in ``recipes``.
        into: The folder to make; by default one of that name in the cache folder.
        recipes: A file like ``indexes/published.yaml``; by default that one.
        counter: Shows progress, in bytes.
        sleep: Waits that many seconds between two attempts.
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
    already = _is_there(out, record)
    if not already:
        busy = UserError("another process is downloading this; wait until it has finished", file=part)
        with file_lock(part, busy) as archive:
            try:
                if not _is_there(out, record):
                    # A missing Java or FAISS is reported before hours of download.
                    (start if index.kind == "lucene" else load_faiss)()
                    _check_space(out, index, here=part.stat().st_size)
                    shutil.rmtree(work, ignore_errors=True)
                    download(index.url, archive, size=index.size, progress=counter("bytes downloaded"), sleep=sleep)
                    folder = _unpacked(index, part, archive, work, counter("bytes unpacked"))
                    with atomic_write(folder / FETCHED) as file:
                        file.write(json.dumps(record).encode() + b"\n")
                    folder.rename(out)
            except OSError as error:
                kept = "what was downloaded is kept, and the same command again goes on"
                raise UserError(f"cannot be written: {error.strerror}; {kept}", file=out) from None
            finally:
                shutil.rmtree(work, ignore_errors=True)
                if part.exists() and not part.stat().st_size:
                    part.unlink()
    register(name, IndexSpec(index=out, encoder=index.encoder, texts=texts))
    # Also what a fetch left that was killed after the folder was there.
    part.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    return Fetched(out, already)


def _is_there(out: Path, record: dict[str, str]) -> bool:
    """Whether the folder holds this published index; a UserError where it holds something else."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise UserError("this is a file; an index needs a folder", file=out)
    try:
        found = json.loads((out / FETCHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found != record and any(out.iterdir()):
        raise UserError(
            f"this folder holds something else than the published {record['name']}; choose another", file=out
        )
    return bool(found == record)


def _texts(name: str) -> Path:
    """The folder of the index that holds the texts, fetched or named in the user's file of sources."""
    spec = resolve(name) if name in known_sources() else None
    if not isinstance(spec, IndexSpec) or not spec.index.is_dir():
        raise UserError(f"the texts of its passages are those of {name}; first: madke index fetch {name}")
    return spec.index


def _check_space(out: Path, index: Published, *, here: int) -> None:
    """Refuse before anything is downloaded: the archive and what is unpacked from it stand side by side for a while."""
    needed = max(0, index.size - here) + index.unpacked
    free = shutil.disk_usage(out.parent).free
    if free < needed:
        raise UserError(
            f"needs {_size(needed)} of disk space, and {_size(free)} are free; nothing was started: make room, or "
            "name a folder on another disk with --out",
            file=out.parent,
        )


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def download(
    url: str,
    part: IO[bytes],
    *,
    size: int,
    progress: Progress = lambda done, total: None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Bring a file, opened unbuffered for appending, to its published size in bytes, from wherever it is.

    A connection that breaks is made again and goes on. Where the server cannot go on in the middle, the file starts
    from nothing. A UserError where the server refuses, is gone, leaves HTTPS, or has a file of another size.
    """
    if _there(part) > size:
        part.truncate(0)
    furthest, failures = _there(part), 0
    with _Session() as session:
        while _there(part) < size:
            wait: float | None = None
            try:
                reason, wait = _attempt(session, url, part, size, progress)
            except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
                reason = type(error).__name__
            # Also what requests lets through of a malformed address or header.
            except (requests.RequestException, ValueError) as error:
                raise UserError(f"{url}: {error}") from None
            here = _there(part)
            failures = 0 if here > furthest else failures + 1
            furthest = max(furthest, here)
            if failures == _ATTEMPTS:
                raise UserError(
                    f"{url}: {reason}, {_ATTEMPTS} times in a row; {here:,} of {size:,} bytes are here, and "
                    "the same command again goes on from there"
                )
            if here < size:
                sleep(min(_LONGEST_WAIT, 2.0 ** max(0, failures - 1) if wait is None else wait))


class _Session(requests.Session):
    """Follows no redirect out of TLS."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target and resp.url.startswith("https:") and urljoin(resp.url, target).startswith("http:"):
            raise UserError(
                f"{resp.url}: sent on to {urljoin(resp.url, target)}, without TLS; nothing is asked for there"
            )
        return target


def _attempt(
    session: requests.Session, url: str, part: IO[bytes], size: int, progress: Progress
) -> tuple[str, float | None]:
    """Ask once for what is missing and append it. Returns why it may not be all, and the wait the server asks for."""
    here = _there(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={here}-"} if here else {})
    with session.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as reply:
        status = reply.status_code
        if status in (408, 429) or status >= 500:
            return f"HTTP {status}", retry_after(reply.headers)
        if status not in (200, 206, 416):
            raise UserError(f"{url}: HTTP {status}; expected the file")
        sent = reply.headers.get("Content-Range", "") if status == 206 else reply.headers.get("Content-Length", "")
        whole = re.search(r"(?:^|/)(\d+)$", sent, re.ASCII)
        if status != 416 and whole and int(whole[1]) != size:
            raise UserError(f"{url}: a file of {int(whole[1]):,} bytes; {size:,} were expected, so it is another one")
        if status != 206 or not sent.startswith(f"bytes {here}-"):
            part.truncate(0)
            if status != 200:
                return "another part of the file than was asked for", None
        for block in reply.raw.stream(_BLOCK, decode_content=False):
            if _there(part) + len(block) > size:
                part.truncate(0)
                more = f"a file of more than {size:,} bytes, so it is another one; nothing of it is kept"
                raise UserError(f"{url}: {more}")
            rest = memoryview(block)
            while rest:
                rest = rest[part.write(rest) :]
            progress(_there(part), size)
    return "the connection was closed early", None


def _there(part: IO[bytes]) -> int:
    return part.seek(0, os.SEEK_END)


def _unpacked(index: Published, part: Path, archive: IO[bytes], work: Path, progress: Progress) -> Path:
    """Check and unpack the archive into ``work``; one that is not as its recipe says is removed."""
    algorithm, _, expected = index.checksum.partition(":")
    archive.seek(0)
    found = hashlib.file_digest(archive, algorithm).hexdigest()  # type: ignore[arg-type]  # typeshed wants a buffer
    if found != expected:
        part.unlink()
        raise UserError(
            f"{index.url}: {algorithm} {found}, expected {expected}; what was downloaded is removed; try again, "
            "and if it happens again, the published file has changed"
        )
    try:
        folder = _unpack(archive, work, index, progress)
        _check_opens(folder, index)
    except UserError as error:
        part.unlink()
        what = str(error).replace(f"{work}/", "")
        raise UserError(
            f"{index.url}: the archive is as published, and {what}; nothing is kept or registered, {part} is "
            "removed too"
        ) from None
    return folder


class _Counted:
    """A file that says how far it has been read."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, read: Callable[[int], None]) -> None:
        self._file = file
        self._read = read

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._read(self._file.tell())
        return block


def _unpack(archive: IO[bytes], work: Path, index: Published, progress: Progress) -> Path:
    """Unpack into ``work`` and return the folder with the index: the archive's one top folder, or ``work`` itself."""
    most = int(index.unpacked * _MARGIN)

    def unpacked(done: int) -> None:
        if done > most:
            raise UserError(f"it unpacks to more than {_size(most)}; the recipe says {_size(index.unpacked)}")

    archive.seek(0)
    try:
        counted: Any = _Counted(archive, lambda done: progress(done, index.size))
        # Counting what is unpacked, not what its headers say, also bounds headers and files that claim to be sparse.
        with gzip.GzipFile(fileobj=counted, mode="rb") as plain:
            bounded: Any = _Counted(plain, unpacked)
            with tarfile.open(fileobj=bounded, mode="r|", bufsize=1 << 20) as tar:
                for member in tar:
                    # Python's filter follows links, and has been led astray by them (CVE-2025-4517); no index has any.
                    if not (member.isfile() or member.isdir()):
                        raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
                    tar.extract(member, work, filter="data")
        progress(index.size, index.size)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise UserError(f"it cannot be unpacked: {error}") from None
    entries = list(work.iterdir()) if work.is_dir() else []
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else work


def _check_opens(folder: Path, index: Published) -> None:
    """Open what was unpacked as a search would; a UserError where it is no such index, or cannot be searched."""
    if not (is_lucene if index.kind == "lucene" else is_faiss)(folder):
        raise UserError(f"it holds no {index.kind} index in pyserini's format")
    describe(folder)
    if index.kind == "faiss":
        vectors, ids = len(FaissShards([folder / VECTORS])), len(DocIds(folder))
        if vectors != ids:
            raise UserError(f"it holds {vectors:,} vectors, and {ids:,} ids for them")
