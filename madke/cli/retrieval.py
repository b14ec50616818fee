"""What the commands that measure retrieval share. Slow to import."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from madke._util.terminal import say, say_json
from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.data import read_dataset
from madke.report.files import write_table
from madke.report.tables import NO_FIGURE, Cell, Table, count_cell, percent_cell, plain_table
from madke.retrieval.fusion import DEPTH, fuse
from madke.retrieval.named import HybridSpec, IndexSpec, known_sources, parse_spec, resolve
from madke.retrieval.pools.building import retrieve
from madke.scoring.arms import Results
from madke.scoring.retrieval import (
    Ranking,
    Rankings,
    RetrievalScores,
    of_debates,
    of_pools,
    read_qrels,
    retrieval,
)


def show_retrieval(
    rankings: Mapping[str, Rankings],
    qrels: Path,
    k: str,
    least: int,
    *,
    tables: Sequence[Path] = (),
    as_json: bool = False,
) -> None:
    """Measure rankings against a file of judgements; print them as a table or JSON, and write tables."""
    judgements, depths = read_qrels(qrels), _depths(k)
    found = [retrieval(name, each, judgements, depths=depths, least=least) for name, each in rankings.items()]
    table = _table(found)
    for path in tables:
        write_table(table, path)
    if as_json:
        say_json(found)
    else:
        say(plain_table(table))


_DIGITS = 10
"""Python reads no number of thousands of digits."""


def _depths(text: str) -> list[int]:
    depths = [int(part) if part.strip().isdecimal() and len(part) < _DIGITS else 0 for part in text.split(",")]
    if min(depths) < 1:
        raise UserError(f"--k {text!r}: expected whole numbers from 1, separated by commas, such as 5,20")
    return sorted(set(depths))


def pools_table(results: Sequence[Results], qrels: Path, least: int) -> Table:
    """How well the pools of runs hold the relevant passages: in the order that debaters read, and by source."""
    judgements = read_qrels(qrels)
    found = []
    for arm in results:
        knowledge = arm.config.protocol.knowledge if arm.config else None
        by_source = knowledge is not None and knowledge.fusion == "none" and len(knowledge.sources) > 1
        for name, rankings in of_debates(arm.transcripts(), by_source=by_source).items():
            row = f"{arm.name}: {name}" if len(results) > 1 else name
            found.append(retrieval(row, rankings, judgements, depths=[5], least=least))
    if not found:
        raise UserError("--qrels: no pool in these results, so there is no retrieval to measure")
    return _table(found, "The pool is in the order that debaters read. Figures are in percent.")


def _table(found: Sequence[RetrievalScores], *notes: str) -> Table:
    """One row per retriever; all measures in percent."""
    headings = list(found[0].measures)
    rows = tuple(
        (Cell(text=each.name), count_cell(each.n), count_cell(each.depth), *map(percent_cell, each.measures.values()))
        for each in found
    )
    return Table(title="Retrieval", columns=("retriever", "n", "depth", *headings), rows=rows, notes=notes)


def _rank_table(query: str, rankings: Mapping[str, Ranking], titles: Mapping[str, str], k: int) -> Table:
    """The first ``k`` passages of each retriever, and the rank of each passage in all of them."""
    places = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in rankings.values()]
    rows = tuple(
        (*(count_cell(of[key]) if key in of else NO_FIGURE for of in places), Cell(text=f"{titles[key]} ({key})"))
        for key in dict.fromkeys(key for ranking in rankings.values() for key in islice(ranking, k))
    )
    return Table(title=query, columns=(*rankings, "passage"), rows=rows)


def show_comparison(index: str, query: str, k: int, *, as_json: bool) -> None:
    """Show the passages of a fusion and of its parts for one query."""
    spec, parts = open_parts(index)
    (record,) = retrieve([Question(id="query", question=query)], parts, DEPTH)
    if record.partial:
        raise UserError(f"the search failed: {'; '.join(record.partial.values())}")
    fusion = {index: fuse([each["query"] for each in of_pools([record]).values()], spec.fusion, spec.weights)}
    rankings = fusion | {name: each["query"] for name, each in of_pools([record]).items()}
    if as_json:
        say_json({name: [*each][:k] for name, each in rankings.items()})
    else:
        titles = {each.key: each.title for each in record.passages}
        say(plain_table(_rank_table(query, rankings, titles, k)))


def rankings_of(parts: Sequence[Source], data: Path) -> Mapping[str, Rankings]:
    """Name -> rankings of each part for the questions of a file, without those that it failed on."""
    return of_pools(retrieve(read_dataset(data), parts, DEPTH))


def open_parts(index: str) -> tuple[HybridSpec, list[Source]]:
    """The fusion ``A+B``, or the hybrid of that name, and its opened parts."""
    spec = resolve(index) if index in known_sources() else resolve("index", index)
    if not isinstance(spec, HybridSpec):
        raise UserError(f"{index!r} is one source; expected a fusion of several, such as A+B")
    written = parse_spec(index)
    names = [part.index.name if isinstance(part, IndexSpec) else f"part {n}" for n, part in enumerate(spec.hybrid, 1)]
    if isinstance(written, HybridSpec):
        names = list(map(str, written.hybrid))
    if len(set(names)) < len(names):
        raise UserError(f"{index!r} names a part twice")
    pairs = zip(names, spec.hybrid, strict=True)
    return spec, [part.open(name) for name, part in pairs if not isinstance(part, str)]
