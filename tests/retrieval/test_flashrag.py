"""FAISS files with JSON Lines, as FlashRAG and Search-R1 publish them, open as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from madke.retrieval.index_sources import DenseSource
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.corpus import PASSAGE_FORMAT
from madke.retrieval.source import ask_source
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs

needs("faiss", "wiki")

QUERIES = ["lava near Corva", "drawbridge of Elstow", "sonar", "bread oven Bexley"]


def search_r1_folder(folder: Path, passages: Sequence[dict[str, str]] = PASSAGES) -> Path:
    """The files as Search-R1's index builder writes them: an inner product index, and the corpus that it read."""
    import faiss

    folder.mkdir()
    contents = [f'"{passage["title"]}"\n{passage["text"]}' for passage in passages]
    # Half precision, as the vectors of our own index.
    vectors = WordEncoder().encode_queries(contents).astype(np.float16).astype(np.float32)
    index = faiss.index_factory(vectors.shape[1], "Flat", faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    faiss.write_index(index, str(folder / "e5_Flat.index"))
    with (folder / "wiki-18.jsonl").open("w", encoding="utf-8") as file:
        for passage, content in zip(passages, contents, strict=True):
            file.write(json.dumps({"id": passage["id"], "contents": content}) + "\n")
    return folder


def test_the_same_vectors_give_equal_hits(tmp_path: Path) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    build_index(corpus, tmp_path / "own", "dense", encoder=WordEncoder(), faiss="Flat")

    texts = folder / "wiki-18.jsonl"
    theirs = DenseSource(folder / "e5_Flat.index", name="wiki", encoder=WordEncoder(), texts=texts).search(QUERIES, 5)
    ours = DenseSource(tmp_path / "own", name="wiki", encoder=WordEncoder()).search(QUERIES, 5)

    for mine, other in zip(ours, theirs, strict=True):
        assert [(p.key, p.title, p.text, p.rank) for p in mine.passages] == [
            (p.key, p.title, p.text, p.rank) for p in other.passages
        ]
        assert [p.score for p in mine.passages] == pytest.approx([p.score for p in other.passages], abs=1e-6)
        assert len(mine.passages) == 5


def test_a_damaged_line_fails_its_queries_alone(tmp_path: Path) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")
    texts = folder / "wiki-18.jsonl"
    lines = texts.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if "sonar" in line)
    lines[place] = lines[place][:-3]
    texts.write_text("\n".join(lines) + "\n")

    source = DenseSource(folder / "e5_Flat.index", name="wiki", encoder=WordEncoder(), texts=texts)
    broken, whole = ask_source(source, ["submarine sonar hull", "drawbridge"], 5)

    assert broken.error == f"line {place + 1} of {texts}: {PASSAGE_FORMAT}"
    assert len(whole.passages) == 5
