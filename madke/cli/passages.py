"""``madke index passages``: a Wikipedia dump, or books, to passages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from madke.cli import options
from madke.cli.console import resumable
from madke.core.errors import UserError
from madke.terminal import console, say

if TYPE_CHECKING:
    from madke.indexing.passages.shard_folder import Counts


def command(
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
    engine: options.Engine = "local",
    address: options.Address = None,
) -> None:
    """Cut Wikipedia or books into disjoint passages of 100 words, as DPR does, ready for `madke index build`.

    The same command again goes on after the last finished shard, or finds that nothing is left to do.
    """
    import os

    from madke.indexing.passages.builder import build_passages
    from madke.indexing.passages.shard_folder import read_folder
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
    _show(manifest.counts, kind)
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


def _show(counts: Counts, kind: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table("files" if kind == "text" else "pages", "", box=box.SIMPLE_HEAD, show_header=False)
    table.columns[1].justify = "right"
    for name, count in counts.model_dump().items():
        if count or name in ("pages", "articles", "passages"):
            table.add_row(name.replace("_", " "), f"{count:,}")
    console().print(table)
