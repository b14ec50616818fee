"""A web server on the loopback that publishes files, and does what servers and networks do wrong when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.support.loopback import serving


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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append({name.lower(): value for name, value in self.headers.items()})
            how = server.behave(len(server.requests))
            content = server.files.get(self.path.lstrip("/"))
            if how.status is not None or content is None:
                self.send_response(how.status or 404)
                if how.retry_after is not None:
                    self.send_header("Retry-After", how.retry_after)
                self.end_headers()
                return
            start = self.start_of_range(how)
            if start >= len(content):
                self.send_response(416)
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            body = content[start:]
            if how.hang_after is not None:
                self.wfile.write(body[: how.hang_after])
                server.stopping.wait(60)
            else:
                self.wfile.write(body[: how.cut_after])

        def start_of_range(self, how: Behaviour) -> int:
            """Where the reply starts: 0 without ranges."""
            asked = self.headers.get("Range") if how.ranges else None
            return int((asked or "bytes=0-").removeprefix("bytes=").removesuffix("-"))

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        server = PublishedServer(url=address, files=files)
        try:
            yield server
        finally:
            server.stopping.set()
