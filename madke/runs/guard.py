"""What a run wraps around its models and services: limiter, retries, meter and call store."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from madke.core.chat import ChatModel
from madke.core.errors import UserError
from madke.engine.protocol_parts import Knowledge
from madke.models.limiter import Limited, Limits
from madke.models.retry import Retrying
from madke.models.services import AnswerScorer, answer_scoring
from madke.models.store import CallStore, Stored
from madke.retrieval.pools.live_search import LiveSearch, searching
from madke.runs.meter import Meter, Metered

_OTHER_FILES = 256
"""Upper bound on open files other than connections: indexes, the call store, libraries."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Wraps the models and services of a run in limiter, retries, meter and call store, from the inside out.

    The meter is inside the store, so it counts only calls that reach a model.
    """

    limits: Limits
    meter: Meter | None = None
    store: CallStore | None = None
    replay: bool = False
    """Whether only the store answers."""
    payer: str = ""
    """Identifies the run among those that share the store."""
    innermost: Callable[[ChatModel], ChatModel] = lambda model: model
    """A further wrapper, inside the limiter."""

    def model(self, model: ChatModel) -> ChatModel:
        """A model behind the limiter of its endpoint; failed calls are retried."""
        limited = Limited(self.innermost(model), self.limits.of(model), self.limits.prefixes_of(model))
        return self.recorded(Retrying(limited, on_event=self.meter.count_retry if self.meter else None))

    def service(self, service: ChatModel) -> ChatModel:
        """A search or an answer scorer. Failed calls are not retried and do not stop the run."""
        return self.recorded(Limited(self.innermost(service), self.limits.services), service=True)

    def recorded(self, model: ChatModel, *, service: bool = False) -> ChatModel:
        """A model with only meter and call store."""
        metered = Metered(model, self.meter, service=service) if self.meter else model
        return Stored(metered, self.store, replay=self.replay, payer=self.payer) if self.store else metered


def allow_connections(concurrency: int) -> None:
    """Raise the soft limit of open files of this process if ``concurrency`` connections need it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        why = f"needs {needed} open files, but this system allows {hard} (ulimit -Hn)"
        raise UserError(f"--concurrency {concurrency} {why}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def debate_services(
    wrap: Callable[[ChatModel], ChatModel],
    live: LiveSearch | None,
    answer_scorer: AnswerScorer | None,
    knowledge: Knowledge | None,
) -> dict[str, Any]:
    """``retrieve`` and ``score_answers`` of a debate; ``wrap`` puts a service behind limiter and call store."""
    services: dict[str, Any] = {}
    if live is not None and knowledge is not None:
        services["retrieve"] = searching(wrap(live), knowledge)
    if answer_scorer is not None:
        services["score_answers"] = answer_scoring(wrap(answer_scorer))
    return services
