"""The debater that a judge picks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from madke.engine.parse.binary import settled
from madke.engine.parse.content import unwrap
from madke.engine.parse.context import is_denied, is_imagined
from madke.engine.parse.names import mention, sole_name
from madke.engine.parse.places import MOST, NEAR, lead, outermost
from madke.engine.parse.result import Parsed, abstained, found, windowed

_FILLED = r"(?:(?:the|answer|argument|case|debater|side|of|by|from|with|for)\W+){0,4}"
_STATED = (
    r"\b(?:winner|winning\s+\w+|(?:my|final|the)\s+(?:pick|choice|verdict|decision|vote)"
    r"|(?:best|strongest|better|most\s+convincing)\s+(?:answer|argument|case|debater|agent|side))\b[^.\n]{0,60}?"
    rf"(?:\b(?:is|was|goes\s+to)\b|:|=)\W{{0,9}}{_FILLED}%s",
    r"\bi\s+(?:(?:would|will|therefore|now|hence|thus)\s+)?(?:pick|choose|select|favou?r|prefer|support|side|vote)"
    rf"\W+{_FILLED}%s",
    r"%s[*_`\"']{0,3}(?:\s+side)?\s+(?:wins\b|(?:has\s+)?won\b|is\s+the\s+(?:clear\s+)?winner\b"
    r"|(?:has|had|gave|gives|made|makes)\s+the\s+(?:best|better|strongest|stronger|most\s+convincing)\b)",
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
        near, after = lead(text, start), text[end : end + NEAR]
        content = unwrap(text[start + 1 : end - 1])
        name = None if content.isdigit() else sole_name(content, names)  # A number is a citation.
        if name and not is_denied(near, after) and not is_imagined(near, after):
            picks.append((name, (start, end)))
    return picks


def _stated(text: str, names: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    picks = []
    for pattern in _STATED if names else ():
        for said in list(re.finditer(pattern % mention(names), text, re.IGNORECASE))[-MOST:]:
            if picked := sole_name(said.group(1), names):
                picks.append((picked, said.span(1)))
    return sorted(picks, key=lambda pick: pick[1])
