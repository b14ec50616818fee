"""Debaters' names in a text: words of their own, whatever their case. ``AGENT_1`` is not in ``AGENT_10``.

The distinctive part of a name stands for it: "Negative" for "Negative side".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST = 200
_ADDED = re.compile(r"\b(?:the|side|team|debater|agent|speaker|number)\b", re.IGNORECASE)


def mention(names: Sequence[str]) -> str:
    """A pattern with one group, which finds any of the names. Longer names come first, so that none is cut short.

    A distinctive part counts in running text only if it is a word, and no letter or number.
    """
    said = {*names, *(core for name in names if len(core := _core(name)) > 2 and not any(map(str.isdigit, core)))}
    return rf"(?<!\w)({'|'.join(map(re.escape, sorted(said, key=lambda name: (-len(name), name))))})(?!\w)"


def named(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names that occur in a text, in order of their first mention."""
    if not names:
        return ()
    said = re.findall(mention(names), text, re.IGNORECASE)
    return tuple(dict.fromkeys(name for one in said if (name := sole_name(one, names))))


def sole_name(text: str, names: Sequence[str]) -> str | None:
    """The one name that a short text consists of, with or without "the", "side" or "debater"; else None."""
    core = _core(text)
    same = [name for name in names if core and core == _core(name)]
    return same[0] if len(same) == 1 else None


def _core(text: str) -> str:
    if len(text) > _LONGEST:
        return ""
    words = text.replace("_", " ").lower()
    core = " ".join(re.findall(r"[\w.-]+", _ADDED.sub(" ", words))).strip(".- ")
    return core or " ".join(words.split())
