"""Notice prompts that a server cuts without an error: Ollama's default window drops the middle of a long prompt.

The server's own count of prompt tokens tells: a prompt counts as cut if it is below two thirds of what was sent. What
was sent is estimated in *units*: words, and parts of a unit for digits, punctuation and characters of scripts without
spaces. Earlier calls show how many tokens the model's tokenizer makes of a unit. Until then, the estimate is what the
most economical tokenizers make of simple prose. Whitespace does not count. A missed cut is better than a false alarm:
the lowest ratio of earlier calls is used, and never more than 1.5, since another language may need fewer tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from madke.core.chat import Message

_SHARE = 2 / 3
_SHORTEST = 2000
"""Characters of a prompt that can be cut. In shorter ones, the chat template is a large part of the tokens."""
_UNLEARNED, _MOST = 1.2, 1.5
"""Tokens for each unit: before any are learned, and the most that is expected of another text."""
_ENOUGH, _FULL = 3, 20
"""Number of prompts from which the ratio is learned, at least and at most."""

_DENSE = r"\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese, Japanese and Korean."""
_SYMBOLS = r"\u2000-\u2bff\U0001f000-\U0001faff"
_UNITS = re.compile(
    rf"(?P<word>[^\s\d!-/:-@\[-`{{-~{_DENSE}{_SYMBOLS}]+)|(?P<digits>\d+)|(?P<dense>[{_DENSE}])|[^\s\d\w{_DENSE}]+|_+"
)


class CutPrompts:
    """The prompts of one model at one server."""

    def __init__(self) -> None:
        self._ratios: list[float] = []
        """Tokens for each unit, of the first prompts that were not cut."""

    def expected(self, messages: Iterable[Message], counted: int) -> int | None:
        """About how many tokens were sent, if ``counted``, the server's number, shows that it cut the prompt."""
        text = "\n".join(message.content for message in messages)
        if len(text) < _SHORTEST:
            return None
        # Counting units takes as long as the rest of a call, so most prompts are only looked at.
        if len(self._ratios) == _FULL and counted > _UNLEARNED * _glanced(text):
            return None
        units = _units(text)
        each = min(*self._ratios, _MOST) if len(self._ratios) >= _ENOUGH else _UNLEARNED
        if counted < _SHARE * each * units:
            return round(each * units)
        if len(self._ratios) < _FULL and units:
            self._ratios.append(counted / units)
        return None


def cut_warning(model: str, expected: int, counted: int, max_tokens: int) -> str:
    """The line that a run shows at the first prompt of a model that its server cut."""
    window = 1 << (expected + expected // 4 + max_tokens).bit_length()
    return (
        f"{model}: the server counted {counted:,} tokens of a prompt of about {expected:,}, so it cuts long prompts to "
        f"its context window without an error. Enlarge the window. Ollama: PARAMETER num_ctx {window} in the model "
        f"file, or OLLAMA_CONTEXT_LENGTH={window}; behind a gateway that passes it on, extra_body: "
        f"{{num_ctx: {window}}} in models.yaml. Other servers have their own setting. `madke score` counts such calls"
    )


def _glanced(text: str) -> float:
    """About the units of a text, at a fraction of the time: its spaces, and half a unit for a dense character."""
    return text.count(" ") + (len(text.encode("utf-8", "replace")) - len(text)) / 4


def _units(text: str) -> float:
    """The units of a text. A tokenizer makes at least one token of a word, of three digits or of two characters."""
    units = 0.0
    for found in _UNITS.finditer(text):
        match found.lastgroup:
            case "word":
                units += 1 + (found.end() - found.start()) // 12
            case "digits":
                units += (found.end() - found.start()) / 3
            case _:
                units += 0.5
    return units
