"""``madke index``: build, search and check indexes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from madke.core.errors import UserError

app = typer.Typer(help="Build, search and check indexes of passages.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def build(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="DPR .tsv or .jsonl, possibly .gz.")],
    out: Annotated[Path, typer.Option(help="The index folder to make.")],
    kind: Annotated[Literal["bm25", "dense"], typer.Option(help="Lucene's BM25, or FAISS over vectors.")] = "bm25",
    encoder: Annotated[
        str, typer.Option(help="dense: minilm, a sentence-transformers name or folder, dpr:QUESTION,CONTEXT.")
    ] = "minilm",
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="dense: arithmetic of the encoder; bfloat16 is faster.")
    ] = "float32",
    faiss: Annotated[str, typer.Option(help="dense: FAISS index type; Flat, SQ8 or SQfp16.")] = "Flat",
    shard_rows: Annotated[int, typer.Option(min=1, help="dense: passages a shard; finished shards survive.")] = 50_000,
    k1: Annotated[float | None, typer.Option(min=0, help="bm25: term saturation.  [default: 0.9]")] = None,
    b: Annotated[float | None, typer.Option(min=0, max=1, help="bm25: length normalisation.  [default: 0.4]")] = None,
) -> None:
    """Index a corpus. The same command again resumes, or finds that nothing is left to do."""
    from madke.cli.progress import counter
    from madke.encoders import load_encoder
    from madke.indexing.build import build_bm25, build_dense
    from madke.knowledge.manifest import Bm25Settings

    progress = counter("passages")
    if kind == "bm25":
        chosen = {name: value for name, value in (("k1", k1), ("b", b)) if value is not None}
        manifest = build_bm25(corpus, out, settings=Bm25Settings(**chosen), progress=progress)
    else:
        if k1 is not None or b is not None:
            raise UserError("--k1 and --b belong to --kind bm25")
        loaded = load_encoder(encoder, dtype=dtype)
        manifest = build_dense(corpus, out, encoder=loaded, factory=faiss, shard_rows=shard_rows, progress=progress)
    typer.echo(f"{out}: {manifest.passages:,} passages, {manifest.size / 1e6:,.1f} MB")


@app.command()
def search(
    index: Annotated[str, typer.Argument(metavar="INDEX", help="An index folder, or A+B for their rank fusion.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    k: Annotated[int, typer.Option("--k", min=1, help="How many passages.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Print the best passages for one query."""
    import json
    from dataclasses import asdict

    from madke.knowledge.sources import open_spec
    from madke.terminal import printable

    (hits,) = open_spec("index", index).search([query], k)
    if hits.error is not None:
        raise UserError(f"the search failed: {hits.error}")
    for passage in hits.passages:
        if as_json:
            typer.echo(json.dumps(asdict(passage), ensure_ascii=False))
        else:
            typer.echo(printable(f"{passage.rank + 1}. {passage.title} ({passage.key}, {passage.score:.4f})"))
            typer.echo(printable(f"   {passage.text}"))


@app.command()
def info(index: Folder, as_json: AsJson = False) -> None:
    """Show an index's manifest: corpus, settings, size, versions."""
    from madke.knowledge.manifest import read_manifest
    from madke.terminal import printable

    manifest = read_manifest(index)
    if as_json:
        typer.echo(manifest.model_dump_json(indent=2))
        return
    typer.echo(printable(f"corpus    {manifest.corpus.path}\nsha256    {manifest.corpus.sha256}"))
    typer.echo(f"passages  {manifest.passages:,}\nsize      {manifest.size / 1e6:,.1f} MB")
    for name, value in manifest.index.model_dump().items():
        typer.echo(printable(f"{name:<9} {value}"))
    typer.echo("built by  " + ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))


@app.command()
def verify(index: Folder) -> None:
    """Read every file of an index, and its corpus, and compare them with the manifest. Exit status 2 on a problem."""
    from madke.knowledge.manifest import verify as problems_of

    if problems := problems_of(index):
        raise UserError("; ".join(problems), file=index)
    typer.echo(f"{index}: all files are as they were built, and the corpus has not changed")
