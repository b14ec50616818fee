"""What the loggers of other packages may tell. Debug lines of HTTP clients hold addresses, headers, bodies: secrets.

``madke/__init__`` calls :func:`guard_http_logs`. So it applies before any request, also in worker processes and in
other programs that import madke. :class:`madke._util.terminal.LogHandler` prints the log lines of the command line.
"""

import logging

_HTTP_CLIENTS = (
    "httpx2",
    "openai._base_client",
    "openai._legacy_response",
    "openai._response",
    "urllib3.connectionpool",
)
"""Loggers that tell the address or the body of every request."""


_SERVERS = ("uvicorn.error", "mcp.server.streamable_http_manager")
"""Loggers with a warning for each bad request: clients could fill the log."""


class _Guard(logging.Filter):
    """Drops lines below WARNING, whatever level somebody sets, and hides the secrets of addresses in the others."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record."""
        if record.levelno < logging.WARNING:
            return False
        from madke.core.addresses import with_public_urls

        record.msg, record.args = with_public_urls(record.getMessage()), ()
        return True


_GUARD = _Guard()


def guard_http_logs() -> None:
    """Let the loggers of HTTP clients tell warnings only, without the secrets of addresses."""
    for name in _HTTP_CLIENTS:
        logging.getLogger(name).addFilter(_GUARD)  # a filter that is there already is not added again


def quieten_servers() -> None:
    """Let the loggers of the packages behind ``madke serve`` tell errors only."""
    for name in _SERVERS:
        logging.getLogger(name).setLevel(logging.ERROR)
