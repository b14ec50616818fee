"""The search that a debater asks for."""

from __future__ import annotations

import re

from madke.engine.parse.places import outermost
from madke.engine.parse.result import Parsed, abstained, found, windowed

LONGEST = 300
"""Characters of a query; a longer one is cut."""

_SEARCH = re.compile(r"\s*search\s*:\s*", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"\W*(?:(?:the|your|my|a|an|insert|search|new|short|one|what\s+to)\s+){0,4}"
    r"(?:quer(?:y|ies)|questions?|search(?:\s+for)?|terms?|key\s?words?|text|x)(?:\s+(?:here|terms?|string|text))?\W*|\W*",
    re.IGNORECASE,
)


@windowed
def parse_search(text: str) -> Parsed[str | None]:
    """The query of the last ``[Search: query]`` of a reply.

    Args:
        text: The reply, reasoning left out.

    Returns:
        The query, white space folded, at most :data:`LONGEST` characters (rule ``marker``); None where there is none
        or only an echo of the form (``none``).
    """
    for start, end in reversed(outermost(text)):
        marker = _SEARCH.match(text, start + 1, end - 1)
        query = " ".join(text[marker.end() : end - 1].split()).strip("\"'") if marker else ""
        if query and not _PLACEHOLDER.fullmatch(query[: LONGEST + 1]):
            return found(query[:LONGEST].rstrip(), "marker", (start, end))
    return abstained(None)
