"""``madke pool``: retrieve passages once, so that several runs can use the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from madke.cli import flags
from madke.cli.paths import question_files, refuse_overwriting
from madke.core.errors import UserError
from madke.terminal import say

app = typer.Typer(help="Retrieve passages into pool files.", no_args_is_help=True)


@app.command(epilog=flags.epilog(flags.SOURCE_NAMES))
def build(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Questions: CSV, JSONL, ..., or as --dataset says.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Pool file. The same command resumes it.")],
    sources: Annotated[str, typer.Option(metavar="SOURCES", help="Knowledge sources, see below.")] = "wiki,google",
    k: Annotated[
        int, typer.Option("--k", min=1, max=10_000, metavar="N", help="Passages requested from each source.")
    ] = 10,
    limit: flags.Limit = None,
    dataset: flags.Dataset = None,
    ids: flags.Ids = None,
    sample_seed: flags.SampleSeed = None,
    engine: flags.Engine = "local",
    address: flags.Address = None,
) -> None:
    """Search all sources for every question and write all results.

    A run that reads the file chooses its sources and the number of passages of each.
    With --engine ray, nodes search indexes and result files (same path on each node). This machine queries services.
    """
    from madke.cli.progress import counter, resumable, show_counts, show_source
    from madke.data import read_dataset
    from madke.knowledge.asking import close_sources
    from madke.knowledge.named import open_source, resolve, source_paths, source_specs
    from madke.knowledge.pools import build_pools
    from madke.knowledge.source_spec import asked_here
    from madke.workers import open_workers

    specs = source_specs(sources, ())
    refuse_overwriting({"--out": out}, [*question_files(data), *source_paths(specs)])
    questions = read_dataset(data, dataset=dataset, ids=ids, limit=limit, sample_seed=sample_seed)
    if not specs:
        raise UserError("--sources none: a pool needs at least one source")
    opened = []
    for name, spec in specs.items():
        opened.append(open_source(name, spec))
        show_source(name, spec, opened[-1].description)
    remote = {}
    if engine != "local":
        resolved = {name: resolve(name, spec) for name, spec in specs.items()}
        remote = {name: spec for name, spec in resolved.items() if not asked_here(spec)}
    with resumable(), open_workers(engine, address=address, gpus=True) as workers:
        found = build_pools(questions, opened, k, out, remote=remote, workers=workers, progress=counter("retrieved"))
    close_sources(opened)
    show_counts(found)
    for source in opened:
        if hasattr(source, "spent"):
            say(source.spent.line(), err=True)
    say(f"pools: {out}")


@app.command(
    epilog=flags.epilog(
        flags.QRELS_FORM,
        "Example:",
        "  madke pool score pools.jsonl --qrels qrels.tsv --k 5,20",
    )
)
def score(
    pools: Annotated[Path, typer.Argument(metavar="POOLS", help="Pool file.")],
    qrels: flags.Qrels,
    k: flags.Depths = "5,20",
    least: flags.Relevance = 1,
    tables: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Write the table: .csv, .parquet or .tex. Repeatable.")
    ] = None,
    as_json: Annotated[bool, flags.switch("--json", "Print JSON.")] = False,
) -> None:
    """Measure how well each source, and the fusions of all, find the relevant passages."""
    from madke.cli.retrieval import show_retrieval
    from madke.knowledge.pool_file import pool_records
    from madke.scoring.retrieval import of_pools, with_fusions

    refuse_overwriting({f"--tables {n}": path for n, path in enumerate(tables or (), start=1)}, [pools, qrels])
    rankings = with_fusions(of_pools(record for _, record in pool_records(pools)))
    show_retrieval(rankings, qrels, k, least, tables=tables or (), as_json=as_json)
