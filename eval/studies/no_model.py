"""The model of a replay: it answers nothing, because every call must be among the kept ones."""

from __future__ import annotations

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError


class NoModel:
    """Has the name of the model whose calls are replayed. In a ``models.yaml``: ``eval.studies.no_model:NoModel``."""

    def __init__(self, name: str = "none", *, takes_schemas: bool = True) -> None:
        self.name = name
        self.takes_schemas = takes_schemas
        """As the model whose calls are replayed: a call is found by its form."""

    async def complete(self, request: ChatRequest) -> Completion:
        """CallError: the call is not among the kept ones."""
        raise CallError(f"the {request.purpose.stage} call is not among the kept calls", retryable=False)
