"""Words in an answer's place that say that there is none."""

from __future__ import annotations

import re

_NOT = r"(?:(?:do|can|could)\s?n(?:o|['\u2019])?t|can['\u2019]?t|am\s+(?:unable|not\s+able)\s+to)"
_SORRY = r"(?:(?:i['\u2019]?\s?a?m\s+)?(?:sorry|afraid)[,.]?\s+(?:but\s+)?|unfortunately,?\s+)?"
_FIND = r"(?:know|tell|say|answer|determine|decide|find|verify|identify|provide|give)"
_FOUND = (
    r"(?:determined|answered|known|identified|verified|found|established|inferred|given|stated|mentioned|specified"
    r"|provided|available)"
)
_KNOWLEDGE = r"(?:information|knowledge|evidence|context|data|details?)"
_MORE = (
    r"(?:\s+(?:(?:the|an)\s+(?:\w+\s+)?answer|this|that|it)\b)?"
    r"(?:\s*[,.;(].*|\s+(?:for|from|based|with|because|since|given|who|whether|to)\b.*)?"
)
_DECLINES = re.compile(
    rf"{_SORRY}(?:(?:i|we)\s+(?:really\s+)?{_NOT}\s+{_FIND}\b{_MORE}"
    rf"|(?:i|we)\s+(?:do\s+not|don['\u2019]?t)\s+have\s+(?:the|an|any|enough|sufficient)\s+(?:\w+\s+)?"
    rf"(?:answer|{_KNOWLEDGE})\b.*"
    rf"|(?:i\s+am|i['\u2019]m)\s+not\s+(?:sure|certain)\b.*"
    rf"|(?:unable|impossible|not\s+possible)\s+to\s+{_FIND}\b{_MORE}"
    rf"|(?:it\s+|this\s+|(?:the|an)\s+answer\s+)?(?:can\s?not|can['\u2019]?t|could\s+not)\s+be\s+{_FOUND}\b.*"
    rf"|(?:not|none|nothing)\s+(?:is\s+|was\s+)?{_FOUND}\b.*|(?:the\s+answer\s+is\s+)?unknown|n\s*/\s*a|not\s+applicable"
    rf"|(?:there\s+is\s+)?no\s+(?:answer|(?:relevant\s+|such\s+)?information)\b.*"
    rf"|(?:there\s+is\s+)?(?:not\s+enough|insufficient)\s+{_KNOWLEDGE}\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_READ = 300


def declines(text: str) -> bool:
    """Whether a text says that there is no answer: "I do not know", "cannot be determined", "N/A"."""
    return len(text) <= _READ and bool(_DECLINES.fullmatch(text.strip(" .!*_\"'")))
