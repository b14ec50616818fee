"""BM25 over a Lucene index, through Anserini's searcher."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.knowledge.jvm import java_class
from madke.knowledge.manifest import LUCENE, PASSAGES, Bm25Settings, open_manifest
from madke.knowledge.passage_store import PassageStore

_CHUNK = 1_000
"""Queries given to the threads at a time; Ctrl-C gets through between two chunks."""


class Bm25Source:
    """A source over the BM25 index in ``folder``; ``name`` is what its passages are marked with.

    Raises:
        UserError: The folder holds no complete BM25 index, or Java or pyserini is missing.
    """

    def __init__(self, folder: Path, *, name: str) -> None:
        manifest = open_manifest(folder)
        if not isinstance(manifest.index, Bm25Settings):
            raise UserError(f"a {manifest.index.kind} index; a bm25 one was expected", file=folder)
        self.name = name
        self.description = f"BM25 over {manifest.passages:,} passages ({folder}, {manifest.fingerprint})"
        self._store = PassageStore(folder / PASSAGES)
        self._searcher = java_class("io.anserini.search.SimpleSearcher")(str(folder / LUCENE))
        self._searcher.set_bm25(manifest.index.k1, manifest.index.b)
        # The searcher sets itself up during its first search, which two threads must not do at once.
        self._searcher.search("warm up", 1)

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; none where a query has no word of the index."""
        threads = os.cpu_count() or 1
        found: list[Hits] = []
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(queries), _CHUNK):
                chunk = queries[start : start + _CHUNK]
                share = -(-len(chunk) // threads)
                shares = [chunk[first : first + share] for first in range(0, len(chunk), share)]
                for hits in pool.map(lambda part: self._search_share(part, k), shares):
                    found.extend(hits)
        return found

    def _search_share(self, queries: Sequence[str], k: int) -> list[Hits]:
        import jnius

        try:
            return [self._search_one(query, k) for query in queries]
        finally:
            jnius.detach()  # a thread that ends attached to the JVM takes the process with it

    def _search_one(self, query: str, k: int) -> Hits:
        import jnius

        try:
            documents = self._searcher.search(query, k)
        except jnius.JavaException as error:
            return Hits(error=f"Lucene: {error}")
        passages = []
        for rank, document in enumerate(documents):
            key, title, text = self._store[int(document.docid)]
            passages.append(
                Passage(source=self.name, key=key, title=title, text=text, score=float(document.score), rank=rank)
            )
        return Hits(passages=tuple(passages))
