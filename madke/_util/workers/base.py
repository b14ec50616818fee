"""What all workers have in common."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeVar

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


IN_THIS_PROCESS = InProcess()


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
