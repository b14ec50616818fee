"""Index folders as pyserini makes them: Lucene by Anserini's own indexer, FAISS with a ``docid`` file beside it."""

import json
from pathlib import Path

from tests.support.corpus import PASSAGES, WordEncoder


def lucene_folder(folder: Path) -> Path:
    """A Lucene index of PASSAGES, stored as the JSON that wikipedia-dpr-100w was indexed from."""
    from madke.retrieval.indexes.lucene import java_class

    source = folder.with_name(f"{folder.name}-json")
    source.mkdir(parents=True)
    documents = [{"id": each["id"], "contents": f'"{each["title"]}"\n{each["text"]}'} for each in PASSAGES]
    (source / "documents.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
    options = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
    paths = ["-input", str(source), "-index", str(folder)]
    java_class("io.anserini.index.IndexCollection").main([*options, *paths, "-storeRaw"])
    return folder


def faiss_folder(folder: Path) -> Path:
    """The word vectors of PASSAGES in a FAISS file, and the passages' ids."""
    import faiss

    vectors = WordEncoder().encode_passages([p["title"] for p in PASSAGES], [p["text"] for p in PASSAGES])
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    folder.mkdir(parents=True)
    faiss.write_index(index, str(folder / "index"))
    (folder / "docid").write_text("".join(f"{passage['id']}\n" for passage in PASSAGES))
    return folder
