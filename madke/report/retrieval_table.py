"""Tables of retrieval: measures of retrievers, and the ranks that parts of a fusion give to passages."""

from collections.abc import Mapping, Sequence
from itertools import islice

from madke.report.tables import NOTHING, Cell, Table, count_cell, percent_cell
from madke.scoring.retrieval import Ranking, Retrieval


def retrieval_table(found: Sequence[Retrieval], *, notes: Sequence[str] = ()) -> Table:
    """One row per retriever; all measures in percent."""
    headings = list(found[0].measures)
    rows = tuple(
        (Cell(text=each.name), count_cell(each.n), count_cell(each.depth), *map(percent_cell, each.measures.values()))
        for each in found
    )
    return Table(title="Retrieval", columns=("retriever", "n", "depth", *headings), rows=rows, notes=tuple(notes))


def rank_table(query: str, rankings: Mapping[str, Ranking], titles: Mapping[str, str], k: int) -> Table:
    """The first ``k`` passages of each retriever, and the rank of each passage in all of them."""
    places = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in rankings.values()]
    rows = tuple(
        (*(count_cell(of[key]) if key in of else NOTHING for of in places), Cell(text=f"{titles[key]} ({key})"))
        for key in dict.fromkeys(key for ranking in rankings.values() for key in islice(ranking, k))
    )
    return Table(title=query, columns=(*rankings, "passage"), rows=rows)
