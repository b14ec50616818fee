"""Opening a Lucene index for BM25, whoever wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from madke.knowledge.jvm import java_class


def open_lucene(folder: Path, *, k1: float, b: float) -> Any:
    """Anserini's searcher over the index, ready for several threads.

    Raises:
        jnius.JavaException: Lucene cannot open it.
        UserError: Java is missing.
    """
    searcher = java_class("io.anserini.search.SimpleSearcher")(str(folder))
    searcher.set_bm25(k1, b)
    # The searcher sets itself up during its first search, which two threads must not do at once.
    searcher.search("warm up", 1)
    return searcher
