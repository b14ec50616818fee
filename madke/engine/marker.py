"""How an answer is written in its marker: what :mod:`madke.engine.parse` reads back."""

from __future__ import annotations

from madke.engine.parse import Marker


def marked(answer: str, marker: Marker) -> str:
    """An answer in its marker."""
    match marker:
        case "brackets":
            return f"[{answer}]"
        case "parentheses":
            return f"({answer})"
        case "boxed":
            return rf"\boxed{{{answer}}}"
        case "text":
            return answer
