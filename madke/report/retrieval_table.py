"""Tables of retrieval: measures of retrievers, and the ranks that parts of a fusion give to passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from madke.core.knowledge import Passage
from madke.report.tables import NOTHING, Cell, Table, count_cell, percent_cell
from madke.scoring.retrieval import Retrieval


def retrieval_table(found: Sequence[Retrieval], *, title: str = "Retrieval", notes: Sequence[str] = ()) -> Table:
    """One row per retriever; all measures in percent."""
    headings = list(dict.fromkeys(heading for each in found for heading in each.measures))
    rows = tuple(
        (
            Cell(text=each.name),
            count_cell(each.n),
            count_cell(each.depth),
            *(percent_cell(each.measures.get(heading)) for heading in headings),
        )
        for each in found
    )
    return Table(title=title, columns=("retriever", "n", "depth", *headings), rows=rows, notes=tuple(notes))


def rank_table(query: str, rankings: Mapping[str, Sequence[Passage]], k: int) -> Table:
    """The first ``k`` passages of each retriever, and the rank of each passage in all of them."""
    places = {name: {each.key: each.rank + 1 for each in passages} for name, passages in rankings.items()}
    shown = {each.key: each for passages in rankings.values() for each in passages[:k]}
    rows = tuple(
        (*(count_cell(of[key]) if key in of else NOTHING for of in places.values()), Cell(text=each.title or key))
        for key, each in shown.items()
    )
    return Table(title=query, columns=(*rankings, "passage"), rows=rows)
