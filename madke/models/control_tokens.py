"""Text that spells a control token of a model (``<|im_end|>``) is made plain text, before a chat template is applied.

Messages contain text from the web and from other models. A control token in it would end the message.
"""

import re
from collections.abc import Iterable


def looks_like_markup(token: str) -> bool:
    """Whether a token that is not declared as special may still be one (``<think>``, ``[INST]``)."""
    return re.fullmatch(r"<\S+>|\[\S+\]", token) is not None


class ControlTokens:
    """The control tokens of one model."""

    def __init__(self, tokens: Iterable[str]) -> None:
        # Spaces around a token do not matter once the rest is split. A single character cannot be split.
        found = sorted({bare for t in tokens if len(bare := t.strip()) > 1}, key=lambda t: (-len(t), t))
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def escaped(self, text: str) -> str:
        """The text with a space after the first character of each control token."""
        # Repeat, since escaping one token can expose another.
        while self._pattern is not None and self._pattern.search(text):
            text = self._pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return text
