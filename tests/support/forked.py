"""Programs in processes of their own whose imports are already done: forked from a server that did them once.

Importing takes one to nine seconds of a command's time, and the tests run hundreds of commands. The server starts no
JVM and does nothing but import. What a program imported, the server imports afterwards, so that the next one finds it.
All programs of one server share a hash seed; those that :func:`tests.support.cli.started` starts have their own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_ANEW = ("__", "jnius", "pyserini", "ray", "tests")
"""Beginnings of the names of modules that each process imports itself: those that start something."""

_FIXED = ("HF_", "HOME", "LD_", "MPL", "PYTHON", "TRANSFORMERS_", "XDG_")
"""Beginnings of the names of variables that Python and packages read only once."""

_ENVIRONMENT = dict(os.environ)
_CHECKOUT = Path(__file__).parents[2]


def run(
    program: str | Path, args: Sequence[str], *, cwd: Path | None, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a module (by its name) or a script (by its path) to the end, as :func:`subprocess.run` does."""
    words = [program, *args] if isinstance(program, Path) else ["-m", program, *args]
    if _fixed(env) != _fixed(_ENVIRONMENT):
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=timeout)
    request = {"program": str(program), "script": isinstance(program, Path), "args": args, "env": dict(env)}
    request["cwd"] = str(cwd or Path.cwd())
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with theirs:
            fds = [theirs.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(_server(), [json.dumps(request).encode()], fds)
        ours.settimeout(timeout)
        pid = int(ours.recv(64))
        try:
            status = int(ours.recv(64))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(words, timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, status, out.read().decode(), err.read().decode())


def _fixed(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_FIXED)}


@cache
@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())]
        fds = [theirs.fileno()]
        server = subprocess.Popen(command, cwd=_CHECKOUT, env=_ENVIRONMENT, pass_fds=fds, stdout=subprocess.DEVNULL)

    def stop() -> None:
        ours.close()
        server.wait()

    atexit.register(stop)
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork a process for each request; return in that process, and end when nobody is left to ask."""
    events = selectors.DefaultSelector()
    events.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is not requests:
                events.unregister(key.fileobj)
                _ended(int(key.fd), *key.data)
                continue
            message, fds, *_ = socket.recv_fds(requests, 1 << 20, 3)
            if not message:
                sys.exit()
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                events.close()
                requests.close()
                return _become(json.loads(message), *fds[1:], report=writing)
            answer, *handed = fds
            for fd in (writing, *handed):
                os.close(fd)
            os.write(answer, str(pid).encode())
            events.register(reading, selectors.EVENT_READ, (pid, answer))


def _become(request: dict[str, Any], out: int, err: int, *, report: int) -> None:
    """Be the program that was asked for."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    program = request["program"]
    sys.argv = [program, *request["args"]]
    sys.path[0] = str(Path(program).parent) if request["script"] else request["cwd"]
    try:
        if request["script"]:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        with open(report, "w") as file:
            file.writelines(f"{name}\n" for name, module in list(sys.modules.items()) if _shared(name, module))


def _shared(name: str, module: object) -> bool:
    """Whether the next process may find it imported; what a test wrote is not."""
    ours = (str(_CHECKOUT / "madke"), sys.prefix, sys.base_prefix)
    place = getattr(module, "__file__", None) or ""
    return not name.startswith(_ANEW) and not name.endswith("__main__") and place.startswith(ours)


def _ended(report: int, pid: int, answer: int) -> None:
    with open(report) as file:
        known = file.read().split()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(answer, str(status).encode())
    os.close(answer)
    for name in known:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(socket.socket(fileno=int(sys.argv[1])))
