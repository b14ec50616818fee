"""BM25 searches in batches, passages with their text, against pyserini's own ``batch_search``."""

from __future__ import annotations

from functools import partial

from eval.benchmarks.indexes import bm25_index
from eval.benchmarks.lucene import THREADS, index_collection, pyserini_searcher, write_documents
from eval.benchmarks.measure import Setting, best_of, curve, duration, queries_for, report, text_corpus
from madke.knowledge.index_sources import Bm25Source

SIZES = (25_000, 50_000, 100_000)
QUICK = (500,)
QUERIES = 1_000
DEPTH = 10
_AIM = 0.9


def main(setting: Setting) -> None:
    """Compare at the largest size. pyserini's index stores the documents, ours has them in the passage store."""
    sizes = QUICK if setting.quick else SIZES
    corpora = [text_corpus(setting, count) for count in sizes]
    queries = queries_for(corpora[-1], 50 if setting.quick else QUERIES)
    sources = [Bm25Source(bm25_index(corpus), name="wiki") for corpus in corpora]
    stored = corpora[-1].with_name(f"pyserini-{corpora[-1].stem}")
    index_collection(write_documents(corpora[-1]), stored, raw=True)
    searcher = pyserini_searcher(stored)
    qids = [str(number) for number in range(len(queries))]

    def theirs() -> list[list[str]]:
        found = searcher.batch_search(queries, qids, k=DEPTH, threads=THREADS)
        return [[hit.lucene_document.get("raw") for hit in found[qid]] for qid in qids]

    search = partial(sources[-1].search, queries, DEPTH)
    assert [len(hits.passages) for hits in search()] == [len(texts) for texts in theirs()]
    ours, bare = best_of(3, search, theirs)
    report(
        f"BM25 search, {len(queries):,} queries, k = {DEPTH}, {THREADS} threads",
        f"{len(queries) / ours:.0f} queries/s over {sizes[-1]:,} passages",
        f"{len(queries) / bare:.0f} with batch_search and the raw text of each hit",
        bare / ours,
        f"{_AIM}",
        bare / ours >= _AIM,
    )
    points = []
    for count, source in zip(sizes, sources, strict=True):
        points.append((count, best_of(2, partial(source.search, queries, DEPTH))[0] / len(queries)))
    curve(setting, f"time of a query, k = {DEPTH},", points, duration)
