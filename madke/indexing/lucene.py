"""Writing a Lucene index straight from the passage store: no copy of the corpus, no text inside Lucene."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from madke.core.errors import UserError
from madke.knowledge.jvm import java_class
from madke.knowledge.passage_store import PassageStore

_CHUNK = 5_000
"""Passages handed to Java at a time; Ctrl-C gets through between two chunks."""


def index_passages(store: PassageStore, folder: Path, progress: Callable[[int, int | None], None]) -> None:
    """Index title and text of every passage (Anserini's English analyser). A document's id is its row.

    Raises:
        UserError: The index lacks documents, for want of disk space most likely.
    """
    indexer = java_class("io.anserini.index.SimpleIndexer")(str(folder), False, os.cpu_count() or 1)
    try:
        for start in range(0, len(store), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(store)))
            indexer.addRawDocuments([_document(store, row) for row in rows])
            progress(rows.stop, len(store))
    finally:
        indexer.close()
    # Anserini logs the errors of its threads, and of writing the last segment, and goes on.
    count = _count_documents(folder)
    if count != len(store):
        raise UserError(
            f"Lucene wrote {count:,} of {len(store):,} passages; is the disk full? Make room, then run it again",
            file=folder,
        )


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


def _document(store: PassageStore, row: int) -> str:
    passage = store[row]
    return json.dumps({"id": str(row), "contents": f"{passage.title}\n{passage.text}"})
