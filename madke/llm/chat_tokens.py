"""The tokens of a prompt as a model reads it: through its chat template and its tokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from madke.core.chat import Message
from madke.llm.refusals import without_system

_PROBE = "madke-system-probe"


class ChatTokens:
    """A tokenizer with the chat template that comes with it; without one, messages as :func:`as_text` writes them.

    Messages hold text of the web and of other models. Where it spells one of the model's control tokens (``<|im_end|>``
    would end the message), a space after the first character makes plain text of it. Where a template has no place for
    a system message, it stands at the head of the first user message.

    Args:
        tokenizer: One of ``transformers``.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._control = _control_tokens(tokenizer)
        self._takes_system = not tokenizer.chat_template or self._keeps_system_message()

    def of(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a prompt, up to where the reply begins."""
        tokens: list[int] = self._tokenizer(self._text(messages), add_special_tokens=False)["input_ids"]
        return tokens

    def _text(self, messages: Sequence[Message]) -> str:
        chat = [(message.role, self._without_control_tokens(message.content)) for message in messages]
        if not self._tokenizer.chat_template:
            return _plain(chat)
        rendered = [{"role": role, "content": content} for role, content in chat]
        return self._render(rendered if self._takes_system else without_system(rendered))

    def _render(self, chat: Sequence[Mapping[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return text

    def _without_control_tokens(self, text: str) -> str:
        # Again where a token that is broken up was the only thing that hid another.
        while self._control is not None and self._control.search(text):
            text = self._control.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return text

    def _keeps_system_message(self) -> bool:
        """Whether the template has a place for it: some refuse it, some drop it without a word."""
        from jinja2 import TemplateError

        try:
            return _PROBE in self._render([{"role": "system", "content": _PROBE}, {"role": "user", "content": "x"}])
        except TemplateError:
            return False


def as_text(messages: Sequence[Message]) -> str:
    """Messages about as chat templates write them: the role, then the text."""
    return _plain([(message.role, message.content) for message in messages])


def _plain(messages: Sequence[tuple[str, str]]) -> str:
    return "".join(f"<|{role}|>\n{content}\n" for role, content in messages)


def _control_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """What in a text would become one of the tokenizer's control tokens; None for a tokenizer without any.

    These are its special tokens, and added ones that look like markup (``<think>``, ``[INST]``); runs of white space
    and words that some tokenizers add are text like any other.
    """
    contents = {
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or re.fullmatch(r"<\S+>|\[\S+\]", token.content)
    }
    contents |= set(tokenizer.all_special_tokens)
    # A single character cannot be broken up.
    found = sorted((c for c in contents if len(c) > 1 and c.strip()), key=lambda c: (-len(c), c))
    return re.compile("|".join(map(re.escape, found))) if found else None
