"""Read untrusted documents in a process of its own, with bounds on time and memory.

The process reads requests from standard input and answers on standard output, one line of JSON each: nothing that it
sends is unpickled or run. It gets the environment without keys. A document on which it hangs or dies is left out, and
another process reads the next one.
"""

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

from madke._util.assets import PACKAGE
from madke.retrieval.documents.reading import Document, Unreadable, read_document

SECONDS = 120.0
"""For one document. A PDF of 1,000 pages takes about 5."""
MEMORY_MB = 1_024
"""Address space of the process; about 100 are used before the first document."""

_ENVIRONMENT = ("PYTHON", "LD_LIBRARY_PATH", "LANG", "LC_", "COVERAGE_")
"""Beginnings of the names of the variables that the process gets: no keys."""


class BoundedReader:
    """Reads documents; its process starts with the first one and ends with :meth:`close`."""

    def __init__(self, *, seconds: float = SECONDS, memory_mb: int = MEMORY_MB) -> None:
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, name: str) -> Document:
        """See :func:`read_document`; Unreadable also if the document takes too much time or memory."""
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        timer = Timer(self._seconds, process.kill)
        timer.start()
        line = b""
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps([str(path), name]).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
        finally:
            timer.cancel()
            if not line.endswith(b"\n"):  # also after Ctrl-C: its answer would be taken for that of the next document
                self.close()
        if not line:
            limits = f"{self._seconds:g} s or {self._memory_mb:,} MB of memory"
            raise Unreadable(f"damaged, or reading it takes more than {limits}")
        reason, found = json.loads(line)
        if reason is not None:
            raise Unreadable(reason or f"needs more than {self._memory_mb:,} MB of memory")
        return Document([(title, text) for title, text in found[0]], *found[1:])

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        package = str(PACKAGE.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0,  # Ctrl-C is for the parent, which ends this process
        )

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def answer_requests(memory_mb: int) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a parser may print: keep that out of the answers
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        path, name = json.loads(line)
        answers.write(json.dumps(_answer(Path(path), name)).encode() + b"\n")
        answers.flush()


def _answer(path: Path, name: str) -> tuple[str | None, Any]:
    """(None, document) or (reason, None); an empty reason stands for a lack of memory."""
    try:
        return None, read_document(path, name)
    except Unreadable as error:
        return str(error), None
    except MemoryError:
        return "", None


if __name__ == "__main__":
    answer_requests(int(sys.argv[1]))
