"""Text of models, the web and datasets, made fit for a terminal."""

from __future__ import annotations

import unicodedata

_STEERING = ("Cc", "Cf", "Cs", "Co")


def printable(text: str) -> str:
    """The text without control and formatting characters (escape sequences, bidi overrides); newlines stay."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _STEERING)
