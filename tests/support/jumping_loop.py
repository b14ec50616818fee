"""An event loop whose clock jumps to the next timer when nothing else is to be done: hours pass at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """``time`` begins at 0. For coroutines that only sleep; it does not wait for sockets or threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None = None) -> Any:
            self._now += timeout or 0.0
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        """Seconds since the start, without any waiting."""
        return self._now


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine in such a loop."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)
