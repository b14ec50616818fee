"""Doing several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(coroutines: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run all of them at once and return their results in order.

    The first exception cancels the others and is raised itself, not inside a group: callers handle one error.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]
