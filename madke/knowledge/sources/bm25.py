"""BM25 over a Lucene index, through Anserini's searcher."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.knowledge.jvm import attached, java_class, java_reason, start
from madke.knowledge.lucene import open_lucene
from madke.knowledge.manifest import LUCENE, MANIFEST, PASSAGES, Bm25Settings, open_manifest
from madke.knowledge.passage_store import PassageStore, StoredPassage
from madke.knowledge.pyserini import fingerprint_of, open_searcher, stored_passage

_CHUNK = 1_000
"""Queries searched at a time; Ctrl-C gets through between two chunks."""

_Opened = tuple[Any, Callable[[Any], StoredPassage], str]
"""Anserini's searcher, what makes a passage of one of its documents, and the source's description."""


class Bm25Source:
    """A source over the BM25 index in ``folder``; ``name`` is what its passages are marked with.

    The folder is one of ours, or a Lucene index in pyserini's format that holds its documents' texts.

    Raises:
        UserError: The folder holds no complete BM25 index, or Java or pyserini is missing.
    """

    def __init__(self, folder: Path, *, name: str) -> None:
        self.name = name
        opened = _open_ours(folder) if (folder / MANIFEST).exists() else _open_pyserini(folder)
        self._searcher, self._passage, self.description = opened

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; none where a query has no word of the index."""
        found: list[Hits] = []
        with attached():
            for start in range(0, len(queries), _CHUNK):
                found += self._search_chunk(queries[start : start + _CHUNK], k)
        return found

    def _search_chunk(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Let Java's threads search: Python's would wait for each other."""
        import jnius

        array_list = java_class("java.util.ArrayList")
        texts, numbers = array_list(), array_list()
        for number, query in enumerate(queries):
            texts.add(query)
            numbers.add(str(number))
        try:
            found = self._searcher.batch_search(texts, numbers, k, os.cpu_count() or 1)
        except jnius.JavaException:  # of one query; which one, searching them one by one will tell
            return [self._search_one(query, k) for query in queries]
        hits = []
        for number, query in enumerate(queries):
            documents = found.get(str(number))
            hits.append(self._search_one(query, k) if documents is None else self._hits(documents))
        return hits

    def _search_one(self, query: str, k: int) -> Hits:
        import jnius

        try:
            return self._hits(self._searcher.search(query, k))
        except jnius.JavaException as error:
            return Hits(error=f"Lucene: {java_reason(error)}")

    def _hits(self, documents: Iterable[Any]) -> Hits:
        passages = []
        for rank, document in enumerate(documents):
            key, title, text = self._passage(document)
            passages.append(
                Passage(source=self.name, key=key, title=title, text=text, score=float(document.score), rank=rank)
            )
        return Hits(passages=tuple(passages))


def _open_ours(folder: Path) -> _Opened:
    manifest = open_manifest(folder)
    if not isinstance(manifest.index, Bm25Settings):
        raise UserError(f"a {manifest.index.kind} index; a bm25 one was expected", file=folder)
    store = PassageStore(folder / PASSAGES)
    start()
    import jnius  # not before the JVM has been started with its class path

    try:
        searcher = open_lucene(folder / LUCENE, k1=manifest.index.k1, b=manifest.index.b)
    except jnius.JavaException as error:
        raise UserError(f"Lucene cannot open it: {java_reason(error)}; build the index again", file=folder) from None
    described = f"BM25 over {manifest.passages:,} passages ({folder}, {manifest.fingerprint})"
    return searcher, lambda document: store[int(document.docid)], described


def _open_pyserini(folder: Path) -> _Opened:
    searcher = open_searcher(folder)
    described = f"BM25 over {searcher.get_total_num_docs():,} documents ({folder}, {fingerprint_of(folder)})"
    return searcher, lambda document: stored_passage(document.docid, document.lucene_document), described
