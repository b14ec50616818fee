"""Build an index folder (passages, index files, manifest) atomically.

The index is built in a hidden folder next to the target, which is renamed at the end. Finished shards of vectors and
FAISS files stay there after an interruption, and the same command resumes from them.
"""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from madke._util.assets import versions
from madke._util.files import dir_lock, fingerprint, write_file
from madke._util.workers import Engine, open_workers
from madke.core.errors import UserError, count_of
from madke.models.encoders import AS_STORED, BATCHING, Dtype, Encoder, Encoding, Pooling, load_encoder
from madke.retrieval.indexes import dense
from madke.retrieval.indexes.corpus import describe_corpus, read_unique
from madke.retrieval.indexes.index_folder import (
    LUCENE,
    MANIFEST,
    PASSAGES_FILE,
    Bm25Settings,
    CorpusInfo,
    DenseSettings,
    Manifest,
    PassageStore,
    describe_files,
    read_manifest,
    write_passages,
)
from madke.retrieval.indexes.lucene import index_passages, start_jvm

_log = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]
"""Called with the passages done and their total (None while the corpus is read). Reading and indexing each count up."""

SHARD_ROWS = 10_000
_MAX_LISTED = 10
_VECTORS = "vectors"
_FAISS = "faiss"


def build_index(
    corpus: str | Path,
    out: str | Path,
    kind: Literal["bm25", "dense"] = "bm25",
    *,
    k1: float | None = None,
    b: float | None = None,
    encoder: str | Encoder | None = None,
    dtype: Dtype | None = None,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
    faiss: dense.FaissType | None = None,
    shard_rows: int | None = None,
    file_mb: float | None = None,
    engine: Engine = "local",
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Build the index of a corpus in the folder ``out``: Lucene's BM25, or FAISS over vectors.

    After a kill the same call resumes; if the index is complete, it returns at once. An option of None has its default.
    A dense build holds in memory the text and vectors of the shards in progress, one FAISS file, and the training
    sample.

    Args:
        corpus: See :func:`madke.retrieval.indexes.corpus.read_corpus`; an index folder is read as its passages.
        out: The index folder to create.
        kind: ``bm25`` or ``dense``.
        k1: bm25: term saturation; default 0.9.
        b: bm25: length normalisation; default 0.4.
        encoder: dense: a name for :func:`madke.models.encoders.load_encoder`, or an encoder; default ``minilm``.
        dtype: dense: arithmetic of a named encoder; default ``float32``.
        query_prefix: dense: text in front of each query. Default: stored with the model, else by its card; so are the
            next three.
        passage_prefix: dense: text in front of each passage.
        pooling: dense: how the vectors of a text's tokens become one.
        normalize: dense: whether vectors get length 1.
        faiss: dense: ``flat`` (exact; the default), ``sq8``, ``hnsw`` or ``ivfpq``.
        shard_rows: dense: passages per shard, the unit of encoding and of loss after a kill; default 10,000.
        file_mb: dense: megabytes of vectors per FAISS file; default by type.
        engine: dense: where to encode, ``local`` or ``ray``.
        progress: See :data:`Progress`.

    Raises:
        UserError: The corpus cannot be read, an option does not apply, a package or Java is missing, ``out`` holds
            something else, or the disk is full.
    """
    options = {name for name, value in locals().items() if value is not None and (name, value) != ("engine", "local")}
    options -= {"corpus", "out", "kind", "progress"}
    if stray := sorted(options - {"k1", "b"} if kind == "bm25" else options & {"k1", "b"}):
        other = "dense" if kind == "bm25" else "bm25"
        raise UserError(f"--{stray[0].replace('_', '-')} requires --kind {other}")
    corpus, out = Path(corpus), Path(out).absolute()
    if kind == "bm25":
        start_jvm()
    elif encoder is None or isinstance(encoder, str):
        encoding = Encoding(
            query_prefix=query_prefix, passage_prefix=passage_prefix, pooling=pooling, normalize=normalize
        )
        encoder = load_encoder(encoder or "minilm", dtype=dtype or "float32", encoding=encoding)

    def settings_of(count: int) -> Bm25Settings | DenseSettings:
        """The settings of an index of ``count`` passages."""
        if encoder is None or isinstance(encoder, str):
            return Bm25Settings(k1=0.9 if k1 is None else k1, b=0.4 if b is None else b)
        own = {} if file_mb is None else {"file_mb": file_mb}
        return DenseSettings(
            encoder=encoder.name,
            dtype=encoder.dtype,
            dimension=encoder.dimension,
            similarity=encoder.similarity,
            shard_rows=shard_rows or SHARD_ROWS,
            revision=encoder.revision,
            batching=BATCHING,
            **dense.faiss_settings(faiss or "flat", count, encoder.dimension) | own,
            **asdict(getattr(encoder, "encoding", AS_STORED)),
        )

    if out.exists() and not out.is_dir():
        raise UserError("found a file, expected a folder for the index", file=out)
    source = describe_corpus(corpus)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(f".{out.name}.building")
    index = work / "index"
    with open_workers(engine, gpus=True) as workers, dir_lock(work):
        try:
            if out.is_dir() and any(out.iterdir()):
                return _same_index(out, source, settings_of)
            _discard_unfinished(work)
            index.mkdir()
            store, skipped = _store_passages(corpus, index / PASSAGES_FILE, progress)
            source = source.model_copy(update={"skipped": source.skipped + skipped})
            settings = settings_of(len(store))
            if isinstance(settings, Bm25Settings):
                index_passages(store, index / LUCENE, progress)
            else:
                assert not isinstance(encoder, str | None)
                identity, vectors = source.identity, work / _VECTORS
                shards = dense.encode_shards(
                    store, encoder, settings, corpus=identity, folder=vectors, workers=workers, progress=progress
                )
                files = dense.write_faiss_files(shards, settings, work / _FAISS, corpus=identity)
                (index / _FAISS).mkdir()
                for file in files:
                    file.rename(index / _FAISS / file.name)
            manifest = Manifest(
                corpus=source, passages=len(store), index=settings, files=describe_files(index), versions=versions()
            )
            write_file(index / MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")
            index.rename(out)
            shutil.rmtree(work)
            return manifest
        finally:
            if work.exists():
                _discard_unfinished(work)
                if not any(work.iterdir()):
                    work.rmdir()


def _store_passages(corpus: Path, path: Path, progress: Progress) -> tuple[PassageStore, int]:
    """Write the corpus to a store at ``path``; the store of an index is linked, or copied if that fails.

    Also returns how many passages were skipped here, which are logged.
    """
    skipped: list[str] = []
    if (corpus / MANIFEST).is_file():
        stored = corpus / PASSAGES_FILE
        expected = next(file.sha256 for file in read_manifest(corpus).files if file.path == PASSAGES_FILE)
        if fingerprint(stored) != expected:
            raise UserError("the file changed after it was built; build that index again", file=stored)
        try:
            os.link(stored, path)
        except OSError:  # another disk, or one without links
            shutil.copyfile(stored, path)
    elif not write_passages(path, read_unique(corpus, skipped), progress):
        raise UserError("this corpus has no passages" + (" with text" if skipped else ""), file=corpus)
    if skipped:
        more = f" and {len(skipped) - _MAX_LISTED:,} more" if len(skipped) > _MAX_LISTED else ""
        named = ", ".join(skipped[:_MAX_LISTED])
        _log.warning("%s: skipped %s without text: %s%s", corpus, count_of(len(skipped), "passage"), named, more)
    return PassageStore(path), len(skipped)


def _same_index(out: Path, source: CorpusInfo, settings_of: Callable[[int], Bm25Settings | DenseSettings]) -> Manifest:
    if not (out / MANIFEST).exists():
        raise UserError("this folder is not empty and holds no index; choose another folder", file=out)
    manifest = read_manifest(out)
    if manifest.corpus.sha256 != source.sha256:
        other = f"the index of another corpus, or of {manifest.corpus.path} before it changed"
    elif manifest.index != settings_of(manifest.passages):
        other = f"an index with other settings ({manifest.index!r})"
    else:
        return manifest
    raise UserError(f"this folder holds {other}; remove it or choose another folder", file=out)


def _discard_unfinished(work: Path) -> None:
    """Remove everything but vectors and FAISS files, which take long to make."""
    for path in work.iterdir():
        if path.name not in (_VECTORS, _FAISS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
