"""Run a function over tasks in this process, in several processes, or on a Ray cluster.

The function takes one task and writes no files. Tasks and results are pickled, and only the calling process writes
files, so a cluster needs a shared disk only for what the function reads.
"""

import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Literal, Protocol, TypeVar, cast

from madke._util.assets import require, versions
from madke.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H")

Engine = Literal["local", "ray"]


class Workers(Protocol):
    """Runs a function over tasks."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks; a few tasks are taken from the iterable in advance.

        Closing the iterator early cancels the running tasks. Exceptions of the function are raised here; a UserError
        means that the work cannot continue.
        """


class InProcess:
    """Runs tasks one after another in this process: for functions that use all cores themselves."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        return map(function, tasks)


def in_order(
    submit: Callable[[T], H], result: Callable[[H], R], tasks: Iterable[T], *, ahead: int, cancel: Callable[[H], object]
) -> Iterator[R]:
    """Submit at most ``ahead`` tasks at once and yield their results in order; on exit, cancel the rest."""
    waiting: deque[H] = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) >= ahead:
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())
    finally:
        for handle in waiting:
            cancel(handle)


def open_workers(
    engine: Engine, *, processes: int | None = None, gpus: bool = False
) -> AbstractContextManager[Workers]:
    """Open workers for a ``with`` block; they end with the block.

    Args:
        engine: ``local``: this process or several. ``ray``: a Ray cluster; see :func:`ray_connection`.
        processes: Number of processes for the engine ``local``; None: this process does the work.
        gpus: For functions that use a GPU, or all cores without one. On a cluster, each task gets a GPU or, if there
            are none, as many CPUs as the smallest node has. If False, each task gets one CPU.
    """
    if engine == "ray":
        return _ray_workers(gpus=gpus)
    return nullcontext(InProcess()) if processes is None else _local_workers(processes)


@contextmanager
def _local_workers(processes: int) -> Iterator[Workers]:
    # A process with a JVM or torch threads must not fork.
    context = multiprocessing.get_context("spawn")
    started = []
    workers = _Processes(processes)
    try:
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            started.append(process)
            workers.idle.put(ours)
        yield workers
    finally:
        for process in started:
            process.kill()  # it has no unfinished work now
        workers.threads.shutdown(cancel_futures=True)
        for process in started:
            process.join()


class _Processes:
    """Processes, each with its own pipe and waiting thread, so that one may be killed while it sends a result."""

    def __init__(self, count: int) -> None:
        self.idle: SimpleQueue[Connection] = SimpleQueue()
        self.threads = ThreadPoolExecutor(count)
        self._count = count

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        def submit(task: T) -> Future[R]:
            return self.threads.submit(self._run, function, task)

        return in_order(submit, Future.result, tasks, ahead=2 * self._count, cancel=Future.cancel)

    def _run(self, function: Callable[[T], R], task: T) -> R:
        pipe = self.idle.get()
        try:
            pipe.send_bytes(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL))
            answer = pipe.recv_bytes()
        except (EOFError, OSError):
            resume = "finished work is kept; run the same command again to resume"
            raise UserError(f"a worker process ended abruptly, perhaps because memory ran out; {resume}") from None
        finally:
            self.idle.put(pipe)
        done, value = pickle.loads(answer)
        if not done:
            raise value
        return cast(R, value)


def _serve(pipe: Connection) -> None:
    """Answer requests from the pipe until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and kills this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(request: bytes) -> bytes:
    """A task's pickled result, or its exception with this process's traceback as a note."""
    try:
        function, task = pickle.loads(request)
        return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return pickle.dumps((False, error))


def _end_with_parent() -> None:
    """Exit when the parent ends: a killed parent cannot stop its workers, and a busy worker reads no pipe."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


# A Ray cluster: this process must run on one of its nodes. The bytes of a result depend on the versions of madke and
# its extras, which must be the same on all nodes, and on the number of threads; a task has as many threads as CPUs.

_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_SIGACTION_BYTES = 512
"""Bytes, more than a ``struct sigaction`` needs on any system. Python's ``signal`` sees only its own handlers."""


@contextmanager
def _fault_signals_kept() -> Iterator[None]:
    """Restore the handlers of memory faults, which Ray replaces when it connects and disconnects.

    The Java virtual machine causes faults on purpose: without its handlers, a process with an open Lucene index ends.
    """
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(_SIGACTION_BYTES) for number in _FAULTS}
    for number, action in kept.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            libc.sigaction(int(number), action, None)


_MAX_RETRIES = 3
"""Retries of a task whose worker or node was lost; limited, since the task itself may kill its worker."""
_CONNECT_SECONDS = 5.0
"""How long to wait for a connection to the cluster's head; Ray itself tries for two minutes."""
# The first avoids Ray's warning that a later version will hide GPUs; the second turns off usage reports.
_SETTINGS = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def _ray_workers(*, gpus: bool) -> Iterator[Workers]:
    with ray_connection() as ray:
        yield _Cluster(ray, gpus=gpus)


@contextmanager
def ray_connection() -> Iterator[Any]:
    """Yield the package ``ray``, connected to ``RAY_ADDRESS`` (``HOST:PORT`` or ``auto``), or to a new local cluster.

    An existing connection is used and stays open. Output printed in the block goes to stderr.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    require("--engine ray needs", "ray", "ray")
    import ray

    # Keeps Ray's messages about lost tasks out of the commands' output, which scripts read.
    with redirect_stdout(sys.stderr):
        if ray.is_initialized():
            yield ray
            return
        with _fault_signals_kept():
            _connect(ray, os.environ.get("RAY_ADDRESS"))
        try:
            yield ray
        finally:
            with _fault_signals_kept():
                ray.shutdown()


def same_versions(expected: Mapping[str, str]) -> Callable[[], None]:
    """A check that a node runs before its first task. Pickled with its code, so that it can report a missing madke."""

    def check() -> None:
        from madke._util.assets import versions
        from madke.core.errors import UserError

        installed = versions()
        known = sorted(installed.keys() | expected.keys())
        names = (name for name in known if installed.get(name) != expected.get(name))
        others = ", ".join(
            f"{name} {installed.get(name, 'missing')} (expected {expected.get(name, 'none')})" for name in names
        )
        if others:
            node = f"the node {socket.gethostname()} has other versions than this machine"
            raise UserError(f"Ray: {node}: {others}; install the same versions on every node")

    return check


def cause_on_node(error: Any) -> BaseException:
    """The exception raised on a node, from Ray's ``RayTaskError``."""
    raised: BaseException = error.cause
    if isinstance(raised, ModuleNotFoundError):
        return UserError(f"Ray: {raised} on a worker; every node needs madke and its extras")
    return raised


def fetch_result(ray: Any, reference: Any, during: str = "Ray") -> Any:
    """A result from a node; raises the exception of its task there, or a UserError that begins with ``during``."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise cause_on_node(error) from error
    except ray.exceptions.RayError as error:
        raise UserError(f"{during}: {error}") from None


def _connect(ray: Any, address: str | None) -> None:
    if address and address != "auto":
        _check_answers(address)
    local = {} if address else {"include_dashboard": False}
    try:
        # Without an address, Ray would use the cluster last started on this machine.
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        ray.shutdown()  # after a version mismatch, Ray believes that it is connected
        raise UserError(f"Ray cluster at {address or 'this machine'}: {error}") from None


def _check_answers(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        why = f"no answer ({error}); expected HOST:PORT of its head, for instance 10.0.0.1:6379, or auto"
        raise UserError(f"Ray cluster at {address}: {why}") from None


class _Cluster:
    def __init__(self, ray: Any, *, gpus: bool) -> None:
        self._ray = ray
        self._needs, self._slots = {"num_cpus": 1, "num_gpus": 1}, int(ray.cluster_resources().get("GPU", 0))
        if not (gpus and self._slots):
            cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
            each = min((count for count in cpus if count), default=1) if gpus else 1
            self._needs, self._slots = {"num_cpus": each}, sum(count // each for count in cpus)

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        pickled = self._ray.cloudpickle.dumps(function)
        check = same_versions(versions())
        loaded: list[Callable[[T], R]] = []

        # Sent once to each worker.
        @self._ray.remote(max_retries=_MAX_RETRIES, **self._needs)  # type: ignore[untyped-decorator]
        def work(task: T) -> R:
            if not loaded:
                check()
                loaded.append(pickle.loads(pickled))
            return loaded[0](task)

        # A result stays on its node until it is fetched here; if it is lost, Ray runs the task again.
        result, cancel = partial(fetch_result, self._ray), partial(self._ray.cancel, force=True)
        return in_order(work.remote, result, tasks, ahead=2 * max(1, self._slots), cancel=cancel)
