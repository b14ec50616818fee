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
    from madke.core.knowledge import Passage
    from madke.scoring.retrieval import Rankings

    _Found = Sequence[Sequence[Passage]]

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
    from madke.knowledge.qrels import read_qrels
    from madke.report.retrieval_table import retrieval_table
    from madke.report.tables import rich_table, write_table
    from madke.scoring.retrieval import retrieval

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
    from madke.report.retrieval_table import rank_table
    from madke.report.tables import rich_table
    from madke.scoring.retrieval import with_fusions

    if qrels is not None:
        fused, parts = _search_questions(index, Path(query))
        show_retrieval({**with_fusions(parts), index: fused}, qrels, str(k), least, as_json=as_json)
        return
    fusion, found = _search(index, [query])
    rankings = {index: fusion[0]} | {name: each[0] for name, each in found.items()}
    if as_json:
        first = {name: [asdict(passage) for passage in each[:k]] for name, each in rankings.items()}
        say_json(json.dumps(first, ensure_ascii=False))
    else:
        console().print(rich_table(rank_table(query, rankings, k)))


def _search_questions(index: str, data: Path) -> tuple[Rankings, dict[str, Rankings]]:
    """Rankings of a fusion, and of its parts by name, for the questions of a file."""
    from madke.data import read_dataset

    questions = read_dataset(data)

    def rankings(found: Sequence[Sequence[Passage]]) -> Rankings:
        return {
            question.id: {passage.key: passage.score for passage in passages}
            for question, passages in zip(questions, found, strict=True)
        }

    fusion, parts = _search(index, [question.question for question in questions])
    return rankings(fusion), {name: rankings(found) for name, found in parts.items()}


def _search(index: str, queries: Sequence[str]) -> tuple[_Found, Mapping[str, _Found]]:
    """What a fusion, and each of its parts by name, finds for each query; UserError if a search failed."""
    from madke.knowledge.asking import ask
    from madke.knowledge.fusion import DEPTH, HybridSource
    from madke.knowledge.named import known_sources, open_source, resolve
    from madke.knowledge.source_spec import HybridSpec, IndexSpec, parse_spec

    named = index in known_sources()
    source = open_source(index) if named else open_source("index", index)
    spec = resolve(index) if named else parse_spec(index)
    if not isinstance(source, HybridSource) or not isinstance(spec, HybridSpec):
        raise UserError(f"{index!r} is one source; expected a fusion of several, such as A+B")
    names = [
        part if isinstance(part, str) else part.index.name if isinstance(part, IndexSpec) else f"part {n}"
        for n, part in enumerate(spec.hybrid, start=1)
    ]
    hits = [ask(part, queries, DEPTH) for part in source.parts]
    if failed := next((each.error for found in hits for each in found if each.error is not None), None):
        raise UserError(f"the search failed: {failed}")
    parts = {name: [each.passages for each in found] for name, found in zip(names, hits, strict=True)}
    return [source.fused(each, DEPTH).passages for each in zip(*hits, strict=True)], parts


def tune(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="A+B (folders or names), or the name of a hybrid.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions.")],
    qrels: flags.Qrels,
    k: Annotated[int, typer.Option("--k", min=1, max=100, metavar="N", help="Passages that a hit is among.")] = 5,
    least: flags.Relevance = 1,
    as_json: Annotated[bool, flags.switch("--json", "Print JSON.")] = False,
) -> None:
    """Fit the weights of a fusion to questions with known passages, and print the fusion to use."""
    from madke.knowledge.qrels import read_qrels
    from madke.report.retrieval_table import retrieval_table
    from madke.report.tables import rich_table
    from madke.scoring.retrieval import Retrieval, retrieval, with_fusions
    from madke.scoring.retrieval import tune as fit

    judgements = read_qrels(qrels)
    _, parts = _search_questions(index, data)
    fitted = fit(parts, judgements, k=k, least=least)
    if as_json:
        say_json(json.dumps(asdict(fitted), ensure_ascii=False))
        return
    found = [retrieval(name, each, judgements, depths=[k], least=least) for name, each in with_fusions(parts).items()]
    depth = max(each.depth for each in found)
    for name, mean in ((f"{fitted.spec} (fitted)", fitted.fitted), ("fitted, held out", fitted.held_out)):
        found.append(Retrieval(name=name, n=mean.n, depth=depth, measures={f"hit@{k}": mean}))
    console().print(rich_table(retrieval_table(found, title=f"Fusions of {index}")))
    low, high = (f"{100 * end:+.1f}" for end in (fitted.gain.low, fitted.gain.high))
    say(f"held out minus equal weights: {100 * fitted.gain.value:+.1f} points (95 % interval {low} to {high})")
    better = fitted.gain.low > 0
    say(f"use {fitted.spec if better else '+'.join(parts)}" + ("" if better else ": the weights are no clear gain"))
