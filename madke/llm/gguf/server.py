"""llama.cpp's server for one GGUF file: started with the first model that needs it, shared, ended with this process.

It runs in a process of its own, since ``xllamacpp`` blocks all Python threads while it loads a model, a fault in native
code would end the run, and libgomp's threads stop spinning only if a variable is set before anything, such as torch,
loads that library. No key of the environment is passed on.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from select import select
from threading import Lock

from madke._util.assets import require
from madke._util.terminal import environment_without_keys
from madke.core.errors import UserError
from madke.llm.gguf import process as served

_log = logging.getLogger(__name__)

CONTEXT = 8_192
SMALLEST_CONTEXT = 512
_CACHE_MB = 8_192
_FIRST_NOTICE, _NEXT_NOTICE = 2.0, 10.0
"""Seconds of loading until the first line about it, and between further ones."""
_REASON = re.compile(rb"error loading model: ([^\n]+)")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How a model is served."""

    context: int = CONTEXT
    """Tokens of prompt and reply of one call; at most those of the model."""
    slots: int = 1
    """Calls that are computed at a time. The others wait, and find the beginning that the call before computed."""
    threads: int

    @classmethod
    def from_environment(cls) -> ServerSettings:
        """The settings in ``MADKE_GGUF_CONTEXT``, ``MADKE_GGUF_SLOTS`` and ``MADKE_GGUF_THREADS``, else the defaults.

        UserError for a value that is not a number, or a context of less than 512 tokens.
        """
        return cls(
            context=_number("MADKE_GGUF_CONTEXT", CONTEXT, least=SMALLEST_CONTEXT),
            slots=_number("MADKE_GGUF_SLOTS", 1),
            threads=_number("MADKE_GGUF_THREADS", 0) or physical_cores(),
        )


def _number(variable: str, default: int, *, least: int = 1) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise UserError(f"{variable} is {text!r}; expected a number from {least}")
    return int(text)


def physical_cores() -> int:
    """Cores on which this process may run. Two hardware threads of one core count once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


class LlamaServer:
    """A running server. UserError if it cannot load the file; the call waits until it has."""

    def __init__(self, file: Path, name: str, settings: ServerSettings) -> None:
        self.key = secrets.token_urlsafe(32)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        self._process = subprocess.Popen(
            [sys.executable, "-P", served.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment_without_keys(),
            process_group=0,  # Ctrl-C is for this process: calls in flight are finished first
        )
        try:
            self.address = f"{self._started(file, name, settings)}/v1"
        except BaseException:  # Ctrl-C, too
            self.stop()
            raise

    def stop(self) -> None:
        """End the server at once; it has nothing to save."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def why_ended(self) -> str | None:
        """Why the server has ended; None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        if status < 0:
            return f"its server was ended by signal {-status}" + ("; is there enough memory?" if status == -9 else "")
        return f"its server ended with status {status}{self._last_words()}"

    def _started(self, file: Path, name: str, settings: ServerSettings) -> str:
        """Its address, when the model is loaded."""
        assert self._process.stdin
        assert self._process.stdout
        sent = {**asdict(settings), "file": str(file), "alias": name, "key": self.key, "cache_mb": cache_mb()}
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(sent).encode() + b"\n")
            self._process.stdin.flush()
        began, size, pause = time.monotonic(), file.stat().st_size, _FIRST_NOTICE
        while not select([self._process.stdout], [], [], pause)[0]:
            share = min(0.99, self._resident() / max(size, 1))
            seconds = time.monotonic() - began
            _log.warning(
                "%s: loading %s MB, about %.0f %% after %.0f s", name, f"{size / 1e6:,.0f}", 100 * share, seconds
            )
            pause = _NEXT_NOTICE
        address = self._process.stdout.readline().decode(errors="replace").strip()
        if not address:
            self._process.wait()
            found = self._read_reason()
            raise UserError(f"cannot be loaded: {found or self.why_ended()}", file=file)
        return address

    def _resident(self) -> int:
        """Bytes of the process that are in memory; a file that is read is among them."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _read_reason(self) -> str:
        """llama.cpp's reason why a file cannot be loaded, or an empty text."""
        found = _REASON.search(self._printed())
        return found[1].decode(errors="replace").strip() if found else ""

    def _last_words(self) -> str:
        lines = self._printed().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""

    def _printed(self) -> bytes:
        """The end of what it printed; nothing after :meth:`stop`."""
        if self._errors.closed:
            return b""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 65_536))
        return self._errors.read()


def cache_mb() -> int:
    """Memory for the prompts that the server keeps: a quarter of the machine's, at most 8 GB.

    A debate finds its prefix again after calls of others: three rounds over four prompts took a third of the time.
    """
    return min(_CACHE_MB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 >> 20)


_SERVERS: dict[tuple[int, Path, ServerSettings], LlamaServer] = {}
"""By the process that started it, its file and its settings."""
_LOCK = Lock()


def shared_server(file: Path, name: str, settings: ServerSettings) -> LlamaServer:
    """The server of a file, started if it does not run. ``name`` is for messages."""
    require(f"{name} needs", "local", "xllamacpp")
    key = (os.getpid(), file.resolve(), settings)
    with _LOCK:
        if key in _SERVERS and _SERVERS[key].why_ended():
            _SERVERS.pop(key).stop()
        if key not in _SERVERS:
            _SERVERS[key] = LlamaServer(file, name, settings)
        return _SERVERS[key]


@atexit.register
def stop_servers() -> None:
    """End all servers of this process; a forked one leaves those of its parent alone."""
    with _LOCK:
        for key in [key for key in _SERVERS if key[0] == os.getpid()]:
            _SERVERS.pop(key).stop()
