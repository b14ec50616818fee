"""A program as a search service: JSON lines in and out, one process for all queries."""

import json
import os
import select
import shlex
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import Field, model_validator

from madke._util.child_process import Child, quoted_output, why_ended
from madke._util.terminal import without_keys
from madke.knowledge.http_search import Fields, MappedOptions, parse_json
from madke.knowledge.web import WebResult
from madke.knowledge.web_source import MAX_REPLY_BYTES, Fetch, NoAnswer, PricedReply, Request, TryAgain

_LAST_BYTES = 2_000
"""Of standard error, for the reason why the program ended."""
_NAMES = ("text", "title", "url", "id", "score", "date")


class CommandOptions(MappedOptions):
    """A program that reads ``{"query": ..., "k": ...}`` and prints ``{"results": [{"text": ...}]}``, one per line.

    A result may also have ``title``, ``url``, ``id``, ``score`` and ``date``. For a query that fails the program
    prints ``{"error": "REASON"}``.
    """

    run: Annotated[tuple[str, ...], Field(min_length=1)]
    """The program and its arguments. No shell is started."""
    folder: Path = Path()
    """Its working directory. Default: the folder of the file that names it."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """Seconds for one query; the first one includes the start."""
    results: str = "results"
    fields: Fields = Fields(**{name: name for name in _NAMES})
    cache_days: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = 0
    """Days for which a cached answer is used. Default 0, because the program may change."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, list) else given


class CommandSearch:
    """See :class:`madke.knowledge.web_source.Service`. The program is started again if it ends."""

    concurrency = 1

    def __init__(self, options: CommandOptions) -> None:
        self._options = options
        self.address = f"command {without_keys(shlex.join(options.run))} in {options.folder}"
        self.description = f"results of {without_keys(shlex.join(options.run))!r} (settings {options.digest})"
        self._running: _Running | None = None
        self._lock = threading.Lock()

    def send(self, request: Request) -> PricedReply:
        """The program's reply; the first request starts it."""
        with self._lock:
            try:
                self._running = self._running or _Running(self._options)
                line = self._running.answer(json.dumps(request).encode() + b"\n")
            except BaseException:  # a late answer must not be read as the next one
                self._end()
                raise
        reply = parse_json(line)
        if isinstance(reply, Mapping) and isinstance(reply.get("error"), str):
            raise NoAnswer(f"the command reports {quoted_output(reply['error'])}")
        return self._options.answer(reply)

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The program's results."""
        return self._options.read(fetch({"query": query, "k": self._options.count(k)}))

    def close(self) -> None:
        """Kill the program and its children, also while another thread waits for its answer."""
        if running := self._running:
            running.child.kill()
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


class _Running:
    def __init__(self, options: CommandOptions) -> None:
        self._timeout = options.timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._rest = b""
        try:
            self.child = Child(options.run, folder=options.folder, stderr=self._errors)
        except (OSError, ValueError) as error:
            self._errors.close()
            why = getattr(error, "strerror", None) or error
            raise NoAnswer(f"the command cannot be started: {why}", refused=True) from None

    def answer(self, request: bytes) -> bytes:
        process = self.child.process
        assert process.stdin is not None
        assert process.stdout is not None
        ends = time.monotonic() + self._timeout
        unsent = memoryview(request)
        try:
            while unsent:
                self._wait_for(process.stdin, select.POLLOUT, ends)
                # A larger piece could wait for a program that reads nothing.
                unsent = unsent[os.write(process.stdin.fileno(), unsent[: select.PIPE_BUF]) :]
        except OSError:
            raise self._ended() from None
        while b"\n" not in self._rest:
            self._wait_for(process.stdout, select.POLLIN, ends)
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                raise self._ended()
            self._rest += block
            if len(self._rest) > MAX_REPLY_BYTES:
                raise NoAnswer(f"the command's answer exceeds {MAX_REPLY_BYTES:,} bytes")
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def end(self) -> None:
        self.child.kill()
        self.child.dismiss_guard()
        with self.child.process:
            pass
        self._errors.close()

    def _wait_for(self, pipe: IO[bytes], event: int, ends: float) -> None:
        """Wait until the pipe takes or holds bytes, or is closed; NoAnswer at the time ``ends``."""
        waiting = select.poll()  # select.select refuses descriptors above 1,023
        waiting.register(pipe, event)
        if not waiting.poll(1000 * max(0.0, ends - time.monotonic())):
            raise NoAnswer(f"the command does not answer within {self._timeout:g} s")

    def _ended(self) -> TryAgain:
        status = self.child.process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _LAST_BYTES))
        return TryAgain(f"the command {why_ended(status, self._errors.read())}", reached=False)
