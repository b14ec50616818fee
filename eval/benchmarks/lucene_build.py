"""Documents a second into Lucene, against Anserini's own indexer in the same process."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from eval.benchmarks.indexes import bm25_index, built_bm25
from eval.benchmarks.lucene import THREADS, index_collection, write_documents
from eval.benchmarks.measure import Setting, best_of, curve, disk, duration, in_own_process, report, size, text_corpus
from madke.indexing.index_folder import PASSAGES_FILE, PassageStore
from madke.indexing.lucene import index_passages

SIZES = (25_000, 50_000, 100_000)
QUICK = (500,)
_AIM = 0.9


def main(setting: Setting) -> None:
    """Compare like with like, without stored text; ours keeps it in the passage store beside the index."""
    sizes = QUICK if setting.quick else SIZES
    corpora = {count: text_corpus(setting, count) for count in sizes}
    built = {count: built_bm25(corpus) for count, corpus in corpora.items()}
    count, corpus = sizes[-1], corpora[sizes[-1]]
    (ours, bare, bare_raw), _ = in_own_process(_compare, corpus)
    report(
        f"Lucene build, {count:,} passages, {THREADS} threads",
        f"{count / ours:.0f} passages/s",
        f"{count / bare:.0f} with IndexCollection ({count / bare_raw:.0f} with -storeRaw)",
        bare / ours,
        f"{_AIM}",
        bare / ours >= _AIM,
    )
    whole = [(count, index.seconds) for count, index in built.items()]
    curve(setting, "seconds of a whole build, corpus file to manifest,", whole, duration)
    curve(
        setting, "anonymous memory", [(count, index.peak) for count, index in built.items()], size, extrapolated=False
    )
    curve(setting, "disk", [(count, disk(index.folder)) for count, index in built.items()], size)


def _compare(corpus: Path) -> list[float]:
    """Seconds of our indexing, of IndexCollection, and of IndexCollection with stored text."""
    store = PassageStore(bm25_index(corpus) / PASSAGES_FILE)
    documents = write_documents(corpus)
    work = corpus.with_name("lucene-build")

    def ours() -> None:
        index_passages(store, _fresh(work), lambda done, total: None)

    def theirs(raw: bool) -> None:
        index_collection(documents, _fresh(work), raw=raw)

    ways = (ours, partial(theirs, False), partial(theirs, True))
    best_of(1, *ways)  # Java compiles on the first round what it runs on the others
    return best_of(3, *ways)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder
