"""A web server on the loopback that publishes files, and does what servers and networks do wrong when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.loopback import QuietHandler, serving


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How one request is answered."""

    status: int | None = None
    """An error, with no body."""
    retry_after: str | None = None
    cut_after: int | None = None
    """Bytes of the body after which the connection is closed."""
    hang_after: int | None = None
    """Bytes of the body after which nothing comes until the test ends."""
    ranges: bool = True


@dataclass(kw_only=True)
class PublishedServer:
    """A running server."""

    url: str
    files: dict[str, bytes]
    """By path."""
    behave: Callable[[int], Behaviour] = lambda n: Behaviour()
    """How the n-th request, from 1, is answered."""
    requests: list[Mapping[str, str]] = field(default_factory=list)
    """The headers of those that came, by lower-case name."""
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def ranges(self) -> list[str | None]:
        """The ranges that were asked for."""
        return [headers.get("range") for headers in self.requests]


@contextmanager
def published_server(files: dict[str, bytes]) -> Iterator[PublishedServer]:
    """Serve for the length of the block, on a free port."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            server.requests.append({name.lower(): value for name, value in self.headers.items()})
            how = server.behave(len(server.requests))
            content = server.files.get(self.path.lstrip("/"))
            self.close_connection = True
            if how.status is not None or content is None:
                headers = {} if how.retry_after is None else {"Retry-After": how.retry_after}
                self.answer(how.status or 404, headers, b"")
                return
            asked = self.headers.get("Range") if how.ranges else None
            start = int((asked or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.answer(416, {}, b"")
                return
            headers = {"Content-Length": str(len(content) - start)}
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            until = how.cut_after if how.hang_after is None else how.hang_after
            self.answer(206 if start else 200, headers, content[start:][:until])
            if how.hang_after is not None:
                server.stopping.wait(60)

    with serving(Handler) as address:
        server = PublishedServer(url=address, files=files)
        try:
            yield server
        finally:
            server.stopping.set()
