"""Anserini as its own users call it: the indexer in this process, and pyserini's searcher."""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

from madke.indexing.corpus import read_corpus
from madke.indexing.lucene import java_class, start_jvm

THREADS = os.cpu_count() or 1
_FILES = 4 * THREADS
"""The indexer gives a whole file to a thread; several for each, so that none is left without work early."""


def write_documents(corpus: Path) -> Path:
    """The corpus as Anserini's JSON collection reads it, in a folder beside it, made once."""
    folder = corpus.with_name(f"documents-{corpus.stem}")
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


def index_collection(documents: Path, index: Path, *, raw: bool) -> None:
    """Run Anserini's ``IndexCollection``; with ``raw`` it stores the documents, so that a search can return them."""
    options = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    options += ["-input", str(documents), "-index", str(index), "-threads", str(THREADS), "-quiet"]
    java_class("io.anserini.index.IndexCollection").main([*options, *(["-storeRaw"] if raw else [])])


def pyserini_searcher(index: Path) -> Any:
    """Pyserini's ``LuceneSearcher``; its import asks for a key of OpenAI's, which nothing here uses."""
    start_jvm()
    had = os.environ.get("OPENAI_API_KEY")
    os.environ.setdefault("OPENAI_API_KEY", "unused")
    try:
        from pyserini.search.lucene import LuceneSearcher
    finally:
        if had is None:
            del os.environ["OPENAI_API_KEY"]
    return LuceneSearcher(str(index))
