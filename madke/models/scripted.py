"""A model with scripted replies: for tests, for replayed case studies, for trying a variant."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, RootModel

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.models.prices import estimated_usage

ScriptedReply = str | Completion | Exception
"""A text, a whole completion, or an exception to raise (a ``CallError`` for a failed attempt)."""

ReplyKey = str | tuple[str, str] | tuple[str, str, int]
"""A stage, (stage, agent), or (stage, agent, round)."""

Replies = (
    Sequence[ScriptedReply]
    | Mapping[ReplyKey, ScriptedReply]
    | Callable[[ChatRequest], ScriptedReply | Awaitable[ScriptedReply | None] | None]
)


class ScriptedChat:
    """A ChatModel with fixed or computed replies, which records its requests.

    Args:
        replies: A sequence, used in the order of the calls; or a mapping from :data:`ReplyKey`, of which the most
            specific key wins; or a function of the request, sync or async. A request without a reply gets a failed
            completion that names its purpose.
        name: The model's name.
    """

    def __init__(self, replies: Replies, *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self._replies = replies if callable(replies) or isinstance(replies, Mapping) else iter(replies)

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """A model that follows the rules of a YAML file.

        The file holds a list of mappings with ``reply`` and any of ``stage``, ``agent``, ``round`` and ``question``
        (an id). The first rule whose fields all match the request answers it. The model's name contains a fingerprint
        of the file, so that an edited file is another model.
        """
        from madke._util.yaml_file import read_content, validate

        path = Path(path)
        content, text = read_content(path)
        rules = validate(content, _Rules, file=path).root

        def reply(request: ChatRequest) -> str | None:
            return next((rule.reply for rule in rules if rule.matches(request.purpose)), None)

        return cls(reply, name=f"scripted/{path.name}#{sha256(text.encode()).hexdigest()[:8]}")

    @property
    def calls(self) -> int:
        """Number of requests so far."""
        return len(self.requests)

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the scripted reply to the request."""
        self.requests.append(request)
        reply: Any
        p = request.purpose
        if isinstance(self._replies, Mapping):
            keys: tuple[ReplyKey, ...] = ((p.stage, p.agent, p.round), (p.stage, p.agent), p.stage)
            reply = next((self._replies[key] for key in keys if key in self._replies), None)
        else:
            reply = self._replies(request) if callable(self._replies) else next(self._replies, None)
        if inspect.isawaitable(reply):
            reply = await reply
        if reply is None:
            about = f"stage {p.stage!r}, agent {p.agent!r}, round {p.round}, question {p.question!r}"
            error = f"the script has no reply for {about} (call {self.calls})"
            return Completion(outcome="failed", error=error, finish_reason="error")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        return Completion(text=reply, usage=estimated_usage(request.messages, reply))


class _Rule(BaseModel, extra="forbid", frozen=True, strict=True):
    reply: str
    stage: str | None = None
    agent: str | None = None
    round: int | None = None
    question: str | None = None

    def matches(self, purpose: Purpose) -> bool:
        conditions = self.model_dump(exclude={"reply"}, exclude_none=True)
        return all(getattr(purpose, name) == value for name, value in conditions.items())


class _Rules(RootModel[list[_Rule]]):
    pass
