"""Lucene indexes for BM25: written straight from the passage store, without a copy or texts inside, and opened."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.indexing.jvm import attached, java_class, java_reason
from madke.indexing.passage_store import PassageStore, StoredPassage


def open_lucene(folder: Path, *, k1: float, b: float) -> Any:
    """Anserini's searcher over the index, ready for several threads. Raises jnius.JavaException where it cannot."""
    searcher = java_class("io.anserini.search.SimpleSearcher")(str(folder))
    searcher.set_bm25(k1, b)
    # The searcher sets itself up during its first search, which two threads must not do at once.
    searcher.search("warm up", 1)
    return searcher


_CHUNK = 5_000
"""Passages handed to Java at a time; Ctrl-C gets through between two chunks."""
_BUFFER_MB = 256
"""What Lucene collects before it writes a segment. Anserini's default, 4 GB, is more than the whole heap."""


def index_passages(store: PassageStore, folder: Path, progress: Callable[[int, int | None], None]) -> None:
    """Index title and text of every passage (Anserini's English analyser). A document's id is its row.

    Raises:
        UserError: The index lacks documents, for want of disk space most likely, or Lucene's memory is too small.
    """
    indexer_class = java_class("io.anserini.index.SimpleIndexer")
    import jnius  # not before the JVM has been started with its class path

    try:
        threads = str(os.cpu_count() or 1)
        form = ["-input", "", "-collection", "JsonCollection"]  # it asks for them, and documents come from here
        indexer = indexer_class([*form, "-index", str(folder), "-threads", threads, "-memoryBuffer", str(_BUFFER_MB)])
        try:
            # While Java indexes one chunk, Python prepares the next.
            with ThreadPoolExecutor(1) as java:
                under_way: Future[None] | None = None
                for start in range(0, len(store), _CHUNK):
                    rows = range(start, min(start + _CHUNK, len(store)))
                    documents = [_document(row, passage) for row, passage in zip(rows, store.read(rows), strict=True)]
                    if under_way:
                        under_way.result()
                        progress(start, len(store))
                    under_way = java.submit(_add, indexer, documents)
            if under_way:
                under_way.result()
                progress(len(store), len(store))
        finally:
            indexer.close()
    except jnius.JavaException as error:
        raise UserError(f"Lucene cannot write it: {java_reason(error)}", file=folder) from None
    # Anserini logs the errors of its threads, and of writing the last segment, and goes on.
    count = _count_documents(folder)
    if count != len(store):
        raise UserError(
            f"Lucene wrote {count:,} of {len(store):,} passages; is the disk full? Make room, then run it again",
            file=folder,
        )


def _add(indexer: Any, documents: list[str]) -> None:
    with attached():
        indexer.addRawDocuments(documents)


def _count_documents(folder: Path) -> int:
    import jnius

    try:
        directory = java_class("org.apache.lucene.store.FSDirectory").open(
            java_class("java.io.File")(str(folder)).toPath()
        )
        reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    except jnius.JavaException:  # nothing was committed
        return 0
    try:
        return int(reader.numDocs())
    finally:
        reader.close()


def _document(row: int, passage: StoredPassage) -> str:
    return json.dumps({"id": str(row), "contents": f"{passage.title}\n{passage.text}"})
