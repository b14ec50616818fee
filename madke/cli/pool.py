"""Retrieve passages into pool files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say, say_json
from madke.cli import flags
from madke.cli.flags import option, refuse_overwriting, switch
from madke.core.errors import UserError, count_of
from madke.runs.directory import question_files
from madke.runs.request import RunRequest

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command(epilog=flags.epilog(flags.SOURCE_NAMES))
@flags.request_options("run", only="limit dataset columns ids sample_seed")
def build(
    data: flags.Questions,
    out: Annotated[Path, option("Pool file. The same command resumes it.", "FILE")],
    request: RunRequest,
    sources: Annotated[str, option("Knowledge sources, see below.", "SOURCES")] = "wiki,google",
    k: Annotated[int, option("Passages requested from each source.", "N", names="--k", min=1, max=10_000)] = 10,
) -> None:
    """Search all sources for every question and write all results.

    A run that reads the file chooses its sources and the number of passages of each.
    """
    from madke.cli.progress import counter, resumable, show_counts, show_source, show_spent
    from madke.retrieval.named import open_source, parse_sources, source_paths
    from madke.retrieval.pools import retrieve_pools
    from madke.retrieval.source import close_sources
    from madke.runs.spec import questions_of

    specs = parse_sources(sources, ())
    refuse_overwriting({"--out": out}, [*question_files(data), *source_paths(specs)])
    questions = questions_of(replace(request, questions=data))
    if not specs:
        raise UserError("--sources none: a pool needs at least one source")
    opened = []
    for name, spec in specs.items():
        opened.append(open_source(name, spec))
        show_source(name, spec, opened[-1].description)
    with resumable():
        counts = retrieve_pools(questions, opened, k, out, progress=counter("retrieved"))
    close_sources(opened)
    show_counts(counts)
    show_spent(opened)
    say(f"pools: {out}")
    if failed := sum(count.failed for count in counts.values()):
        say(f"{count_of(failed, 'search', 'searches')} failed; the file has the reasons under 'partial'", err=True)
        raise typer.Exit(1)


@app.command(
    epilog=flags.epilog(
        "Judgements: a file in TREC's form (question 0 passage relevance), or a table separated by tabs with the "
        "headings qid, passage_id and rel. A passage is named by its key, such as its id in the index."
    )
)
def score(
    pools: Annotated[Path, typer.Argument(metavar="POOLS", help="Pool file.")],
    qrels: Annotated[Path, option("Judgements: which passages are relevant, see below.", "FILE")],
    k: Annotated[str, option("Numbers of first passages to measure.", "N,N", names="--k")] = "5,20",
    least: Annotated[int, option("Lowest relevance that counts.", "N", names="--relevance", min=1)] = 1,
    as_json: Annotated[bool, switch("--json", "Print JSON.")] = False,
) -> None:
    """Measure how well each source, and the fusions of all, find the relevant passages.

    Example:
      madke pool score pools.jsonl --qrels qrels.tsv --k 5,20
    """
    from madke.report.tables import Cell, Table, count_cell, percent_cell, plain_table
    from madke.retrieval.pools import pool_records
    from madke.scoring.retrieval import of_pools, read_qrels, retrieval, with_fusions

    rankings = with_fusions(of_pools(record for _, record in pool_records(pools)))
    judgements = read_qrels(qrels)
    parts = [part.strip() for part in k.split(",")]
    if not all(part.isdecimal() and len(part) < 10 and int(part) for part in parts):
        raise UserError(f"--k {k!r}: expected whole numbers from 1, separated by commas, such as 5,20")
    depths = sorted(set(map(int, parts)))
    results = [retrieval(name, each, judgements, depths=depths, least=least) for name, each in rankings.items()]
    rows = tuple(
        (Cell(text=each.name), count_cell(each.n), count_cell(each.depth), *map(percent_cell, each.measures.values()))
        for each in results
    )
    headings = ("retriever", "n", "depth", *results[0].measures)
    table = Table(title="Retrieval, in percent", columns=headings, rows=rows)
    if as_json:
        say_json(results)
    else:
        say(plain_table(table))
