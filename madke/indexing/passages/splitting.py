"""Text to disjoint passages of so many words, as DPR made its Wikipedia passages."""

from __future__ import annotations

from collections.abc import Iterator


def split_words(text: str, words: int) -> Iterator[str]:
    """Passages of ``words`` words (what white space separates), joined by one space; the last one may be shorter.

    Every word is in exactly one passage. DPR's own passages have 100 words (Karpukhin et al. 2020, section 4.1).
    """
    found = text.split()
    for start in range(0, len(found), words):
        yield " ".join(found[start : start + words])
