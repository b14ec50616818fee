"""An HTTP server on the loopback for the length of a block."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: Any) -> None:  # a client that went away is no news
        pass


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    protocol_version = "HTTP/1.1"

    def content(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """Send a whole reply."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], *, certificate: Path | None = None) -> Iterator[str]:
    """The address of a server with this handler; ``certificate``: a file with a certificate and its key, for HTTPS."""
    httpd = _Server(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake waits for the handler's thread: one that fails there does not stop the server.
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
