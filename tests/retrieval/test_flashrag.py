"""FAISS files with JSON Lines, as FlashRAG and Search-R1 publish them, open as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from madke._util.assets import cache_dir
from madke.core.errors import UserError
from madke.retrieval import named
from madke.retrieval.index_sources import DenseSource, open_index
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.corpus import PASSAGE_FORMAT
from madke.retrieval.indexes.published_folders import Lines
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


def test_the_file_itself_and_an_entry_with_another_encoder_open_too(
    tmp_path: Path, encoders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = search_r1_folder(tmp_path / "search-r1")
    mine = folder.rename(tmp_path / "mine")
    (mine / "e5_Flat.index").rename(mine / "own_Flat.index")
    (mine / "wiki-18.jsonl").rename(tmp_path / "texts.jsonl")
    entry = {"index": "mine/own_Flat.index", "encoder": "some/model", "texts": "texts.jsonl"}
    (tmp_path / "sources.yaml").write_text(json.dumps({"wiki": entry}))
    monkeypatch.setattr(named, "_chosen", tmp_path / "sources.yaml")
    source = open_source("wiki")

    (hits,) = ask_source(source, ["submarine sonar hull"], 1)

    assert "sonar" in hits.passages[0].text
    assert encoders == ["some/model"]
    again = open_index("wiki", mine, encoder="some/model", texts=tmp_path / "texts.jsonl")
    assert again.fingerprint == source.fingerprint  # type: ignore[attr-defined]
    assert str(mine / "own_Flat.index") in source.description


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


def test_positions_of_lines_are_found_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("first\nsecond äöü\n\nlast")
    lines = Lines(path)
    assert [lines[n] for n in range(len(lines))] == ["first", "second äöü", "", "last"]

    (kept,) = [file for file in cache_dir("lines").iterdir() if file.stat().st_size == 4 * 8]
    written = kept.stat().st_mtime_ns
    assert len(Lines(path)) == 4
    assert kept.stat().st_mtime_ns == written
    path.write_text("first\nsecond äö\n\nlast ")
    os.utime(path, ns=(1, 1))

    assert Lines(path)[3] == "last"
    with pytest.raises(IndexError, match="row 4 of 4 lines"):
        Lines(path)[4]


@pytest.mark.slow
def test_a_long_file_is_read_without_holding_its_positions(tmp_path: Path) -> None:
    """Two million lines: their positions alone would take 16 MB."""
    import subprocess
    import sys

    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        for start in range(0, 2_000_000, 1_000):
            file.write("".join(f'{{"id": "{n}", "contents": "line {n}"}}\n' for n in range(start, start + 1_000)))
    script = (
        "import sys, pathlib, numpy\n"
        "from madke.retrieval.indexes.published_folders import Lines\n"
        "def anonymous():\n"
        "    return int(next(l for l in open('/proc/self/status') if l.startswith('RssAnon')).split()[1])\n"
        "before = anonymous()\n"
        "lines = Lines(pathlib.Path(sys.argv[1]))\n"
        "assert len(lines) == 2_000_000 and 'line 1999999' in lines[1_999_999], len(lines)\n"
        "assert '\"123456\"' in lines[123_456]\n"
        "print(anonymous() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 12_000, done.stdout
