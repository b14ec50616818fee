"""Run coroutines together, or from synchronous code."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")

Tell = Callable[[Any], None]


async def gather(coroutines: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run all coroutines at once and return their results in order.

    The first exception cancels the others and is raised itself, not in a group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. If this thread runs an event loop, the coroutine runs in another thread."""
    return outside_loop(lambda: asyncio.run(work))


def outside_loop(work: Callable[[], T]) -> T:
    """The result of work that runs event loops of its own: in another thread if this one runs a loop."""
    # Not inside an except block: its exception would be the context of those of the work.
    return work() if asyncio._get_running_loop() is None else in_thread(work).result()


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start work in a daemon thread, which nothing waits for at exit."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # the waiting caller may leave; the thread goes on

    def fulfil() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is read
            outcome.set_exception(error)

    threading.Thread(target=fulfil, name="madke", daemon=True).start()
    return outcome


async def stream_progress(
    work: Callable[[Tell], Coroutine[Any, Any, object]], silence: float | None = None
) -> AsyncGenerator[Any, None]:
    """Yield what the work tells, and at last its result; None after each ``silence`` seconds in which it tells nothing.

    Closing the generator cancels the work.
    """
    parts: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.create_task(work(parts.put_nowait))
    task.add_done_callback(parts.put_nowait)
    try:
        while True:
            part = None
            with suppress(TimeoutError):
                async with asyncio.timeout(silence):
                    part = await parts.get()
            if part is task:
                break
            yield part
        yield task.result()
    finally:
        await cancel_tasks(task)


END_SECONDS = 10.0
"""How long cancelled work may take to end, before nobody waits for it any more."""

_ENDING: set[asyncio.Task[None]] = set()
"""An event loop holds its tasks weakly."""


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they are done. It goes on if the caller is cancelled, and gives up after END_SECONDS."""

    async def cancel() -> None:
        left, attempts = {*tasks}, 10
        for _ in range(attempts):
            for task in left:
                task.cancel()
            if left:
                _, left = await asyncio.wait(left, timeout=END_SECONDS / attempts)
        if left:
            _log.error("%d cancelled tasks do not end: %s", len(left), ", ".join(map(repr, left)))

    ending = asyncio.create_task(cancel())
    _ENDING.add(ending)
    ending.add_done_callback(_ENDING.discard)
    await asyncio.shield(ending)


class DaemonThreads(ThreadPoolExecutor):
    """At most ``count`` threads at work. No end waits for them: neither that of a loop, nor of the interpreter."""

    def __init__(self, count: int = 8) -> None:
        super().__init__(count)
        self._free = threading.Semaphore(count)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call ``fn`` in a thread of its own, as soon as fewer than ``count`` are at work."""

        def work() -> T:
            with self._free:
                return fn(*args, **kwargs)

        return in_thread(work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for no thread; each ends with its work."""
