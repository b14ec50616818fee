"""Building an index folder: passages, index files and a manifest appear together, or not at all.

The work happens in a hidden folder beside the target. The index grows in a folder of its own there, which is renamed at
the end and thrown away after a failure. What takes long, shards of vectors and FAISS files, lies beside it until the
index has its name; the same command again goes on from what is finished.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from madke import memory
from madke.core.errors import UserError
from madke.encoders import BATCHING, Encoder
from madke.files import alone_in, fingerprint
from madke.indexing.corpus import read_unique
from madke.indexing.faiss_files import (
    FaissShards,
    check_factory,
    choose,
    default_file_mb,
    default_parameters,
    write_faiss_files,
)
from madke.indexing.jvm import start as start_jvm
from madke.indexing.lucene import index_passages
from madke.indexing.manifest import (
    LUCENE,
    MANIFEST,
    PASSAGES,
    Bm25Settings,
    CorpusInfo,
    DenseSettings,
    Exactness,
    Manifest,
    describe_corpus,
    describe_files,
    read_manifest,
    write_manifest,
)
from madke.indexing.passage_store import PassageStore, StoredPassage, write_passages
from madke.indexing.vectors import encode_shards, measure_recall
from madke.versions import versions
from madke.workers import IN_THIS_PROCESS, Workers

Progress = Callable[[int, int | None], None]
"""Called with passages done and, once the corpus has been read, their total. Reading and indexing each count up."""

AUTO = "auto"
SHARD_ROWS = 10_000
_VECTORS = "vectors"
_FAISS = "faiss"
_INDEX = "index"


def build_bm25(
    corpus: Path, out: Path, *, settings: Bm25Settings | None = None, progress: Progress = lambda done, total: None
) -> Manifest:
    """Build a BM25 index over a corpus (see :func:`madke.indexing.corpus.read_corpus`) into the folder ``out``.

    Where ``out`` already holds the index of this corpus with these settings, nothing is done.

    Raises:
        UserError: The corpus cannot be read, Java or pyserini is missing, ``out`` holds something else, or the disk
            is full.
    """
    chosen = settings or Bm25Settings()

    def fill(store: PassageStore, index: Path, _: CorpusInfo) -> _Filled:
        index_passages(store, index / LUCENE, progress)
        return _Filled(chosen)

    start_jvm()
    return _build(corpus, out, chosen, fill, progress)


def build_dense(
    corpus: Path,
    out: Path,
    *,
    encoder: Encoder,
    factory: str = AUTO,
    parameters: str | None = None,
    shard_rows: int = SHARD_ROWS,
    file_mb: float | None = None,
    vectors: Path | None = None,
    workers: Workers = IN_THIS_PROCESS,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Build a dense index over a corpus into the folder ``out``; resumes at the first unfinished shard.

    Where ``out`` already holds the index of this corpus with these settings, nothing is done. Memory holds the text
    and the vectors of the shards under way, one FAISS file, and the sample that the index is trained on.

    Args:
        corpus: See :func:`madke.indexing.corpus.read_corpus`; an index folder stands for its passages.
        out: The index folder to make.
        encoder: Encodes passages, and later queries.
        factory: FAISS factory string, or ``auto``, which chooses by the memory there is (``faiss_choice``).
        parameters: Search parameters in FAISS's own words; None takes :func:`default_parameters`. Not with ``auto``.
        shard_rows: Passages that are encoded, and lost by a kill, at a time.
        file_mb: At most so many megabytes of vectors in a FAISS file; None takes :func:`default_file_mb`.
        vectors: Where the vectors are, and stay, so that another index can be made of them without encoding again;
            by default they are removed when the index is finished. One build at a time may use the folder.
        workers: Who encodes.
        progress: See :data:`Progress`.

    Raises:
        UserError: The corpus cannot be read, faiss is missing, FAISS refuses the factory or the parameters, ``out``
            holds something else, or the disk is full.
    """
    if factory != AUTO:
        check_factory(factory, encoder.dimension, parameters or "")
        if parameters is None:
            parameters = default_parameters(factory, encoder.dimension)
    elif parameters:
        raise UserError("--faiss-parameters need a --faiss that they fit; auto takes a type that has none")
    asked = DenseSettings(
        encoder=encoder.name,
        dtype=encoder.dtype,
        dimension=encoder.dimension,
        similarity=encoder.similarity,
        factory=factory,
        parameters=parameters or "",
        shard_rows=shard_rows,
        revision=encoder.revision,
        batching=BATCHING,
        file_mb=default_file_mb(factory) if file_mb is None else file_mb,
    )

    def fill(store: PassageStore, index: Path, source: CorpusInfo) -> _Filled:
        settings = asked
        if factory == AUTO:
            chosen, reason = choose(len(store), encoder.dimension, memory.total())
            settings = asked.model_copy(update={"factory": chosen, "reason": reason})
        work = index.parent
        with alone_in(vectors) if vectors else nullcontext():
            shards = encode_shards(
                store,
                encoder,
                settings,
                corpus=source.sha256,
                folder=vectors or work / _VECTORS,
                replace=vectors is None,
                workers=workers,
                progress=progress,
            )
            files = write_faiss_files(shards, settings, work / _FAISS, corpus=source.sha256)
            searched = FaissShards(files, parameters=settings.parameters)
            if len(searched) != len(store):
                raise RuntimeError(f"{len(searched)} vectors of {len(store)} passages")
            exactness = measure_recall(store, encoder, shards, searched)
        (index / _FAISS).mkdir()
        for file in files:
            file.rename(index / _FAISS / file.name)
        return _Filled(settings, exactness)

    return _build(corpus, out, asked, fill, progress)


class _Filled(NamedTuple):
    """What is in the folder now."""

    settings: Bm25Settings | DenseSettings
    exactness: Exactness | None = None


def _build(
    corpus: Path,
    out: Path,
    asked: Bm25Settings | DenseSettings,
    fill: Callable[[PassageStore, Path, CorpusInfo], _Filled],
    progress: Progress,
) -> Manifest:
    out = out.absolute()
    if out.exists() and not out.is_dir():
        raise UserError("this is a file; an index needs a folder", file=out)
    source = describe_corpus(corpus)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(f".{out.name}.building")
    with alone_in(work):
        try:
            if out.is_dir() and any(out.iterdir()):
                return _same_index(out, source, asked)
            _discard_unfinished(work)
            index = work / _INDEX
            index.mkdir()
            count = _store_passages(corpus, index / PASSAGES, progress)
            filled = fill(PassageStore(index / PASSAGES), index, source)
            manifest = Manifest(
                corpus=source,
                passages=count,
                index=filled.settings,
                exactness=filled.exactness,
                files=describe_files(index),
                versions=versions(),
            )
            write_manifest(index, manifest)
            index.rename(out)
            shutil.rmtree(work)
            return manifest
        finally:
            if work.exists():
                _discard_unfinished(work)
                if not any(work.iterdir()):
                    work.rmdir()


def _store_passages(corpus: Path, path: Path, progress: Progress) -> int:
    """Put the corpus into a store at ``path``; an index's own store is linked, not copied, where the disk allows it."""
    if (corpus / MANIFEST).is_file():
        try:
            os.link(corpus / PASSAGES, path)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise UserError(f"cannot be read: {error.strerror}", file=corpus / PASSAGES) from None
            shutil.copyfile(corpus / PASSAGES, path)
        expected = next(file.sha256 for file in read_manifest(corpus).files if file.path == PASSAGES)
        if fingerprint(path) != expected:
            raise UserError("is not as it was built; see madke index verify", file=corpus / PASSAGES)
        return len(PassageStore(path))
    count = write_passages(path, _counted(read_unique(corpus), progress))
    if not count:
        raise UserError("no passages in this corpus", file=corpus)
    return count


def _same_index(out: Path, source: CorpusInfo, asked: Bm25Settings | DenseSettings) -> Manifest:
    if not (out / MANIFEST).exists():
        raise UserError("this folder is not empty and holds no index; choose another", file=out)
    manifest = read_manifest(out)
    if manifest.corpus.sha256 != source.sha256:
        raise UserError(
            f"this folder holds the index of another corpus, or of {manifest.corpus.path} before it changed; "
            "remove it or choose another",
            file=out,
        )
    if manifest.index != _as_chosen(asked, manifest.index):
        raise UserError(
            f"this folder holds an index with other settings ({manifest.index!r}); remove it or choose another",
            file=out,
        )
    return manifest


def _as_chosen(
    asked: Bm25Settings | DenseSettings, found: Bm25Settings | DenseSettings
) -> Bm25Settings | DenseSettings:
    """What was asked for, with the choice that ``auto`` made when the index was built."""
    if isinstance(asked, DenseSettings) and isinstance(found, DenseSettings) and asked.factory == AUTO and found.reason:
        return asked.model_copy(update={"factory": found.factory, "reason": found.reason})
    return asked


def _discard_unfinished(work: Path) -> None:
    """Remove everything but what takes long and is finished."""
    for path in work.iterdir():
        if path.name in (_VECTORS, _FAISS):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _counted(passages: Iterable[StoredPassage], progress: Progress) -> Iterator[StoredPassage]:
    count = 0
    for count, passage in enumerate(passages, start=1):
        yield passage
        if count % 10_000 == 0:
            progress(count, None)
    progress(count, None)
