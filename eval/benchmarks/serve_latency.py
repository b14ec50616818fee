"""How soon ``madke serve`` replies on a kept connection, against a bare loopback server that replies at once.

Requests to both take turns, one at a time, and the median of each counts. A reply that waits for the client to confirm
the one before (TCP without TCP_NODELAY) takes 40 ms more.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from eval.benchmarks.generated_run import CALLS_EACH, server
from eval.benchmarks.measure import Setting, duration, report
from eval.benchmarks.serve import running_server

REQUESTS = 300
STREAMS = 60
QUICK = 5
LIMIT = 0.002
"""Seconds of a reply without a debate."""


def main(setting: Setting) -> None:
    """Time ``/health``, ``/v1/models`` and a streamed debate."""
    requests, streams = (QUICK, QUICK) if setting.quick else (REQUESTS, STREAMS)
    with (
        server(0.0) as url,
        tempfile.TemporaryDirectory(dir=setting.folder) as temporary,
        running_server(Path(temporary) / "served", url) as (_, port),
    ):
        bare_port = urlsplit(url).port
        assert bare_port is not None
        ours, bare = _Client(port), _Client(bare_port)
        ours.streamed()  # imports, and the run is opened
        for path in ("/health", "/v1/models"):
            taken, alone = _medians(requests, lambda path=path: ours.get(path), bare.called)  # type: ignore[misc]
            _report(path, taken, alone, f"at most {duration(LIMIT)}", taken <= LIMIT)
        taken, alone = _medians(streams, ours.streamed, bare.called)
        _report(f"a streamed debate of {CALLS_EACH} calls", taken, alone)


class _Client:
    """A client that keeps its connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._numbers = count()

    def get(self, path: str) -> None:
        """A request without a body."""
        self._connection.request("GET", path)
        self._read()

    def called(self) -> None:
        """A call of a model."""
        self._post({"model": "m", "messages": [{"role": "user", "content": "Which lake is the deepest?"}]})
        self._read()

    def streamed(self) -> None:
        """A debate of a new question."""
        question = f"Which lake is the deepest, in survey {next(self._numbers)}?"
        self._post({"model": "madke", "stream": True, "messages": [{"role": "user", "content": question}]})
        assert b"Lake Baikal" in self._read()

    def _post(self, body: object) -> None:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)

    def _read(self) -> bytes:
        response = self._connection.getresponse()
        assert response.status == 200
        return response.read()


def _medians(times: int, *functions: Callable[[], None]) -> list[float]:
    """The median time of each function; they take turns."""
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(times):
        for each, function in zip(taken, functions, strict=True):
            began = time.perf_counter()
            function()
            each.append(time.perf_counter() - began)
    return [statistics.median(each) for each in taken]


def _report(name: str, taken: float, alone: float, aim: str = "", met: bool | None = None) -> None:
    baseline = f"{duration(alone)} for a reply of a bare server"
    report(f"serve_latency, {name}", duration(taken), baseline, taken / alone, aim, met)
