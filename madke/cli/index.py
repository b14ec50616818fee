"""``madke index``: make passages, and fetch, build, search and check indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from madke.cli import flags
from madke.cli.paths import refuse_overwriting
from madke.cli.retrieval import TUNE_EPILOG, tune
from madke.core.errors import UserError
from madke.core.wording import counted
from madke.terminal import say, say_json, say_table, say_wrapped

if TYPE_CHECKING:
    from madke.indexing.corpus import Counts

app = typer.Typer(help="Make passages, and build, fetch, search and check indexes.", no_args_is_help=True)
app.command("tune", epilog=TUNE_EPILOG)(tune)

Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="Index folder.")]
_BM25, _DENSE = "With --kind bm25", "With --kind dense"
AsJson = Annotated[bool, flags.switch("--json", "Print JSON.")]


@app.command("passages")
def passages(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Wikipedia XML dumps, or with --kind text files or folders of text."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to make. The same command resumes it.")],
    kind: Annotated[
        Literal["wikipedia", "text"], typer.Option(help="XML dump (.bz2, .gz or plain), or plain text, Markdown, HTML.")
    ] = "wikipedia",
    words: Annotated[
        int, typer.Option(min=1, metavar="N", help="Words per passage; the last one of a page may have fewer.")
    ] = 100,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Worker processes. Default: one per core.")
    ] = None,
    engine: flags.Engine = "local",
    address: flags.Address = None,
) -> None:
    """Split Wikipedia or other texts into passages of 100 words, as DPR does, for `madke index build`."""
    import os

    from madke.cli.progress import resumable
    from madke.indexing.corpus import read_folder
    from madke.indexing.passages.builder import build_passages
    from madke.workers import open_workers

    if engine == "ray" and processes is not None:
        raise UserError("--processes needs --engine local; a Ray cluster uses all its cores")
    if engine == "local":
        processes = processes or os.cpu_count() or 1
    earlier = read_folder(out)
    with (
        resumable(),
        open_workers(engine, processes=None if processes == 1 else processes, address=address) as workers,
        _progress() as progress,
    ):
        manifest = build_passages(sources, out, workers=workers, kind=kind, words=words, progress=progress)
    if earlier is not None and earlier.finished and earlier.manifest == manifest:
        say(f"{out}: already finished")
    for name, count in manifest.counts.model_dump().items():
        if count or name in ("pages", "articles", "passages"):
            say(f"  {name.replace('_', ' '):<24}{count:>14,}")
    say(f"{out}: {counted(manifest.counts.passages, 'passage')} in {counted(len(manifest.shards), 'file')}")


@contextmanager
def _progress() -> Iterator[Callable[[Counts], None]]:
    from madke.cli.progress import status_line

    started = time.monotonic()
    first: Counts | None = None

    def line(counts: Counts) -> str:
        nonlocal first
        first = first or counts
        speed = (counts.pages - first.pages) / max(time.monotonic() - started, 1e-9)
        return f"{counts.pages:,} pages, {counts.passages:,} passages, {speed:,.0f} pages/s"

    with status_line() as show:
        yield lambda counts: show(line(counts))


@app.command("fetch")
def fetch(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Published index; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to make. Default: NAME in the cache folder.")
    ] = None,
    show_list: Annotated[bool, flags.switch("--list", "List the published indexes and exit.")] = False,
    recipes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own list, in the form of indexes/published.yaml.")
    ] = None,
) -> None:
    """Download, check and unpack a published index. The same command resumes. Then use --sources NAME."""
    if show_list:
        _show_published(recipes)
        return
    if name is None:
        raise UserError("NAME is missing; `madke index fetch --list` shows the published indexes")
    from madke.cli.progress import counter, resumable
    from madke.knowledge.fetch import fetch as fetch_index

    with resumable():
        fetched = fetch_index(name, into=out, recipes=recipes, counter=counter)
    say(f"{name}: {'already here, ' if fetched.already else ''}{fetched.folder}")


def _show_published(recipes: Path | None) -> None:
    from madke.knowledge.fetch import published_indexes

    rows = []
    for name, index in published_indexes(recipes).items():
        sizes = (f"{size / 1e9:,.1f} GB" for size in (index.size, index.unpacked))
        rows.append((name, *sizes, f"{index.documents:,}", index.about))
    say_table(("name", "download", "on disk", "documents", "about"), rows)


@app.command(
    epilog=flags.epilog(
        "Encoders: minilm, the name or folder of a sentence-transformers model, dpr:QUESTION,CONTEXT, or one behind an "
        "/embeddings endpoint: openai/NAME, openai/NAME@URL, a name of models.yaml. Prefixes, pooling and lengths are "
        "those stored with the model, else those of its card (e5, bge, gte, nomic, Qwen3-Embedding).",
        "FAISS types: Flat, SQ8, IVF4096,SQ8, PQ96np, HNSW32, ... Search parameters: nprobe=64 for IVF, efSearch=128 "
        "for HNSW. A FAISS file is built in memory. An interrupted build loses at most the shards being encoded.",
        "Example:",
        "  madke index build corpus.tsv --kind dense --faiss SQ8 --out my-index",
    )
)
def build(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="DPR .tsv or .jsonl (or .gz), a folder of `madke index passages`, or an index to share passages with.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Index folder to make. The same command resumes it.")],
    kind: Annotated[Literal["bm25", "dense"], typer.Option(help="Lucene BM25, or FAISS over vectors.")] = "bm25",
    k1: Annotated[
        float | None, typer.Option(min=0, metavar="X", help="Term saturation. Default: 0.9.", rich_help_panel=_BM25)
    ] = None,
    b: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="X", help="Length normalisation. Default: 0.4.", rich_help_panel=_BM25),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoder, see below. Default: minilm.", rich_help_panel=_DENSE)
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Default: float32. bfloat16 is faster.", rich_help_panel=_DENSE),
    ] = None,
    query_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text in front of queries. Default: see below.", rich_help_panel=_DENSE),
    ] = None,
    passage_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in front of passages.", rich_help_panel=_DENSE)
    ] = None,
    pooling: Annotated[
        Literal["mean", "cls", "lasttoken", "max"] | None,
        typer.Option(help="How the vectors of tokens become one.", rich_help_panel=_DENSE),
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option(help="Whether vectors get length 1.", rich_help_panel=_DENSE)
    ] = None,
    faiss: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="FAISS factory string, or auto (by memory). Default: auto.", rich_help_panel=_DENSE
        ),
    ] = None,
    faiss_parameters: Annotated[
        str | None, typer.Option(metavar="NAME=N", help="Search parameters, e.g. nprobe=64.", rich_help_panel=_DENSE)
    ] = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Passages per encoded shard. Default: 10000.", rich_help_panel=_DENSE),
    ] = None,
    file_mb: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="MB", help="Size of each FAISS file. Default: by type.", rich_help_panel=_DENSE
        ),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the vectors here, to reuse them.", rich_help_panel=_DENSE)
    ] = None,
    engine: flags.Engine = "local",
    address: flags.Address = None,
) -> None:
    """Build an index of a corpus."""
    from madke.cli.progress import counter, resumable
    from madke.indexing.build import build_index
    from madke.indexing.index_folder import DenseSettings

    refuse_overwriting({"--out": out, "--vectors": vectors}, ())
    with resumable():
        manifest = build_index(
            corpus,
            out,
            kind,
            k1=k1,
            b=b,
            encoder=encoder,
            dtype=dtype,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            pooling=pooling,
            normalize=normalize,
            faiss=faiss,
            faiss_parameters=faiss_parameters,
            shard_rows=shard_rows,
            file_mb=file_mb,
            vectors=vectors,
            engine=engine,
            address=address,
            progress=counter("passages"),
        )
    say(f"{out}: {counted(manifest.passages, 'passage')}, {manifest.size / 1e6:,.1f} MB")
    if isinstance(manifest.index, DenseSettings) and manifest.index_recall is not None:
        choice = f" (auto: {manifest.index.reason})" if manifest.index.reason else ""
        say(
            f"{manifest.index.factory}{choice}: recall@5 {manifest.index_recall.recall_at_5:.3f} "
            f"±{manifest.index_recall.margin:.3f} of an exact search"
        )


@app.command(
    epilog=flags.epilog(
        "With --compare and --qrels, QUERY is a file of questions.",
        flags.QRELS_FORM,
        "Examples:",
        '  madke index search wiki-bm25+wiki-dense "Who discovered helium?" --compare',
        "  madke index search wiki-bm25+wiki-dense questions.jsonl --compare --qrels qrels.tsv",
    )
)
def search(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="Index folder, source name, A+B or 0.5*A+B.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Search text.")],
    k: Annotated[int, typer.Option("--k", min=1, max=10_000, metavar="N", help="Number of passages.")] = 5,
    compare: Annotated[bool, flags.switch("--compare", "Show a fusion next to its parts.")] = False,
    qrels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --compare: measure hits with these judgements, see below.")
    ] = None,
    least: flags.Relevance = 1,
    as_json: AsJson = False,
) -> None:
    """Print the best passages for one query."""
    import json
    from dataclasses import asdict

    from madke.cli.retrieval import show_comparison
    from madke.knowledge.asking import ask, close_sources
    from madke.knowledge.named import known_sources, open_source

    if compare:
        show_comparison(index, query, k, qrels, least, as_json=as_json)
        return
    if qrels is not None:
        raise UserError("--qrels needs --compare")

    source = open_source(index) if index in known_sources() else open_source("index", index)
    (hits,) = ask(source, [query], k)
    close_sources([source])
    if hits.error is not None:
        raise UserError(f"the search failed: {hits.error}")
    for passage in hits.passages:
        if as_json:
            say_json(json.dumps(asdict(passage), ensure_ascii=False))
        else:
            say(f"{passage.rank + 1}. {passage.title} ({passage.key}, {passage.score:.4f})")
            say(f"   {passage.text}")


@app.command()
def info(index: Folder, as_json: AsJson = False) -> None:
    """Show the manifest of an index: corpus, settings, size, versions. Pyserini's indexes have a short one."""
    from madke.indexing.index_folder import read_manifest
    from madke.indexing.published_folders import describe

    if (description := describe(index)) is not None:
        say(description)
        return
    manifest = read_manifest(index)
    if as_json:
        say_json(manifest.model_dump_json(indent=2))
        return
    facts = {"corpus": manifest.corpus.path, "sha256": manifest.corpus.sha256, "passages": f"{manifest.passages:,}"}
    facts |= {"size": f"{manifest.size / 1e6:,.1f} MB"}
    facts |= {name: str(value) for name, value in manifest.index.model_dump(exclude_none=True).items() if value != ""}
    if manifest.index_recall is not None:
        measured = manifest.index_recall
        queries = f"({counted(measured.queries, 'query', 'queries')})"
        facts["recall@5"] = f"{measured.recall_at_5} ±{measured.margin} of an exact search {queries}"
    facts["built by"] = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    for name, fact in facts.items():
        say_wrapped(fact, label=f"{name:<9} ", indent=10)


@app.command()
def verify(index: Folder) -> None:
    """Compare all files of an index, and its corpus, with the manifest. Exit status 2 on a difference."""
    from madke.indexing.index_folder import verify as problems_of

    if problems := problems_of(index):
        raise UserError("; ".join(problems), file=index)
    say(f"{index}: all files and the corpus match the manifest")
