"""What the commands that measure retrieval share, and ``madke index tune``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import flags
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.core.knowledge import Source
    from madke.knowledge.source_spec import HybridSpec
    from madke.scoring.retrieval import Rankings

TUNE_EPILOG = flags.epilog(
    flags.QRELS_FORM,
    "Weights are fitted to hit@k: how often a relevant passage is among the first k. The grid has steps of 0.1 for "
    "two parts, 0.25 for three and 0.5 for more. Held out: each fifth of the questions with the weights of the others.",
    "Example:",
    "  madke index tune wiki-bm25+wiki-dense questions.jsonl --qrels qrels.tsv",
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
    from madke.report.retrieval_table import retrieval_table
    from madke.report.tables import rich_table, write_table
    from madke.scoring.retrieval import read_qrels, retrieval

    judgements, depths = read_qrels(qrels), _depths(k)
    found = [retrieval(name, each, judgements, depths=depths, least=least) for name, each in rankings.items()]
    table = retrieval_table(found)
    for path in tables:
        write_table(table, path)
    if as_json:
        say_json(json.dumps([asdict(each) for each in found], ensure_ascii=False))
    else:
        console().print(rich_table(table))


def _depths(text: str) -> list[int]:
    depths = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(depths) < 1:
        raise UserError(f"--k {text!r}: expected whole numbers from 1, separated by commas, such as 5,20")
    return sorted(set(depths))


def show_comparison(index: str, query: str, k: int, qrels: Path | None, least: int, *, as_json: bool) -> None:
    """Show a fusion and its parts: their passages for one query, or with judgements their hits for many questions."""
    from madke.core.question import Question
    from madke.knowledge.fusion import DEPTH, fuse
    from madke.knowledge.pools import retrieve
    from madke.report.retrieval_table import rank_table
    from madke.report.tables import rich_table
    from madke.scoring.retrieval import of_pools, with_fusions

    spec, parts = _open(index)
    if qrels is not None:
        own = {index: (spec.fusion, spec.weights)}
        show_retrieval(with_fusions(_rankings(parts, Path(query)), **own), qrels, str(k), least, as_json=as_json)
        return
    (record,) = retrieve([Question(id="query", question=query)], parts, DEPTH)
    if record.partial:
        raise UserError(f"the search failed: {'; '.join(record.partial.values())}")
    fusion = {index: fuse([each["query"] for each in of_pools([record]).values()], spec.fusion, spec.weights)}
    rankings = fusion | {name: each["query"] for name, each in of_pools([record]).items()}
    if as_json:
        say_json(json.dumps({name: [*each][:k] for name, each in rankings.items()}, ensure_ascii=False))
    else:
        titles = {each.key: each.title for each in record.passages}
        console().print(rich_table(rank_table(query, rankings, titles, k)))


def _rankings(parts: Sequence[Source], data: Path) -> Mapping[str, Rankings]:
    """Name -> rankings of each part for the questions of a file, without those that it failed on."""
    from madke.data import read_dataset
    from madke.knowledge.fusion import DEPTH
    from madke.knowledge.pools import retrieve
    from madke.scoring.retrieval import of_pools

    return of_pools(retrieve(read_dataset(data), parts, DEPTH))


def _open(index: str) -> tuple[HybridSpec, list[Source]]:
    """The fusion ``A+B``, or the hybrid of that name, and its opened parts."""
    from madke.knowledge.named import known_sources, resolve
    from madke.knowledge.source_spec import HybridSpec, IndexSpec, open_spec, parse_spec

    spec = resolve(index) if index in known_sources() else resolve("index", index)
    if not isinstance(spec, HybridSpec):
        raise UserError(f"{index!r} is one source; expected a fusion of several, such as A+B")
    written = parse_spec(index)
    names = (
        written.hybrid
        if isinstance(written, HybridSpec)
        else [
            part.index.name if isinstance(part, IndexSpec) else f"part {n}"
            for n, part in enumerate(spec.hybrid, start=1)
        ]
    )
    if len(set(names)) < len(names):
        raise UserError(f"{index!r} names a part twice")
    pairs = zip(names, spec.hybrid, strict=True)
    return spec, [open_spec(str(name), part) for name, part in pairs if not isinstance(part, str)]


def tune(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="A+B (folders or names), or the name of a hybrid.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions.")],
    qrels: flags.Qrels,
    k: Annotated[int, typer.Option("--k", min=1, max=100, metavar="N", help="Passages that a hit is among.")] = 5,
    least: flags.Relevance = 1,
) -> None:
    """Fit the weights of a fusion to questions with known passages, and print the fusion to use."""
    from madke.report.tables import interval
    from madke.scoring.retrieval import read_qrels
    from madke.scoring.retrieval import tune as fit

    judgements = read_qrels(qrels)
    _, parts = _open(index)
    rankings = _rankings(parts, data)
    found = fit(rankings, judgements, k=k, least=least)
    say(f"{found.spec}: hit@{k} {interval(found.fitted)} on the {found.fitted.n:,} questions that it was fitted on")
    say(f"held out: hit@{k} {interval(found.held_out)}; minus equal weights: {interval(found.gain)} points")
    better = found.gain.low > 0
    say(f"use {found.spec if better else '+'.join(rankings)}" + ("" if better else ": other weights are no clear gain"))
