"""Run programs in forks of a server that has done their imports.

Imports take one to nine seconds of each command, and the tests run hundreds of commands. The server only imports and
starts no JVM. After each program it also imports the modules that the program had imported, for the next one. It keeps
the shipped protocols, whose templates take 0.1 s each to check, and the certificates. All programs share a hash seed;
:func:`run` gives a program whose environment names another seed a process of its own.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_ANEW = ("__", "jnius", "pyserini", "ray", "tests")
"""Prefixes of modules that start something on import; each process imports them itself."""

_FIXED = ("HF_", "HOME", "LD_", "MPL", "PYTHON", "TRANSFORMERS_", "XDG_")
"""Prefixes of environment variables that Python and packages read only at startup or import."""

_OF_RAY = "PYTHONBREAKPOINT"
"""Ray sets it in a process that connects to a cluster. No import reads it."""

_SHARED = "MADKE_TEST_FORKS"
"""The environment variable with the address of the server that all test processes share."""

_CHECKOUT = Path(__file__).parents[2]
_ENVIRONMENT = dict(os.environ)


def run(
    program: str | Path,
    args: Sequence[object],
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    timeout: float,
    lacks: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a module (by its name) or a script (by its path) to the end, as :func:`subprocess.run` does.

    It runs in a fork unless its environment would change the imports. In a fork, importing ``lacks`` fails.
    """
    words = [sys.executable, *([] if isinstance(program, Path) else ["-m"]), str(program), *map(str, args)]
    if suits(env):
        words = command(program, args, lacks=lacks)
    return subprocess.run(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
    )


def command(program: str | Path, args: Sequence[object] = (), *, lacks: str = "") -> list[str]:
    """The command line of a process that runs such a program in a fork, and passes on signals, streams and status."""
    client = str(Path(__file__).with_name("fork_client.py"))
    return [sys.executable, "-IS", client, _address(), lacks, str(program), *map(str, args)]


def install(path: Path, program: str | Path) -> None:
    """Write an executable ``path`` that runs a program as :func:`command` does."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command(program))} "$@"\n')
    path.chmod(0o755)


@cache
def installed() -> Path:
    """A command ``madke`` that runs in a fork, with the imports of this process's environment."""
    path = Path(_address()).with_name("madke")
    if not path.exists():
        install(path, "madke")
    return path


def share() -> None:
    """Start the server, and use it in the test processes that this one starts, too."""
    os.environ[_SHARED] = str(installed().with_name("socket"))


def suits(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment would import as the server did, with that of this process's start."""
    return _fixed(env) == _fixed(_ENVIRONMENT)


def _fixed(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_FIXED) and name != _OF_RAY}


@cache
def _address() -> str:
    """The socket of the server, which starts now unless there is one, and ends with this process."""
    if _SHARED in os.environ:
        return os.environ[_SHARED]
    folder = tempfile.TemporaryDirectory()
    address = f"{folder.name}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as requests:
        requests.bind(address)
        requests.listen(16)
        fd = requests.fileno()
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked", str(fd)],
            cwd=_CHECKOUT,
            env=_ENVIRONMENT,
            pass_fds=[fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def close() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(close)
    return address


def _serve(requests: socket.socket) -> None:
    """Fork a process for each request, and return in it. The server exits at the end of standard input."""
    events = selectors.DefaultSelector()
    events.register(requests, selectors.EVENT_READ)
    events.register(0, selectors.EVENT_READ)
    running: dict[int, tuple[int, socket.socket]] = {}
    """Process id -> its report, and the connection of its client."""
    while True:
        for key, _ in events.select():
            if key.fd == 0:
                sys.exit()
            if key.fileobj is not requests:
                if key.data not in running:
                    continue
                report, asking = running[key.data]
                events.unregister(key.fileobj)
                if key.fileobj is asking:  # the client was killed
                    os.kill(key.data, signal.SIGKILL)
                    continue
                del running[key.data]
                with suppress(KeyError):
                    events.unregister(asking)
                _ended(report, key.data, asking)
                continue
            asking, _ = requests.accept()
            message, fds, *_ = socket.recv_fds(asking, 1 << 20, 3)
            report, reported = os.pipe()
            pid = os.fork()
            if not pid:
                events.close()
                requests.close()
                asking.close()
                return _become(json.loads(message), fds, reported)
            for fd in (reported, *fds):
                os.close(fd)
            with suppress(OSError):  # the client may have ended
                asking.send(str(pid).encode())
            running[pid] = report, asking
            for file in running[pid]:
                events.register(file, selectors.EVENT_READ, pid)


def _become(request: Mapping[str, Any], streams: Sequence[int], report: int) -> None:
    """Run the requested program in this process."""
    # The server may have been started in the background, where both are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    # The server's stream objects were set up for its own files.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    program = request["program"]
    sys.argv = [program, *request["args"]]
    if request["lacks"]:
        sys.modules[request["lacks"]] = None
    is_script = os.sep in program
    sys.path[0] = str(Path(program).parent) if is_script else request["cwd"]
    known = set(sys.modules)
    try:
        if is_script:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    finally:
        with open(report, "w") as file:
            # In the order of import: where _asyncio comes before asyncio, no task knows that it is the current one.
            file.writelines(f"{name}\n" for name in [*sys.modules] if name not in known and _shared(name))
    _exit(status)


def _shared(name: str) -> bool:
    """Whether the server may import it too; modules that a test wrote are excluded."""
    ours = (str(_CHECKOUT / "madke"), sys.prefix, sys.base_prefix)
    place = getattr(sys.modules[name], "__file__", None) or ""
    return not name.startswith(_ANEW) and not name.endswith("__main__") and place.startswith(ours)


def _exit(status: int) -> NoReturn:
    """End as Python does, but leave the memory to the kernel: to free a copy of all imports takes half a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:  # for instance, a full disk or a closed pipe
        status = 120
    os._exit(status)


def _ended(report: int, pid: int, asking: socket.socket) -> None:
    with open(report) as file:
        names = file.read().split()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with asking, suppress(OSError):  # the client may have ended
        asking.send(str(status).encode())
    if new := [name for name in names if name not in sys.modules]:
        for name in new:
            with suppress(ImportError):
                import_module(name)
        if "madke.engine.variant" in new:
            load = sys.modules["madke.engine.variant"]
            for name in load.variant_folders():
                load.load_variant(name)
        if "madke.models.transport" in new:
            sys.modules["madke.models.transport"].certificates()
        gc.collect()
        gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve(socket.socket(fileno=int(sys.argv[1])))
