"""``madke index``: build, search and check indexes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from madke.cli import fetch, options, passages
from madke.cli.console import resumable
from madke.cli.outputs import refuse_overwriting
from madke.core.errors import UserError
from madke.terminal import say, say_json

app = typer.Typer(help="Make passages; build, fetch, search and check indexes of them.", no_args_is_help=True)
app.command("passages")(passages.command)
app.command("fetch")(fetch.command)

Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
    engine: options.Engine = "local",
    address: options.Address = None,
) -> None:
    """Index a corpus. The same command again resumes, or finds that nothing is left to do."""
    from madke.cli.progress import counter
    from madke.encoders import load_encoder
    from madke.indexing.build import build_bm25, build_dense
    from madke.indexing.manifest import Bm25Settings, DenseSettings
    from madke.workers import open_workers

    refuse_overwriting({"--out": out, "--vectors": vectors}, ())
    progress = counter("passages")
    if kind == "bm25":
        of_dense = {
            "encoder": encoder,
            "dtype": dtype,
            "faiss": faiss,
            "faiss-parameters": faiss_parameters,
            "shard-rows": shard_rows,
            "file-mb": file_mb,
            "vectors": vectors,
            "engine ray": engine if engine != "local" else None,
            "address": address,
        }
        if stray := list(_given(**of_dense)):
            raise UserError(f"--{stray[0]} belongs to --kind dense")
        with resumable():
            manifest = build_bm25(corpus, out, settings=Bm25Settings(**_given(k1=k1, b=b)), progress=progress)
    else:
        if k1 is not None or b is not None:
            raise UserError("--k1 and --b belong to --kind bm25")
        with resumable(), open_workers(engine, address=address, gpus=True) as workers:
            manifest = build_dense(
                corpus,
                out,
                encoder=load_encoder(encoder or "minilm", dtype=dtype or "float32"),
                workers=workers,
                progress=progress,
                **_given(
                    factory=faiss,
                    parameters=faiss_parameters,
                    shard_rows=shard_rows,
                    file_mb=file_mb,
                    vectors=vectors,
                ),
            )
    say(f"{out}: {manifest.passages:,} passages, {manifest.size / 1e6:,.1f} MB")
    if isinstance(manifest.index, DenseSettings) and manifest.exactness is not None:
        chosen_for = f" (auto: {manifest.index.reason})" if manifest.index.reason else ""
        say(
            f"{manifest.index.factory}{chosen_for}: recall@5 {manifest.exactness.recall_at_5:.3f} "
            f"±{manifest.exactness.margin:.3f} of an exact search"
        )


def _given(**options: Any) -> dict[str, Any]:
    """The options that were set."""
    return {name: value for name, value in options.items() if value is not None}


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
    from madke.indexing.manifest import read_manifest
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
    if manifest.exactness is not None:
        measured = manifest.exactness
        say(f"recall@5  {measured.recall_at_5} ±{measured.margin} of an exact search ({measured.queries} queries)")
    say("built by  " + ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))


@app.command()
def verify(index: Folder) -> None:
    """Read every file of an index, and its corpus, and compare them with the manifest. Exit status 2 on a problem."""
    from madke.indexing.manifest import verify as problems_of

    if problems := problems_of(index):
        raise UserError("; ".join(problems), file=index)
    say(f"{index}: all files are as they were built, and the corpus has not changed")
