"""Synchronous calls over asynchronous ones, inside a running event loop (a notebook) too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Where this thread runs an event loop, another thread runs one of its own for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # whatever it is, it is the caller's
            errors.append(error)

    thread = threading.Thread(target=run, name="madke", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
