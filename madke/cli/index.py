"""Make passages, and build, fetch, search and check indexes."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from madke._util.terminal import say, say_json, say_table
from madke.cli import flags
from madke.cli.flags import option, refuse_overwriting, switch
from madke.cli.progress import counter, resumable, status_line
from madke.core.errors import UserError, count_of

app = typer.Typer(help=__doc__, no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="Index folder.")]
_BM25, _DENSE = "With --kind bm25", "With --kind dense"
AsJson = Annotated[bool, switch("--json", "Print JSON.")]


@app.command("passages")
def passages(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Wikipedia XML dumps (.bz2, .gz or plain)."),
    ],
    out: Annotated[Path, option("Folder to make. The same command resumes it.", "DIR")],
    words: Annotated[int, option("Words per passage; the last one of a page may have fewer.", "N", min=1)] = 100,
    processes: Annotated[int | None, option("Worker processes. Default: one per core.", "N", min=1)] = None,
    engine: flags.EngineOption = "local",
) -> None:
    """Split Wikipedia into passages of 100 words, as DPR does, for `madke index build`."""
    import os

    from madke._util.workers import open_workers
    from madke.retrieval.indexes.corpus import read_folder
    from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST
    from madke.retrieval.passages import build_passages

    if engine == "ray" and processes is not None:
        raise UserError("--processes needs --engine local; a Ray cluster uses all its cores")
    if engine == "local":
        processes = processes or os.cpu_count() or 1
    earlier = read_folder(out) if (out / PASSAGES_MANIFEST).is_file() else None
    with (
        resumable(),
        open_workers(engine, processes=None if processes == 1 else processes) as workers,
        status_line() as show,
    ):
        manifest = build_passages(
            sources,
            out,
            workers=workers,
            words=words,
            progress=lambda counts: show(f"{counts.pages:,} pages, {counts.passages:,} passages"),
        )
    if earlier == manifest:
        say(f"{out}: already finished")
    for name, count in manifest.counts.model_dump().items():
        if count or name in ("pages", "articles", "passages"):
            say(f"  {name.replace('_', ' '):<24}{count:>14,}")
    say(f"{out}: {count_of(manifest.counts.passages, 'passage')} in {count_of(len(manifest.shards), 'file')}")


@app.command("fetch")
def fetch(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Published index; see --list.")] = None,
    out: Annotated[Path | None, option("Folder to make. Default: NAME in the cache folder.", "DIR")] = None,
    show_list: Annotated[bool, switch("--list", "List the published indexes and exit.")] = False,
    recipes: Annotated[Path | None, option("Your own list, in the form of indexes/published.yaml.", "FILE")] = None,
) -> None:
    """Download, check and unpack a published index. The same command resumes. Then use --sources NAME."""
    from madke.retrieval.fetch import fetch as fetch_index
    from madke.retrieval.fetch import published_indexes

    if show_list:
        rows = []
        for known, index in published_indexes(recipes).items():
            sizes = (f"{size / 1e9:,.1f} GB" for size in (index.size, index.unpacked))
            rows.append((known, *sizes, f"{index.documents:,}", index.about))
        say_table(("name", "download", "on disk", "documents", "about"), rows)
        return
    if name is None:
        raise UserError("NAME is missing; `madke index fetch --list` shows the published indexes")
    with resumable():
        folder, already = fetch_index(name, into=out, recipes=recipes, progress=counter("bytes downloaded"))
    say(f"{name}: {'already here, ' if already else ''}{folder}")


@app.command(
    epilog=flags.epilog(
        "Encoders: minilm, the name or folder of a sentence-transformers model, dpr:QUESTION,CONTEXT, or one behind an "
        "/embeddings endpoint: openai/NAME, openai/NAME@URL, a name of models.yaml. Prefixes, pooling and lengths are "
        "those stored with the model, else those of its card (e5, bge, gte, nomic, Qwen3-Embedding).",
        "FAISS types: flat is exact and takes 4 bytes for each dimension of a passage, sq8 a byte, ivfpq an eighth. "
        "hnsw is as large as flat, and faster. An interrupted build loses at most the shards being encoded.",
    )
)
def build(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="DPR .tsv or .jsonl (or .gz), a folder of BEIR or `madke index passages`, or an index.",
        ),
    ],
    out: Annotated[Path, option("Index folder to make. The same command resumes it.", "DIR")],
    kind: Annotated[Literal["bm25", "dense"], option("Lucene BM25, or FAISS over vectors.")] = "bm25",
    k1: Annotated[float | None, option("Term saturation. Default: 0.9.", "X", _BM25, min=0)] = None,
    b: Annotated[float | None, option("Length normalisation. Default: 0.4.", "X", _BM25, min=0, max=1)] = None,
    encoder: Annotated[str | None, option("Encoder, see below. Default: minilm.", "NAME", _DENSE)] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None, option("Default: float32. bfloat16 is faster.", panel=_DENSE)
    ] = None,
    query_prefix: Annotated[str | None, option("Text in front of queries. Default: see below.", "TEXT", _DENSE)] = None,
    passage_prefix: Annotated[str | None, option("Text in front of passages.", "TEXT", _DENSE)] = None,
    pooling: Annotated[
        Literal["mean", "cls", "lasttoken", "max"] | None, option("How the vectors of tokens become one.", panel=_DENSE)
    ] = None,
    normalize: Annotated[bool | None, option("Whether vectors get length 1.", panel=_DENSE)] = None,
    faiss: Annotated[
        Literal["flat", "sq8", "hnsw", "ivfpq"] | None, option("Type of FAISS index. Default: flat.", panel=_DENSE)
    ] = None,
    engine: flags.EngineOption = "local",
) -> None:
    """Build an index of a corpus.

    Example:
      madke index build corpus.tsv --kind dense --faiss sq8 --out my-index
    """
    options = locals()  # parameters of build_index, under the same names
    from madke.retrieval.indexes.build import build_index

    refuse_overwriting({"--out": out}, ())
    with resumable():
        manifest = build_index(**options, progress=counter("passages"))
    say(f"{out}: {count_of(manifest.passages, 'passage')}, {manifest.size / 1e6:,.1f} MB")


@app.command()
def search(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="Index folder, source name, A+B or 0.5*A+B.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Search text.")],
    k: Annotated[int, option("Number of passages.", "N", names="--k", min=1, max=10_000)] = 5,
    as_json: AsJson = False,
) -> None:
    """Print the best passages for one query.

    Example:
      madke index search my-index "Who discovered helium?"
    """
    from madke.retrieval.named import known_sources, open_source
    from madke.retrieval.source import ask_source, close_sources

    source = open_source(index) if index in known_sources() else open_source("index", index)
    (hits,) = ask_source(source, [query], k)
    close_sources([source])
    if hits.error is not None:
        raise UserError(f"the search failed: {hits.error}")
    if not hits.passages:
        say("no passage found", err=True)
    for passage in hits.passages:
        if as_json:
            say_json(passage)
        else:
            say(f"{passage.rank + 1}. {passage.title} ({passage.key}, {passage.score:.4f})")
            say(f"   {passage.text}")


@app.command()
def info(index: Folder) -> None:
    """Print the manifest of an index as JSON: corpus, settings, size, versions. Pyserini's indexes have a short one."""
    from madke.retrieval.index_sources import describe
    from madke.retrieval.indexes.index_folder import read_manifest

    if (description := describe(index)) is not None:
        say(description)
    else:
        say_json(read_manifest(index).model_dump(mode="json"), indent=2)
