"""Marks around an answer that are no part of it: emphasis, code ticks, quotes, a closing full stop."""

from __future__ import annotations

import re

_PAIRS = (
    ("**", "**"), ("*", "*"), ("__", "__"), ("_", "_"), ("`", "`"), ('"', '"'), ("'", "'"),
    ("\u201c", "\u201d"), ("\u201e", "\u201c"), ("\u2018", "\u2019"), ("\u300c", "\u300d"), ("\u00ab", "\u00bb"),
)  # fmt: skip
_LAYERS = 4
"""How many pairs of marks may stand around an answer."""
_FULL_STOP = re.compile(r"(?<=[^\s.])\.\Z")
_ABBREVIATION = re.compile(r"\.\S+\.\Z|\b[A-Za-z]{1,2}\.\Z")


def unmarked(text: str) -> str:
    """The text on one line, without the emphasis and quotes around all of it: ``Paris`` for ``**"Paris"**``.

    Marks that also stand inside the text stay: ``"Yes" and "no"``.
    """
    text = " ".join(text.split())
    for _ in range(_LAYERS):
        text = _without_pair(text)
    return text


def bare(text: str) -> str:
    """The unmarked text without a full stop at its end. That of ``U.S.``, ``Jr.`` and ``...`` stays."""
    text = unmarked(text)
    return text if _ABBREVIATION.search(text) else unmarked(_FULL_STOP.sub("", text))


def _without_pair(text: str) -> str:
    for opening, closing in _PAIRS:
        inner = text[len(opening) : len(text) - len(closing)]
        marked = text == f"{opening}{inner}{closing}"
        if marked and inner.strip() and opening not in inner and closing not in inner:
            return inner.strip()
    return text
