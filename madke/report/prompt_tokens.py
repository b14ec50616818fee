"""What prompts shared, in words: tokens sent, distinct, cached, and the money that this saved."""

from __future__ import annotations

from collections.abc import Collection

from madke.core.chat import Prefix
from madke.core.transcript import StageUsage
from madke.scoring.scores import Scores

_WASTE = 0.3
"""Share of the prompt tokens, neither distinct nor cached, from which advice pays."""


def prompt_line(scores: Scores) -> str | None:
    """Prompt tokens sent, distinct within each debate, and cached; None if no server counted any."""
    total = scores.total
    if not total.prompt_tokens or total.estimated >= total.calls:
        return None
    sent, distinct, cached = total.prompt_tokens, total.distinct_tokens, total.cached_tokens
    saved = scores.spending.saved if scores.spending is not None else 0.0
    parts = [
        f"{sent:,} sent",
        *([f"{distinct:,} distinct"] if distinct else []),
        f"{cached:,} reported as cached ({cached / sent:.0%})",
        *([f"which saved {saved:,.4f}"] if saved else []),
    ]
    return f"prompt tokens: {', '.join(parts)}"


def prefix_advice(total: StageUsage, prefix: Prefix, with_slots: Collection[str] = ()) -> str | None:
    """What would make a server read less again; None if that would be little, or if it is not known to cache.

    ``with_slots`` are the models whose servers keep prompts in slots.
    """
    again = total.prompt_tokens - total.distinct_tokens - total.cached_tokens
    if not total.distinct_tokens or not total.cached_tokens or again < _WASTE * total.prompt_tokens:
        return None
    waste = f"{again:,} prompt tokens were read again"
    if with_slots:
        return f"{waste}: serve {', '.join(sorted(with_slots))} with one slot, or set --concurrency to its slots"
    return None if prefix == "on" else f"{waste}: set --prefix on, so that calls that begin alike wait for the first"
