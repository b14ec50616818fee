"""Text of others in a prompt: it stands between tags, and cannot write these tags itself."""

from __future__ import annotations

import re
from functools import cache

TAGS = ("example", "knowledge", "notes", "reply", "review", "summary")
"""The tags of the shipped templates."""


def without_tags(text: str, names: tuple[str, ...] = TAGS) -> str:
    """The text with ``(`` for the ``<`` of every tag with one of these names, opening or closing."""
    return _opening(names).sub("(", text) if "<" in text else text


def quoted_reply(text: str, speaker: str) -> str:
    """A reply between tags, under its speaker. ``_shared/said.j2`` writes the same."""
    return f"{speaker or 'One agent'}: <reply>{without_tags(text)}</reply>"


@cache
def _opening(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\W{{0,9}}(?:{'|'.join(names)})\b)", re.IGNORECASE)
