"""Indexes: their build, and searches in batches, against Anserini's and FAISS's own programs."""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.benchmarks.measure import Result, Setting, duration, generated_corpus, in_own_process
from madke.models.encoders import Dtype, Similarity
from madke.retrieval.index_sources import Bm25Source
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.corpus import read_corpus
from madke.retrieval.indexes.dense import FaissShards, load_faiss
from madke.retrieval.indexes.index_folder import PASSAGES_FILE, PassageStore
from madke.retrieval.indexes.lucene import index_passages, java_class, start_jvm

DIMENSION = 768
"""DPR's."""
_THREADS = os.cpu_count() or 1
_FILES = 4 * _THREADS
"""Anserini gives a whole file to a thread; several for each, so that none is left without work early."""
_DEPTH = 10
_AIM = 0.9
_MOST_APART = 150_000_000


def bm25(setting: Setting) -> Iterator[Result]:
    """Passages a second into Lucene against IndexCollection, and searches against pyserini's ``batch_search``."""
    count = 500 if setting.quick else 100_000
    corpus = generated_corpus(setting.folder, count)
    index = corpus.with_name("bm25")
    (seconds, peak) = in_own_process(_build_bm25, corpus, index)
    (ours, bare), _ = in_own_process(_indexing, corpus, index, _rounds(setting))
    yield Result(
        f"BM25 build, {count:,} passages, {_THREADS} threads",
        f"{count / ours:.0f} passages/s; the whole build {duration(seconds)}, RssAnon {_size(peak)}",
        f"{count / bare:.0f} with IndexCollection",
        bare / ours,
        f"at least {_AIM}",
        bare / ours >= _AIM,
    )
    queries = _queries_for(corpus, 50 if setting.quick else 1_000)
    ours, bare = _bm25_searches(corpus, index, queries, _rounds(setting))
    yield Result(
        f"BM25 search, {len(queries):,} queries, k = {_DEPTH}, {_THREADS} threads",
        f"{len(queries) / ours:.0f} queries/s over {count:,} passages",
        f"{len(queries) / bare:.0f} with batch_search and the raw text of each hit",
        bare / ours,
        f"at least {_AIM}",
        bare / ours >= _AIM,
    )


def _rounds(setting: Setting) -> int:
    return 1 if setting.quick else 4


def _best_of(times: int, *functions: Callable[[], object]) -> list[float]:
    """The fewest seconds that each function took when they were called in turn, so many times.

    The fewest, not the mean: whatever else the machine does can only add to them.
    """

    def seconds(function: Callable[[], object]) -> float:
        started = time.perf_counter()
        function()
        return time.perf_counter() - started

    taken = [[seconds(function) for function in functions] for _ in range(times)]
    return [min(column) for column in zip(*taken, strict=True)]


def _queries_for(corpus: Path, count: int) -> list[str]:
    """Queries of nine words, about as long as a question of Natural Questions: each the middle of a passage."""
    passages = list(read_corpus(corpus))
    chosen = [passages[number * len(passages) // count].text.split() for number in range(count)]
    return [" ".join(words[len(words) // 2 :][:9]) for words in chosen]


def _size(count: float) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e6:,.0f} MB"


def _build_bm25(corpus: Path, index: Path) -> float:
    started = time.perf_counter()
    build_index(corpus, index)
    return time.perf_counter() - started


def _indexing(corpus: Path, index: Path, rounds: int) -> list[float]:
    """Seconds of our indexing and of IndexCollection, both without stored text."""
    store = PassageStore(index / PASSAGES_FILE)
    documents, work = _documents(corpus), corpus.with_name("lucene-build")

    def ours() -> None:
        shutil.rmtree(work, ignore_errors=True)
        index_passages(store, work, lambda done, total: None)

    def theirs() -> None:
        shutil.rmtree(work, ignore_errors=True)
        _index_collection(documents, work)

    return _best_of(rounds, ours, theirs)  # Java compiles on the first round what it runs on the others


def _bm25_searches(corpus: Path, index: Path, queries: Sequence[str], rounds: int) -> list[float]:
    """Seconds of our search and of pyserini's. Its index stores the documents, ours has them in the passage store."""
    stored = corpus.with_name("pyserini")
    _index_collection(_documents(corpus), stored, "-storeRaw")
    source, searcher = Bm25Source(index, name="wiki"), _pyserini_searcher(stored)
    qids = [str(number) for number in range(len(queries))]

    def theirs() -> list[list[str]]:
        found = searcher.batch_search(queries, qids, k=_DEPTH, threads=_THREADS)
        return [[hit.lucene_document.get("raw") for hit in found[qid]] for qid in qids]

    search = partial(source.search, queries, _DEPTH)
    assert [len(hits.passages) for hits in search()] == [len(texts) for texts in theirs()]
    return _best_of(rounds, search, theirs)


def _documents(corpus: Path) -> Path:
    """The corpus as Anserini's JSON collection reads it, in a folder next to it, made once."""
    folder = corpus.with_name("documents")
    if not folder.exists():
        folder.mkdir()
        passages = list(read_corpus(corpus))
        for number in range(_FILES):
            lines = (
                json.dumps({"id": passage.id, "contents": f"{passage.title}\n{passage.text}"}) + "\n"
                for passage in islice(passages, number, None, _FILES)
            )
            (folder / f"{number}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def _index_collection(documents: Path, index: Path, *more: str) -> None:
    options = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", *more]
    options += ["-input", str(documents), "-index", str(index), "-threads", str(_THREADS), "-quiet"]
    java_class("io.anserini.index.IndexCollection").main(options)


def _pyserini_searcher(index: Path) -> Any:
    """Pyserini's ``LuceneSearcher``; its import asks for a key of OpenAI's, which nothing here uses."""
    start_jvm()
    os.environ.setdefault("OPENAI_API_KEY", "unused")
    from pyserini.search.lucene import LuceneSearcher

    return LuceneSearcher(str(index))


def dense(setting: Setting) -> Iterator[Result]:
    """Memory of a build over vectors (SQ8), and searches in mapped files against bare FAISS in memory."""
    counts = (1_000, 2_000) if setting.quick else (50_000, 400_000)
    built = {}
    for count in counts:
        index = setting.folder / f"dense-{count}"
        built[count] = (index, *in_own_process(_build_dense, generated_corpus(setting.folder, count), index))
    (_, _, small), (index, seconds, large) = built.values()
    yield Result(
        "dense build, anonymous memory",
        f"{_size(large)} for {counts[1]:,} vectors, {duration(seconds)} without encoding",
        f"{_size(small)} for {counts[0]:,}",
        large / small,
        f"within {_size(_MOST_APART)} of each other",
        abs(large - small) <= _MOST_APART,
    )
    vectors = RandomEncoder().encode_queries(["queries"] * (100 if setting.quick else 1_000))
    files = sorted(index.rglob("*.index"))
    mapped, in_memory = FaissShards(files), _in_memory(files)
    assert (mapped.search(vectors[:8], _DEPTH)[1] == in_memory.search(vectors[:8], _DEPTH)[1]).all()
    searches = (partial(index.search, vectors, _DEPTH) for index in (mapped, in_memory))
    ours, bare = _best_of(_rounds(setting), *searches)
    yield Result(
        f"dense search, {len(vectors):,} queries, k = {_DEPTH}",
        f"{len(vectors) / ours:.0f} queries/s over {len(files)} mapped files of {counts[1]:,} vectors",
        f"{len(vectors) / bare:.0f} with bare FAISS in memory",
        bare / ours,
        f"at least {_AIM}",
        bare / ours >= _AIM,
    )


class RandomEncoder:
    """Normal vectors instead of a model's: encoding costs next to nothing, so that all the rest shows."""

    name = "random"
    dtype: Dtype = "float32"
    dimension = DIMENSION
    similarity: Similarity = "inner_product"
    revision = ""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors that depend on the first text and on how many there are."""
        random = np.random.default_rng(zlib.crc32(texts[0].encode()))
        return random.standard_normal((len(texts), self.dimension), dtype=np.float32)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """As for queries."""
        return self.encode_queries(texts)


def _build_dense(corpus: Path, index: Path) -> float:
    started = time.perf_counter()
    build_index(corpus, index, encoder=RandomEncoder(), faiss="sq8", kind="dense")
    return time.perf_counter() - started


def _in_memory(files: Sequence[Path]) -> Any:
    """The files' vectors as one index of the same kind."""
    joined, *others = [load_faiss().read_index(str(path)) for path in files]
    for other in others:
        joined.merge_from(other)
    return joined
