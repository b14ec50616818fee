"""``madke index``: make passages; fetch, build, search and check indexes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from madke.cli import flags
from madke.cli.paths import refuse_overwriting
from madke.core.errors import UserError
from madke.terminal import say, say_json, say_table

if TYPE_CHECKING:
    from madke.indexing.corpus import Counts

app = typer.Typer(help="Make passages; build, fetch, search and check indexes of them.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("passages")
def passages(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...", help="Wikipedia XML dumps (.bz2, .gz or plain); with --kind text, books or folders."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    kind: Annotated[
        Literal["wikipedia", "text"], typer.Option(help="A dump, or books as plain text, Markdown or HTML.")
    ] = "wikipedia",
    words: Annotated[int, typer.Option(min=1, help="Words a passage; the last of a page may have fewer.")] = 100,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that clean, beside the one that reads. Default: one a core.")
    ] = None,
    engine: flags.Engine = "local",
    address: flags.Address = None,
) -> None:
    """Cut Wikipedia or books into disjoint passages of 100 words, as DPR does, ready for `madke index build`.

    The same command again goes on after the last finished shard, or finds that nothing is left to do.
    """
    import os

    from madke.cli.progress import resumable
    from madke.indexing.corpus import read_folder
    from madke.indexing.passages.builder import build_passages
    from madke.workers import open_workers

    if engine == "ray" and processes is not None:
        raise UserError("--processes belongs to --engine local; a Ray cluster uses all its cores")
    if engine == "local":
        processes = processes or os.cpu_count() or 1
    before = read_folder(out)
    with (
        resumable(),
        open_workers(engine, processes=None if processes == 1 else processes, address=address) as workers,
        _progress() as progress,
    ):
        manifest = build_passages(sources, out, workers=workers, kind=kind, words=words, progress=progress)
    if before is not None and before.finished and before.manifest == manifest:
        say(f"{out}: finished before, nothing to do")
    for name, count in manifest.counts.model_dump().items():
        if count or name in ("pages", "articles", "passages"):
            say(f"  {name.replace('_', ' '):<24}{count:>14,}")
    say(f"{out}: {manifest.counts.passages:,} passages in {len(manifest.shards)} files")


@contextmanager
def _progress() -> Iterator[Callable[[Counts], None]]:
    """Shows counts, and how fast pages have gone by since the first of them."""
    from madke.cli.progress import now_and_then

    started = time.monotonic()
    first: Counts | None = None

    def told(counts: Counts) -> str:
        nonlocal first
        first = first or counts
        speed = (counts.pages - first.pages) / max(time.monotonic() - started, 1e-9)
        return f"{counts.pages:,} pages, {counts.passages:,} passages, {speed:,.0f} pages/s"

    with now_and_then() as show:
        yield lambda counts: show(told(counts))


@app.command("fetch")
def fetch(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A published index; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to make. Default: one of that name in the cache folder.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the published indexes and end.")] = False,
    recipes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published indexes of your own, as in indexes/published.yaml.")
    ] = None,
) -> None:
    """Download a published index, check it, unpack it, and register it under its name.

    The same command again goes on where it was stopped. Afterwards, --sources NAME uses it.
    """
    if show_list:
        _show_published(recipes)
        return
    if name is None:
        raise UserError("name a published index; `madke index fetch --list` shows them")
    from madke.cli.progress import counter, resumable
    from madke.knowledge.fetch import fetch as brought

    with resumable():
        fetched = brought(name, into=out, recipes=recipes, counter=counter)
    say(f"{name}: {'already here, ' if fetched.already else ''}{fetched.folder}")


def _show_published(recipes: Path | None) -> None:
    from madke.knowledge.fetch import published_indexes

    rows = []
    for name, index in published_indexes(recipes).items():
        sizes = (f"{size / 1e9:,.1f} GB" for size in (index.size, index.unpacked))
        rows.append((name, *sizes, f"{index.documents:,}", index.about))
    say_table(("name", "download", "on disk", "documents", "what it is"), rows)


@app.command()
def build(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="DPR .tsv or .jsonl, possibly .gz; a folder made by `madke index passages`; or an index, to take its "
            "passages over without a copy.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The index folder to make.")],
    kind: Annotated[Literal["bm25", "dense"], typer.Option(help="Lucene's BM25, or FAISS over vectors.")] = "bm25",
    k1: Annotated[float | None, typer.Option(min=0, help="bm25: term saturation. Default: 0.9.")] = None,
    b: Annotated[float | None, typer.Option(min=0, max=1, help="bm25: length normalisation. Default: 0.4.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="dense: minilm, a sentence-transformers name or folder, dpr:QUESTION,CONTEXT. Default: minilm."
        ),
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="dense: arithmetic of the encoder; bfloat16 is faster. Default: float32."),
    ] = None,
    faiss: Annotated[
        str | None,
        typer.Option(
            help="dense: a FAISS factory string (Flat, SQ8, IVF4096,SQ8, PQ96np, HNSW32), or auto: by memory. "
            "Default: auto."
        ),
    ] = None,
    faiss_parameters: Annotated[
        str | None,
        typer.Option(help="dense: how it is searched, for instance nprobe=64 or efSearch=128. Default: by type."),
    ] = None,
    shard_rows: Annotated[
        int | None, typer.Option(min=1, help="dense: passages encoded, or lost, at a time. Default: 10000.")
    ] = None,
    file_mb: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="dense: megabytes of one FAISS file; built in memory. Default: by the type of the index."
        ),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="dense: keep the vectors here, for another index without encoding again.")
    ] = None,
    engine: flags.Engine = "local",
    address: flags.Address = None,
) -> None:
    """Index a corpus. The same command again resumes, or finds that nothing is left to do."""
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
            faiss=faiss,
            faiss_parameters=faiss_parameters,
            shard_rows=shard_rows,
            file_mb=file_mb,
            vectors=vectors,
            engine=engine,
            address=address,
            progress=counter("passages"),
        )
    say(f"{out}: {manifest.passages:,} passages, {manifest.size / 1e6:,.1f} MB")
    if isinstance(manifest.index, DenseSettings) and manifest.index_recall is not None:
        chosen_for = f" (auto: {manifest.index.reason})" if manifest.index.reason else ""
        say(
            f"{manifest.index.factory}{chosen_for}: recall@5 {manifest.index_recall.recall_at_5:.3f} "
            f"±{manifest.index_recall.margin:.3f} of an exact search"
        )


@app.command()
def search(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="An index folder or a source's name, or A+B, 0.5*A+B.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    k: Annotated[int, typer.Option("--k", min=1, max=10_000, help="How many passages.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Print the best passages for one query."""
    import json
    from dataclasses import asdict

    from madke.knowledge.asking import ask, close_sources
    from madke.knowledge.named import known_sources, open_source

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
    """Show an index's manifest: corpus, settings, size, versions; of one in pyserini's format, what it is."""
    from madke.indexing.index_folder import read_manifest
    from madke.indexing.pyserini import describe

    if (description := describe(index)) is not None:
        say(description)
        return
    manifest = read_manifest(index)
    if as_json:
        say_json(manifest.model_dump_json(indent=2))
        return
    say(f"corpus    {manifest.corpus.path}\nsha256    {manifest.corpus.sha256}")
    say(f"passages  {manifest.passages:,}\nsize      {manifest.size / 1e6:,.1f} MB")
    for name, value in manifest.index.model_dump().items():
        if value != "":
            say(f"{name:<9} {value}")
    if manifest.index_recall is not None:
        measured = manifest.index_recall
        say(f"recall@5  {measured.recall_at_5} ±{measured.margin} of an exact search ({measured.queries} queries)")
    say("built by  " + ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))


@app.command()
def verify(index: Folder) -> None:
    """Read every file of an index, and its corpus, and compare them with the manifest. Exit status 2 on a problem."""
    from madke.indexing.index_folder import verify as problems_of

    if problems := problems_of(index):
        raise UserError("; ".join(problems), file=index)
    say(f"{index}: all files are as they were built, and the corpus has not changed")
