"""The model of a replay: it answers nothing, because every call must be among the kept ones."""

from __future__ import annotations

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError


class NoModel:
    """Named in a ``models.yaml`` as ``python: eval.studies.no_model:NoModel``."""

    name = "none"
    takes_schemas = True

    async def complete(self, request: ChatRequest) -> Completion:
        """CallError: the call is not among the kept ones."""
        raise CallError(f"the {request.purpose.stage} call is not among the kept calls", retryable=False)
