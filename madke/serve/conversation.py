"""From the messages of a chat to one question: instructions, condensing, and the requests of user interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel, ConfigDict

from madke.assets import asset
from madke.core.chat import Message
from madke.engine.view import without_tags
from madke.serve.wire import ChatMessage, Refusal
from madke.yaml_file import read_yaml

_TASK = "### Task:"
"""How the requests of user interfaces for titles, tags and follow-up questions begin."""

_TAGS = ("conversation", "message")


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The messages of a request, by what they are for."""

    question: str
    """The last message of the user."""
    instructions: str
    """All system messages."""
    earlier: tuple[Message, ...]
    """The turns before the question."""

    @classmethod
    def read(cls, messages: Sequence[ChatMessage]) -> Conversation:
        """Sort the messages; Refusal if the last one is not a question."""
        system = [message.text for message in messages if message.role in ("system", "developer")]
        turns = [message for message in messages if message.role in ("user", "assistant")]
        if not turns or turns[-1].role != "user" or not (question := turns[-1].text.strip()):
            raise Refusal(400, "the last message must be a question of the user, with text", param="messages")
        earlier = tuple(
            Message(role="user" if message.role == "user" else "assistant", content=message.text)
            for message in turns[:-1]
        )
        instructions = "\n\n".join(text.strip() for text in system if text.strip())
        return cls(question=question, instructions=instructions, earlier=earlier)

    @property
    def is_task(self) -> bool:
        """Whether a user interface asks for a title, tags or follow-up questions."""
        return self.question.startswith(_TASK)

    @property
    def plain(self) -> tuple[Message, ...]:
        """The messages of a plain call without a debate."""
        system = (Message(role="system", content=self.instructions),) if self.instructions else ()
        return (*system, *self.earlier, Message(role="user", content=self.question))

    @property
    def condensing(self) -> tuple[Message, ...]:
        """The prompt for the standalone question that the last message means."""
        wording = _wording()
        said = (f'<message from="{turn.role}">\n{_quoted(turn.content)}\n</message>' for turn in self.earlier)
        conversation = "\n".join(["<conversation>", *said, "</conversation>"])
        last = f'The last message:\n<message from="user">\n{_quoted(self.question)}\n</message>'
        content = "\n\n".join((wording.instruction, conversation, last, wording.closing))
        return Message(role="system", content=wording.system), Message(role="user", content=content)


class _Wording(BaseModel):
    """``prompts/serving/condense.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    instruction: str
    closing: str


@cache
def _wording() -> _Wording:
    return read_yaml(asset("prompts", "serving", "condense.yaml"), _Wording)


def _quoted(text: str) -> str:
    return without_tags(text, _TAGS)
