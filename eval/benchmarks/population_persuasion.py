"""Who gives way to whom in the recorded debates of Liang et al., in which two sides translate an ambiguous sentence.

Nobody judged these translations. For right and wrong stands a proxy: CommonMT gives a correct and an incorrect
reference of each sentence, and a translation counts as right where it is nearer to the correct one (chrF). The negative
side is told to disagree in its first reply, which is left out. Read by quotations, since debaters name translations in
quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A debater's reply to a translation that is not its own."""

    own_right: bool
    peer_right: bool
    changed: bool


_QUOTED = re.compile(r"[\"“]([^\"“”]*)[\"”]")
_CJK = re.compile(r"[\u3000-\u9fff]")
_WEIGHS = re.compile(r"correct|accurate|better|best|appropriate|agree|valid", re.IGNORECASE)
_NEAR = 0.7
"""A quotation at least so similar to a translation of the whole sentence is one of it, not of a word in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """What a set of debates shows."""

    replies: tuple[Read, ...]
    settled: tuple[bool, ...]
    """Of each debate in which one of the two translations is right, whether it came out as the answer."""


def followed(debates: Iterable[Mapping[str, Any]]) -> Followed:
    """Every reply to the other side's translation, and how debates ended."""
    replies: list[Read] = []
    settled: list[bool] = []
    for entry in debates:
        base, other = entry["base translation"], _disputed(entry)
        if other is None:
            continue
        right = {text: _is_right(text, entry) for text in (base, other)}
        replies += _replies(said(entry, "Affirmative side")[2:], base, other, right)
        replies += _replies(said(entry, "Negative side")[1:], other, base, right)
        if right[base] != right[other]:
            final = entry["debate translation"]
            settled.append(right[base if _alike(final, base) >= _alike(final, other) else other])
    return Followed(replies=tuple(replies), settled=tuple(settled))


def said(entry: Mapping[str, Any], who: str) -> list[str]:
    """Everything that one of the debate said, in order."""
    return [message["content"] for message in entry["players"][who] if message["role"] == "assistant"]


def _disputed(entry: Mapping[str, Any]) -> str | None:
    """The negative side's own translation: the first long quotation in its first reply that is not the other's."""
    base = entry["base translation"]
    quoted = (text for text in _quotations(said(entry, "Negative side")[0]) if len(text) > len(base) / 2)
    return next((text for text in quoted if _alike(text, base) < 0.97), None)


def _replies(texts: Sequence[str], own: str, peer: str, right: Mapping[str, bool]) -> Iterator[Read]:
    """What each reply stands by, up to the first that gives way.

    A reply gives way where the last paragraph that weighs translations quotes the peer's and no longer its own;
    those that quote neither are left out.
    """
    for text in texts:
        weighed = [_quotations(part) for part in text.splitlines() if _WEIGHS.search(part)]
        near = [[q for q in part if max(_alike(q, own), _alike(q, peer)) > _NEAR] for part in weighed]
        if quoted := next((part for part in reversed(near) if part), None):
            changed = all(_alike(text, peer) > _alike(text, own) for text in quoted)
            yield Read(own_right=right[own], peer_right=right[peer], changed=changed)
            if changed:
                return


def _quotations(text: str) -> list[str]:
    return [quoted for quoted in _QUOTED.findall(text) if not _CJK.search(quoted)]


def _alike(left: str, right: str) -> float:
    return SequenceMatcher(None, left.casefold(), right.casefold(), autojunk=False).ratio()


def _is_right(translation: str, entry: Mapping[str, Any]) -> bool:
    from sacrebleu.metrics.chrf import CHRF

    near, far = (
        CHRF().sentence_score(translation, [entry[name]]).score for name in ("correct reference", "incorrect reference")
    )
    return bool(near > far)
