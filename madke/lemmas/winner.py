"""Who wins, by the package's two rules. Both always name a winner."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from madke.engine.finish import overlaps
from madke.engine.parse import parse_pick


def picked(verdict: str, labels: Sequence[str], *, whole_words: bool = False) -> str:
    """The label that the judge's words pick.

    That is the label that they start with, a colon behind it; else the first label that stands anywhere in them; else,
    without a word, the first label of all. Case does not matter.

    Args:
        verdict: What the judge said.
        labels: The agents' labels, in order.
        whole_words: Labels count only as whole words (``AGENT_1`` does not stand in "AGENT_10 is best", nor ``A`` in
            "Because"), and one that the engine's own reader finds picked comes before others that are named.
    """
    said = verdict.upper()
    for label in labels:
        if said.startswith(f"{label.upper()}:"):
            return label
    if not whole_words:
        return next((label for label in labels if label.upper() in said), labels[0])
    if (found := parse_pick(verdict, labels).value) is not None:
        return found
    named = (label for label in labels if re.search(rf"(?<!\w){re.escape(label.upper())}(?!\w)", said))
    return next(named, labels[0])


def converged(drafts: Mapping[str, str]) -> str:
    """The label whose draft overlaps most with the others' (:func:`madke.engine.finish.overlaps`); first of equals."""
    scores = dict(zip(drafts, overlaps(list(drafts.values())), strict=True))
    return max(scores, key=scores.__getitem__)
