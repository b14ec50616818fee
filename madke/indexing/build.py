"""Building an index folder: passages, index files and a manifest appear together, or not at all.

The work happens in a hidden folder beside the target, which is renamed at the end. Only finished shards of vectors
outlive a failure there; the same command again goes on from them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from madke.core.errors import UserError
from madke.encoders import Encoder
from madke.indexing.corpus import read_unique
from madke.indexing.dense import encode_shards
from madke.indexing.faiss_index import check_factory, write_shard
from madke.indexing.lucene import index_passages
from madke.knowledge.jvm import start as start_jvm
from madke.knowledge.manifest import (
    LUCENE,
    MANIFEST,
    PASSAGES,
    Bm25Settings,
    CorpusInfo,
    DenseSettings,
    Manifest,
    describe_corpus,
    describe_files,
    read_manifest,
    write_manifest,
)
from madke.knowledge.passage_store import PassageStore, StoredPassage, write_passages
from madke.versions import versions

Progress = Callable[[int, int | None], None]
"""Called with passages done and, once the corpus has been read, their total. Reading and indexing each count up."""

_VECTORS = "vectors"


def build_bm25(
    corpus: Path, out: Path, *, settings: Bm25Settings | None = None, progress: Progress = lambda done, total: None
) -> Manifest:
    """Build a BM25 index over a corpus file into the folder ``out``.

    Where ``out`` already holds the index of this corpus with these settings, nothing is done.

    Raises:
        UserError: The corpus cannot be read, Java or pyserini is missing, or ``out`` holds something else.
    """

    def fill(store: PassageStore, folder: Path, _: CorpusInfo) -> None:
        index_passages(store, folder / LUCENE, progress)

    start_jvm()
    return _build(corpus, out, settings or Bm25Settings(), fill, progress)


def build_dense(
    corpus: Path,
    out: Path,
    *,
    encoder: Encoder,
    factory: str = "Flat",
    shard_rows: int = 50_000,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Build a dense index over a corpus file into the folder ``out``; resumes at the first unfinished shard.

    Where ``out`` already holds the index of this corpus with these settings, nothing is done. Memory holds the text
    and the vectors of one shard.

    Raises:
        UserError: The corpus cannot be read, faiss is missing, or ``out`` holds something else.
    """
    check_factory(factory)
    settings = DenseSettings(
        encoder=encoder.name,
        dtype=encoder.dtype,
        dimension=encoder.dimension,
        similarity=encoder.similarity,
        factory=factory,
        shard_rows=shard_rows,
    )

    def fill(store: PassageStore, folder: Path, source: CorpusInfo) -> None:
        shards = encode_shards(
            store, encoder, settings, corpus=source.sha256, folder=folder / _VECTORS, progress=progress
        )
        for number, vectors in enumerate(shards):
            write_shard(vectors, factory, folder / f"faiss-{number:05d}.index")

    return _build(corpus, out, settings, fill, progress)


def _build(
    corpus: Path,
    out: Path,
    settings: Bm25Settings | DenseSettings,
    fill: Callable[[PassageStore, Path, CorpusInfo], None],
    progress: Progress,
) -> Manifest:
    out = out.absolute()
    if out.exists() and not out.is_dir():
        raise UserError("this is a file; an index needs a folder", file=out)
    source = describe_corpus(corpus)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(f".{out.name}.building")
    with _alone_in(work):
        try:
            if out.is_dir() and any(out.iterdir()):
                return _same_index(out, source, settings)
            _discard_unfinished(work)
            count = write_passages(work / PASSAGES, _counted(read_unique(corpus), progress))
            if not count:
                raise UserError("no passages in this corpus", file=corpus)
            fill(PassageStore(work / PASSAGES), work, source)
            shutil.rmtree(work / _VECTORS, ignore_errors=True)
            manifest = Manifest(
                corpus=source,
                passages=count,
                index=settings,
                files=describe_files(work),
                versions=versions(),
            )
            write_manifest(work, manifest)
            work.rename(out)
            return manifest
        finally:
            if work.exists():
                _discard_unfinished(work)
                if not any(work.iterdir()):
                    work.rmdir()


def _same_index(out: Path, source: CorpusInfo, settings: Bm25Settings | DenseSettings) -> Manifest:
    if not (out / MANIFEST).exists():
        raise UserError("this folder is not empty and holds no index; choose another", file=out)
    manifest = read_manifest(out)
    if manifest.corpus.sha256 != source.sha256:
        raise UserError(
            f"this folder holds the index of another corpus, or of {manifest.corpus.path} before it changed; "
            "remove it or choose another",
            file=out,
        )
    if manifest.index != settings:
        raise UserError(
            f"this folder holds an index with other settings ({manifest.index!r}); remove it or choose another",
            file=out,
        )
    return manifest


def _discard_unfinished(work: Path) -> None:
    for path in work.iterdir():
        if path.name == _VECTORS:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _alone_in(work: Path) -> Iterator[None]:
    """Make the folder and hold it: a second build of the same index waits, then finds the finished one."""
    while True:
        work.mkdir(exist_ok=True)
        handle = os.open(work, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever held the lock may have renamed or removed the folder, and the lock went with it.
            if work.exists() and os.path.samestat(os.fstat(handle), work.stat()):
                yield
                return
        finally:
            os.close(handle)


def _counted(passages: Iterable[StoredPassage], progress: Progress) -> Iterator[StoredPassage]:
    count = 0
    for count, passage in enumerate(passages, start=1):
        yield passage
        if count % 10_000 == 0:
            progress(count, None)
    progress(count, None)
