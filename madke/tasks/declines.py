"""Words in an answer's place that say that there is none."""

from __future__ import annotations

import re

_NOT = r"(?:do\s+not|don['\u2019]?t|can\s?not|can['\u2019]?t|could\s+not|couldn['\u2019]?t|am\s+unable\s+to)"
_FIND = r"(?:know|tell|say|answer|determine|decide|find|verify)"
_FOUND = (
    r"(?:determined|answered|known|identified|verified|found|established|inferred|given|stated|mentioned|specified"
    r"|provided|available)"
)
_MORE = (
    r"(?:\s+(?:the\s+(?:correct\s+)?answer|this|that|it)\b)?"
    r"(?:\s*[,.;(].*|\s+(?:for|from|based|with|because|since|given|who|whether)\b.*)?"
)
_DECLINES = re.compile(
    rf"(?:i|we)\s+(?:really\s+)?{_NOT}\s+{_FIND}\b{_MORE}|(?:i\s+am|i['\u2019]m)\s+not\s+(?:sure|certain)\b.*"
    rf"|(?:unable|impossible|not\s+possible)\s+to\s+{_FIND}\b{_MORE}"
    rf"|(?:it\s+|this\s+|the\s+answer\s+)?(?:can\s?not|can['\u2019]?t|could\s+not)\s+be\s+{_FOUND}\b.*"
    rf"|(?:not|none|nothing)\s+(?:is\s+|was\s+)?{_FOUND}\b.*"
    r"|n\s*/\s*a|unknown|not\s+applicable|(?:there\s+is\s+)?no\s+(?:answer|(?:relevant\s+|such\s+)?information)\b.*"
    r"|(?:not\s+enough|insufficient)\s+(?:information|knowledge|evidence|context|data)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_READ = 300


def declines(text: str) -> bool:
    """Whether a text says that there is no answer: "I do not know", "cannot be determined", "N/A"."""
    return len(text) <= _READ and bool(_DECLINES.fullmatch(text.strip(" .!*_\"'")))
