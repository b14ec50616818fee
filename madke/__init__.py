"""madke: batch question answering by debate between language models over a shared pool of retrieved knowledge.

For one question and completion functions of your own there are :func:`debate` and :func:`adebate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from madke.lemmas import adebate, debate

__all__ = ["__version__", "adebate", "debate"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``debate`` and ``adebate``, with the engine, when they are first asked for: ``import madke`` loads nothing."""
    if name in ("adebate", "debate"):
        from madke import lemmas

        return getattr(lemmas, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
