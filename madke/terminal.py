"""Text of models, the web and datasets, made fit for a terminal."""

from __future__ import annotations

import unicodedata

_STEERING = ("Cc", "Cf", "Cs", "Co")


def printable(text: str) -> str:
    """The text without control and formatting characters (escape sequences, bidi overrides); newlines stay."""
    return "".join(c for c in text if not _steers(c))


def printable_json(json_text: str) -> str:
    """JSON of the same value, with every control and formatting character escaped."""
    return "".join(_escaped(c) if _steers(c) else c for c in json_text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING and character not in "\n\t"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
