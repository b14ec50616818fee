"""Text of models, the web and datasets, made fit for a terminal, and keys kept out of what is shown or written."""

from __future__ import annotations

import os
import re
import unicodedata

_STEERING = ("Cc", "Cf", "Cs", "Co")

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_SECRET_LENGTH = 8
"""A shorter value is a switch, such as that of TOKENIZERS_PARALLELISM."""


def printable(text: str) -> str:
    """The text without control and formatting characters (escape sequences, bidi overrides); newlines stay."""
    return "".join(c for c in text if not _steers(c))


def printable_json(json_text: str) -> str:
    """JSON of the same value, with every control and formatting character escaped."""
    return "".join(_escaped(c) if _steers(c) else c for c in json_text)


def without_keys(text: str) -> str:
    """The text, with ``***`` for each key, token or password of the environment that it repeats."""
    for name, value in os.environ.items():
        # Keys are sent without the newline that one from a file has at its end.
        if _SECRET.search(name) and len(value.strip()) >= _SECRET_LENGTH:
            text = text.replace(value.strip(), "***")
    return text


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING and character not in "\n\t"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
