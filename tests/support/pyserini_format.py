"""Index folders as pyserini makes them: Lucene by Anserini's own indexer, FAISS with a ``docid`` file beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from madke.models.encoders import Encoder
from tests.support.corpus import PASSAGES, WordEncoder


def dpr_document(passage: dict[str, str]) -> dict[str, str]:
    """A passage as the JSON that wikipedia-dpr-100w was indexed from."""
    return {"id": passage["id"], "contents": f'"{passage["title"]}"\n{passage["text"]}'}


def lucene_folder(folder: Path, documents: Sequence[dict[str, str]] | None = None, *, store: str = "-storeRaw") -> Path:
    """A Lucene index of JSON documents, by default of PASSAGES; ``store`` may be empty."""
    from madke.retrieval.indexes.lucene import java_class

    source = folder.with_name(f"{folder.name}-json")
    source.mkdir(parents=True)
    lines = [json.dumps(document) + "\n" for document in documents or [dpr_document(p) for p in PASSAGES]]
    (source / "documents.jsonl").write_text("".join(lines), encoding="utf-8")
    options = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
    paths = ["-input", str(source), "-index", str(folder)]
    java_class("io.anserini.index.IndexCollection").main([*options, *paths, *([store] if store else [])])
    return folder


def faiss_folder(
    folder: Path,
    passages: Sequence[dict[str, str]] = PASSAGES,
    *,
    factory: str = "Flat",
    encoder: Encoder | None = None,
) -> Path:
    """Vectors of passages in a FAISS file, by default word vectors, and the passages' ids."""
    import faiss

    encoder = encoder or WordEncoder()
    vectors = encoder.encode_passages([p["title"] for p in passages], [p["text"] for p in passages])
    index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    folder.mkdir(parents=True)
    faiss.write_index(index, str(folder / "index"))
    (folder / "docid").write_text("".join(f"{passage['id']}\n" for passage in passages))
    return folder
