"""FAISS files with JSON Lines, as FlashRAG and Search-R1 publish them, open as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from madke.core.errors import UserError
from madke.retrieval.index_sources import DenseSource, open_index
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.corpus import PASSAGE_FORMAT
from madke.retrieval.named import open_source
from madke.retrieval.source import ask_source
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs

needs("faiss", "wiki")

QUERIES = ["lava near Corva", "drawbridge of Elstow", "sonar", "bread oven Bexley"]


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the encoders that were loaded; each of them hashes words."""
    names: list[str] = []

    def load(name: str, **_: object) -> WordEncoder:
        names.append(name)
        return WordEncoder()

    monkeypatch.setattr("madke.models.encoders.load_encoder", load)
    return names


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
    (folder / "part_aa").write_bytes(b"downloaded")
    return folder


def test_the_same_vectors_give_equal_hits(tmp_path: Path, encoders: list[str]) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    build_index(corpus, tmp_path / "own", "dense", encoder=WordEncoder(), faiss="Flat")

    theirs = open_source("wiki", str(folder)).search(QUERIES, 5)
    ours = DenseSource(tmp_path / "own", name="wiki", encoder=WordEncoder()).search(QUERIES, 5)

    assert encoders == ["intfloat/e5-base-v2"]
    for mine, other in zip(ours, theirs, strict=True):  # type: ignore[arg-type]
        assert [(p.key, p.title, p.text, p.rank) for p in mine.passages] == [
            (p.key, p.title, p.text, p.rank) for p in other.passages
        ]
        assert [p.score for p in mine.passages] == pytest.approx([p.score for p in other.passages], abs=1e-6)
        assert len(mine.passages) == 5


def test_what_is_missing_is_asked_for(tmp_path: Path, encoders: list[str]) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")

    (folder / "more.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"expected one \.jsonl file .* found more\.jsonl, wiki-18\.jsonl"):
        open_index("wiki", folder)
    (folder / "more.jsonl").unlink()
    (folder / "wiki-18.jsonl").rename(folder / "wiki-18.txt")
    with pytest.raises(UserError, match=r"found none; unpack a \.gz"):
        open_index("wiki", folder / "e5_Flat.index")
    (folder / "wiki-18.txt").rename(folder / "wiki-18.jsonl")
    (folder / "e5_Flat.index").rename(folder / "other_Flat.index")
    with pytest.raises(UserError, match=r"other_Flat\.index: the query encoder .* unknown; .*encoder: NAME"):
        open_index("wiki", folder)


def test_a_damaged_line_fails_its_queries_alone(tmp_path: Path, encoders: list[str]) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")
    texts = folder / "wiki-18.jsonl"
    lines = texts.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if "sonar" in line)
    lines[place] = lines[place][:-3]
    texts.write_text("\n".join(lines) + "\n")

    broken, whole = ask_source(open_index("wiki", folder), ["submarine sonar hull", "drawbridge"], 5)

    assert broken.error == f"line {place + 1} of {texts}: {PASSAGE_FORMAT}"
    assert len(whole.passages) == 5
