"""``madke report --serve``: the page on this machine, with a sheet of corrections that people make on it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter, ValidationError

from madke._util.terminal import say
from madke.core.errors import UserError
from madke.scoring.corrections import Correction, read_corrections, write_corrections

_MAX_BODY = 64 << 10
_HEAD = 16 << 10
"""The first bytes of the page, in which its security policy and its root element are."""
_SENT = TypeAdapter(dict[str, object])
_ROW = TypeAdapter(Correction)
_ROWS = TypeAdapter(Sequence[Correction])


class Sheet:
    """The sheet of corrections: at most one for each answer, and one for the gold answers of each question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self.rows: list[Correction] = read_corrections(path) if path.exists() else []

    def change(self, row: Correction, *, undo: bool) -> None:
        """Add a correction, or take it back, and write the sheet."""
        with self._lock:
            others = [each for each in self.rows if each != row]
            rows = others if undo else [*others, row]
            write_corrections(self.path, rows)
            self.rows = rows


class CorrectionServer(ThreadingHTTPServer):
    """Serves the page at ``/`` to this machine's browsers, and the sheet at ``/corrections`` to that page only."""

    daemon_threads = True

    def __init__(self, page: Path, sheet: Sheet, port: int = 0) -> None:
        self.page, self.sheet = page, sheet
        self.token = secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.origins = (self.origin, f"http://localhost:{self.server_address[1]}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a traceback, but not for a browser that has left before it had the whole page."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: CorrectionServer
    timeout = 30

    def do_GET(self) -> None:
        if not self._is_local():
            return
        if self.path == "/":
            self._send_page()
        elif self.path == "/corrections" and self._is_page():
            self._send_rows()
        else:
            self._end(404)

    def do_POST(self) -> None:
        if not self._is_local() or not self._is_page():
            return
        size = self.headers.get("Content-Length", "")
        if self.path != "/corrections" or not size.isdecimal() or int(size) > _MAX_BODY:
            self._end(404 if self.path != "/corrections" else 413)
            return
        try:
            sent = _SENT.validate_json(self.rfile.read(int(size)))
            undo = bool(sent.pop("undo", False))
            self.server.sheet.change(_ROW.validate_python(sent), undo=undo)
        except ValidationError:
            self._end(400)
        except UserError as error:
            say(f"madke: {error}", err=True)
            self._end(500)
        else:
            self._send_rows()

    def _is_local(self) -> bool:
        """Whether the address is this machine's own: a page of another site may have given its name our address."""
        if f"http://{self.headers.get('Host', '')}" in self.server.origins:
            return True
        self._end(403)
        return False

    def _is_page(self) -> bool:
        """Whether the page asks: it knows the token, which no other page can read."""
        if secrets.compare_digest(self.headers.get("X-Madke-Token", "").encode(), self.server.token.encode()):
            return True
        self._end(403)
        return False

    def _send_page(self) -> None:
        with self.server.page.open("rb") as file:
            head = file.read(_HEAD).replace(b"connect-src 'none'", b"connect-src 'self'", 1)
            head = head.replace(b"<html ", f'<html data-token="{self.server.token}" '.encode(), 1)
            self._begin(200, "text/html; charset=utf-8")
            self.wfile.write(head)
            while block := file.read(1 << 20):
                self.wfile.write(block)

    def _send_rows(self) -> None:
        self._begin(200, "application/json")
        self.wfile.write(_ROWS.dump_json(self.server.sheet.rows))

    def _begin(self, status: int, kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Cache-Control": "no-store", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _end(self, status: int) -> None:
        self._begin(status)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def serve_page(page: Path, sheet: Path, port: int) -> None:
    """Serve the page until Ctrl-C."""
    try:
        server = CorrectionServer(page, Sheet(sheet), port)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}; choose another port") from None
    with server:
        say(f"page: {server.origin}/ (Ctrl-C ends)")
        say(f"corrections: {sheet}; `madke score --corrections {sheet}` takes them")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("madke: the page is no longer served", err=True)
