"""What debaters took from the pool, and whether it was what the dataset marks as evidence.

All values are means over the selections of one debate whose calls did not fail; a reply in which no selection could be
read is one that chose nothing. Selections of a first round that was given are nobody's.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from madke.core.transcript import PoolEntry, Selection, Transcript
from madke.scoring.metrics import listed

_Chosen = Mapping[str, Selection]
"""Debater -> what it chose in one round."""


def selection_values(transcript: Transcript) -> dict[str, float]:
    """The values of one debate; a name that is missing does not apply to it.

    ``no_found``
        The share of selections that decline all knowledge.
    ``selected_ids``
        Passages a selection.
    ``selection_overlap``
        The Jaccard index of two debaters' choices in one round, over pairs of whom at least one chose something.
    ``selection_change``
        1 minus the Jaccard index of one debater's choices in two adjacent rounds; 0 where it chose nothing both times.
    ``share_<source>``
        The share of all chosen passages that came from a source of the pool; these add up to 1.
    ``pool_recall``
        The share of gold passages, or else of gold titles, that the pool holds. What debaters searched for later is
        left out, as from all gold below. Gold comes from ``metadata["gold_passages"]`` (keys), or else
        ``metadata["gold_titles"]``: every passage of such a page counts as evidence.
    ``selection_precision``
        The share of a selection's passages that are gold, over selections that chose some; where the pool holds gold.
    ``selection_recall``
        The share of the gold in the pool that a selection holds; where the pool holds some.
    ``misinformation_selected``
        The share of selections with a passage of ``metadata["misinformation_passages"]`` (keys; RAMDocs); where the
        pool holds one.
    """
    played = transcript.rounds[1:] if transcript.given else transcript.rounds
    rounds: list[_Chosen] = [
        {
            turn.agent: turn.selection
            for turn in entry.turns
            if turn.selection is not None and turn.selection.status != "failed"
        }
        for entry in played
    ]
    chosen = [selection for entry in rounds for selection in entry.values()]
    values = _recall_of_pool(transcript)
    if not chosen:
        return values
    entries = {entry.n: entry for entry in transcript.pool}
    passages = [[entries[n] for n in selection.ids if n in entries] for selection in chosen]
    values |= {
        "no_found": _mean(selection.rule == "no_found" for selection in chosen),
        "selected_ids": _mean(len(selection.ids) for selection in chosen),
    }
    return values | _between(rounds) | _shares(transcript, passages) | _evidence(transcript, passages)


def _between(rounds: Sequence[_Chosen]) -> dict[str, float]:
    pairs = [pair for entry in rounds for pair in combinations([set(s.ids) for s in entry.values()], 2)]
    overlaps = [_jaccard(one, other) for one, other in pairs if one or other]
    changes = [
        1 - _jaccard(set(before[agent].ids), set(after[agent].ids))
        for before, after in pairwise(rounds)
        for agent in before.keys() & after.keys()
    ]
    values = {"selection_overlap": _mean(overlaps)} if overlaps else {}
    return values | ({"selection_change": _mean(changes)} if changes else {})


def _shares(transcript: Transcript, passages: Sequence[Sequence[PoolEntry]]) -> dict[str, float]:
    by_source = Counter(entry.source for selected in passages for entry in selected)
    total = by_source.total()
    sources = dict.fromkeys(entry.source for entry in transcript.pool)
    return {f"share_{source}": by_source[source] / total for source in sources} if total else {}


def _recall_of_pool(transcript: Transcript) -> dict[str, float]:
    wanted, name_of = _gold(transcript)
    if not wanted or not transcript.pool:
        return {}
    return {"pool_recall": len(wanted & set(map(name_of, _retrieved(transcript)))) / len(wanted)}


def _evidence(transcript: Transcript, passages: Sequence[Sequence[PoolEntry]]) -> dict[str, float]:
    values = {}
    retrieved = [[entry for entry in selected if entry.asked_by is None] for selected in passages]
    wanted, name_of = _gold(transcript)
    in_pool = wanted & set(map(name_of, _retrieved(transcript)))
    if in_pool:
        found = [[name for name in map(name_of, selected) if name in in_pool] for selected in retrieved]
        values["selection_recall"] = _mean(len(set(names)) / len(in_pool) for names in found)
        shares = [len(names) / len(selected) for names, selected in zip(found, retrieved, strict=True) if selected]
        if shares:
            values["selection_precision"] = _mean(shares)
    misleading = set(listed(transcript.metadata, "misinformation_passages"))
    if any(entry.key in misleading for entry in transcript.pool):
        values["misinformation_selected"] = _mean(
            any(entry.key in misleading for entry in selected) for selected in passages
        )
    return values


def _gold(transcript: Transcript) -> tuple[frozenset[str], Callable[[PoolEntry], str]]:
    """What is evidence, and how a passage is named in the same terms."""
    if keys := listed(transcript.metadata, "gold_passages"):
        return frozenset(keys), lambda entry: entry.key
    return frozenset(map(_title, listed(transcript.metadata, "gold_titles"))), lambda entry: _title(entry.title)


def _title(title: str) -> str:
    """A page's title, whatever wrote its spaces and its case."""
    return " ".join(unicodedata.normalize("NFC", title).replace("_", " ").casefold().split())


def _retrieved(transcript: Transcript) -> Iterable[PoolEntry]:
    return (entry for entry in transcript.pool if entry.asked_by is None)


def _jaccard(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
