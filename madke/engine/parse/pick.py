"""Debaters' names in a text, and the one that a judge picks.

Names are words of their own, whatever their case: ``AGENT_1`` is not in ``AGENT_10``. The distinctive part of a name
stands for it: "Negative" for "Negative side".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from madke.engine.parse.content import unwrap
from madke.engine.parse.context import standing, stands_alone
from madke.engine.parse.places import MOST, outermost
from madke.engine.parse.result import Parsed, T, abstained, found, windowed

_LONGEST = 200
_ADDED = re.compile(r"\b(?:the|side|team|debater|agent|speaker|number)\b", re.IGNORECASE)
_STATED = (
    r"\b(?:winner|winning\s+\w+|(?:my|final|the)\s+(?:pick|choice|verdict|decision|vote))\b[^.\n]{0,60}?"
    r"(?:\b(?:is|goes\s+to)\b|:)\W{0,9}(?:the\s+)?%s",
    r"\bi\s+(?:(?:would|will|therefore)\s+)?(?:pick|choose|select|prefer|vote\s+for)\W+(?:the\s+)?%s",
    r"%s\W{0,3}(?:side\s+)?(?:wins|won|is\s+the\s+winner|(?:has|gave|makes)\s+the\s+(?:best|better|strongest))\b",
)


@windowed
def parse_pick(text: str, names: Sequence[str]) -> Parsed[str | None]:
    """The one debater that a judge picks.

    Args:
        text: The reply, reasoning left out.
        names: The debaters' names, matched as words of their own, whatever their case.

    Returns:
        One of ``names``, or None. A name in brackets counts, if it is the only one or the last stands alone (rules
        ``marker``, ``alone``); else the one that the text calls the winner (``stated``), or a reply that is nothing
        but a name (``bare``). Several with no conclusion are ``contradictory``; otherwise the rule is ``none``.
    """
    if picks := _bracketed(text, names) or _stated(text, names):
        return settled(text, picks, "marker" if text[picks[0][1][0]] == "[" else "stated")
    only = sole_name(text, names)
    return found(only, "bare", (0, len(text))) if only else abstained(None)


def _bracketed(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for start, end in outermost(text):
        content = unwrap(text[start + 1 : end - 1])
        name = None if content.isdigit() else sole_name(content, names)  # A number is a citation.
        if name and standing(text, start, end) in ("stated", "plain"):
            picks.append((name, (start, end)))
    return picks


def _stated(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for pattern in _STATED if names else ():
        for said in list(re.finditer(pattern % mention(names), text, re.IGNORECASE))[-MOST:]:
            if picked := sole_name(said.group(1), names):
                picks.append((picked, said.span(1)))
    return sorted(picks, key=lambda pick: pick[1])


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


def settled(text: str, said: Sequence[tuple[T, tuple[int, int]]], rule: str) -> Parsed[T | None]:
    """The value that all marks have, or else the last one's if it stands alone and is a marker or a name."""
    value, span = said[-1]
    if len({one for one, _ in said}) == 1:
        return found(value, rule, span)
    is_alone = rule != "labelled" and stands_alone(text, *span)
    return found(value, "alone", span) if is_alone else abstained(None, "contradictory")
