"""Downloading one large file so that nothing already here is asked for twice."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import IO
from urllib.parse import urljoin

import requests
import urllib3

from madke.core.addresses import retry_after
from madke.core.errors import UserError

_ATTEMPTS = 6
"""In a row without a new byte. The waits between them add up to half a minute."""
_LONGEST_WAIT = 60.0
_TIMEOUT = (10.0, 60.0)
"""Seconds to connect, and between two pieces of data."""
_BLOCK = 1 << 18


def download(
    url: str,
    part: IO[bytes],
    *,
    size: int,
    algorithm: str,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """Bring an open file to its published size, from wherever it is, and return its checksum.

    What is there is read once for the checksum; then the rest is asked for. A connection that breaks is made again and
    goes on. Where the server cannot go on in the middle, the file starts from nothing; the checksum tells of one that
    changed there meanwhile.

    Args:
        url: Where it is published.
        part: The file so far, opened unbuffered for reading and appending.
        size: Bytes of the whole file.
        algorithm: The checksum's, as :mod:`hashlib` names it.
        progress: Called with the bytes there are and ``size``.
        sleep: Waits that many seconds.

    Raises:
        UserError: The server refuses, is gone, leaves HTTPS, or has a file of another size. What was downloaded stays,
            unless the server has sent more than ``size``.
    """
    file = _Part(part, algorithm, lambda done: progress(done, size))
    if file.size > size:
        file.start_over()
    furthest, failures = file.size, 0
    with _Session() as session:
        while file.size < size:
            wait: float | None = None
            try:
                reason, wait = _attempt(session, url, file, size)
            except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
                reason = type(error).__name__
            # Also what requests lets through of a malformed address or header.
            except (requests.RequestException, ValueError) as error:
                raise UserError(f"{url}: {error}") from None
            failures = 0 if file.size > furthest else failures + 1
            furthest = max(furthest, file.size)
            if file.size < size:
                if failures == _ATTEMPTS:
                    raise UserError(
                        f"{url}: {reason}, {_ATTEMPTS} times in a row; {file.size:,} of {size:,} bytes are here, and "
                        "the same command again goes on from there"
                    )
                sleep(min(_LONGEST_WAIT, 2.0 ** max(0, failures - 1) if wait is None else wait))
    return file.checksum


class _Session(requests.Session):
    """Follows no redirect out of TLS."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target and resp.url.startswith("https:") and urljoin(resp.url, target).startswith("http:"):
            raise UserError(
                f"{resp.url}: sent on to {urljoin(resp.url, target)}, without TLS; nothing is asked for there"
            )
        return target


def _attempt(session: requests.Session, url: str, file: _Part, size: int) -> tuple[str, float | None]:
    """Ask once for what is missing and append it. Returns why it may not be all, and the wait the server asks for."""
    headers = {"Accept-Encoding": "identity"}
    if file.size:
        headers["Range"] = f"bytes={file.size}-"
    with session.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as reply:
        status = reply.status_code
        if status in (408, 429) or status >= 500:
            return f"HTTP {status}", retry_after(reply.headers)
        if status == 416:
            file.start_over()
            return "HTTP 416", None
        if status not in (200, 206):
            raise UserError(f"{url}: HTTP {status}; expected the file")
        start, whole = _extent(reply)
        if whole not in (None, size):
            raise UserError(f"{url}: a file of {whole:,} bytes; {size:,} were expected, so it is another one")
        if status == 200 and file.size:
            file.start_over()
        if start != file.size:
            file.start_over()
            return "another part of the file than was asked for", None
        for block in reply.raw.stream(_BLOCK, decode_content=False):
            if file.size + len(block) > size:
                file.start_over()
                raise UserError(
                    f"{url}: a file of more than {size:,} bytes, so it is another one; nothing of it is kept"
                )
            file.append(block)
    return "the connection was closed early", None


def _extent(reply: requests.Response) -> tuple[int, int | None]:
    """The first byte that a reply holds, and how many the whole file has, where the reply says."""
    if reply.status_code == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", "").strip())
        if found is None:
            return -1, None
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = reply.headers.get("Content-Length", "")
    # isdigit alone takes a superscript two for one.
    return 0, int(length) if length.isascii() and length.isdigit() else None


class _Part:
    """A file that grows, with its checksum; ``grown`` is called with its size."""

    def __init__(self, file: IO[bytes], algorithm: str, grown: Callable[[int], None]) -> None:
        self._file = file
        self._algorithm = algorithm
        self._grown = grown
        self._begin()
        file.seek(0)
        while block := file.read(_BLOCK):
            self._count(block)

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def append(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._count(block)

    def start_over(self) -> None:
        self._file.truncate(0)
        self._begin()

    def _begin(self) -> None:
        self._digest = hashlib.new(self._algorithm, usedforsecurity=False)
        self.size = 0

    def _count(self, block: bytes) -> None:
        self._digest.update(block)
        self.size += len(block)
        self._grown(self.size)
