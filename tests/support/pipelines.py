"""Models behind a call pipeline, or behind a part of one."""

from typing import Any

from madke.core.chat import ChatModel
from madke.models.limiter import Limiter, Limits
from madke.models.pipeline import CallPipeline, RetryPolicy
from madke.models.prefixes import Prefixes
from madke.models.store import CallStore

ONCE = RetryPolicy(attempts=1, rejections=1, empties=0)


class OneLimiter(Limits):
    """The same limiter and gate for all models."""

    def __init__(self, limiter: Limiter, prefixes: Prefixes | None = None) -> None:
        super().__init__(1)
        self._limiter, self._gate = limiter, prefixes

    def of(self, model: object) -> Limiter:
        return self._limiter

    def prefixes_of(self, model: object) -> Prefixes | None:
        return self._gate


def limited(model: Any, limiter: Limiter, prefixes: Prefixes | None = None, **options: Any) -> ChatModel:
    """Within these limits; a call has one attempt, unless ``retries`` says otherwise."""
    return CallPipeline(limits=OneLimiter(limiter, prefixes), **{"retries": ONCE, **options}).model(model)


def stored(model: Any, store: CallStore, **options: Any) -> ChatModel:
    """Behind the store alone."""
    return CallPipeline(limits=Limits(1000), store=store, **options).service(model)
