"""Run coroutines together, or from synchronous code."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

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


def finished(work: Coroutine[Any, Any, T]) -> T:
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

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is read
            outcome.set_exception(error)

    threading.Thread(target=run, name="madke", daemon=True).start()
    return outcome


async def told(
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
                part = await (parts.get() if silence is None else asyncio.wait_for(parts.get(), silence))
            if part is task:
                break
            yield part
        yield task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
