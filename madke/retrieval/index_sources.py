"""Indexes as sources: BM25 with Lucene, vectors with FAISS, and the shipped sample, which needs neither.

Besides the folders that madke builds, folders in pyserini's format are opened. A Lucene document stores its source text
in the field ``raw`` (``-storeRaw``) or ``contents`` (``-storeContents``). A FAISS folder holds the vectors in ``index``
and one document id per line in ``docid``.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from madke._util.assets import asset, require
from madke._util.files import open_unpacked
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Source
from madke.models.encoders import Encoder, load_encoder, titled_text
from madke.retrieval.indexes.dense import FaissShards
from madke.retrieval.indexes.index_folder import (
    LUCENE,
    MANIFEST,
    PASSAGES_FILE,
    Bm25Settings,
    DenseSettings,
    PassageStore,
    StoredPassage,
    open_manifest,
    read_manifest,
)
from madke.retrieval.indexes.lucene import java_class, java_reason, java_thread, open_lucene
from madke.retrieval.ranking import WordIndex, best
from madke.retrieval.source import hits_of

_log = logging.getLogger(__name__)

_CHUNK_QUERIES = 1_000
"""Queries per search: one pass over the vectors serves them all, and Ctrl-C takes effect between two chunks."""


def is_index(folder: Path) -> bool:
    """Whether a folder holds an index that :func:`open_index` opens."""
    return (folder / MANIFEST).exists() or is_faiss(folder) or is_lucene(folder)


def open_index(name: str, folder: Path, *, encoder: str | None = None, texts: Path | None = None) -> Source:
    """The source over the index in ``folder``: built by madke, or in pyserini's format.

    A FAISS folder of pyserini's needs ``encoder``, which encodes the queries, and ``texts``, the Lucene index with the
    passages. UserError if something is missing.
    """
    if not (folder / MANIFEST).exists() and is_faiss(folder):
        if encoder is None or texts is None:
            raise UserError(
                f"source {name!r}: a published FAISS index contains neither the query encoder nor the passages; give "
                f"encoder and texts, for example in sources.yaml: {name}: "
                "{index: FOLDER, encoder: facebook/dpr-question_encoder-multiset-base, texts: LUCENE_FOLDER}",
                file=folder,
            )
        return DenseSource(folder, name=name, encoder=encoder, texts=texts)
    if encoder or texts:
        expected = "expected a FAISS folder in pyserini's format, with the files index and docid"
        raise UserError(f"source {name!r}: encoder and texts do not apply to this folder; {expected}", file=folder)
    if not folder.is_dir():
        raise UserError(f"source {name!r}: no such folder; expected an index folder", file=folder)
    if not is_index(folder):
        raise UserError(
            f"this folder holds no index; expected {MANIFEST} (built by `madke index build`), segments_N (Lucene), or "
            "index and docid (FAISS, in pyserini's format); for a folder of texts, use documents: instead of index:",
            file=folder,
        )
    if (folder / MANIFEST).exists() and isinstance(read_manifest(folder).index, DenseSettings):
        return DenseSource(folder, name=name)
    return Bm25Source(folder, name=name)


class Bm25Source:
    """A source over a BM25 index built by madke, or a Lucene index in pyserini's format that stores its texts."""

    def __init__(self, folder: Path, *, name: str) -> None:
        self.name = name
        self._passage: Callable[[Any], StoredPassage]
        if (folder / MANIFEST).exists():
            manifest = open_manifest(folder)
            assert isinstance(manifest.index, Bm25Settings)
            store = PassageStore(folder / PASSAGES_FILE)
            self._searcher = open_lucene(folder / LUCENE, k1=manifest.index.k1, b=manifest.index.b)
            self._passage = lambda document: store[int(document.docid)]
            described = f"{manifest.passages:,} passages ({folder}, {manifest.fingerprint})"
        else:
            self._searcher = open_searcher(folder)
            self._passage = lambda document: stored_passage(document.docid, document.lucene_document)
            count = self._searcher.get_total_num_docs()
            described = f"{count:,} documents ({folder}, {fingerprint_of(folder)})"
        self.description = self.fingerprint = f"BM25 over {described}"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The top ``k`` passages for each query; empty if the index has none of its words."""
        with java_thread():
            chunks = (queries[first : first + _CHUNK_QUERIES] for first in range(0, len(queries), _CHUNK_QUERIES))
            return [hits for chunk in chunks for hits in self._search_chunk(chunk, k)]

    def _search_chunk(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Search in Java threads; Python threads would wait for each other."""
        import jnius

        array_list = java_class("java.util.ArrayList")
        texts, numbers = array_list(), array_list()
        for number, query in enumerate(queries):
            texts.add(query)
            numbers.add(str(number))
        try:
            by_query = self._searcher.batch_search(texts, numbers, k, os.cpu_count() or 1)
            return [
                hits_of(self.name, ((self._passage(document), float(document.score)) for document in documents))
                for documents in (by_query.get(str(number)) or () for number in range(len(queries)))
            ]
        except jnius.JavaException as error:
            if len(queries) > 1:  # caused by one query: search one by one to find it
                return [hits for query in queries for hits in self._search_chunk([query], k)]
            return [Hits(error=f"Lucene: {java_reason(error)}")]


class DenseSource:
    """A source over a dense index built by madke, or, with ``encoder`` and ``texts``, a FAISS folder of pyserini's.

    ``encoder`` encodes the queries; default: the one that the index was built with. The first search loads the
    encoder and the vectors. ``texts`` is the index that holds the passages' texts under the same ids.
    """

    def __init__(
        self, folder: Path, *, name: str, encoder: Encoder | str | None = None, texts: Path | None = None
    ) -> None:
        self.name = name
        self._folder = folder
        self._built: DenseSettings | None = None
        self._passage: Callable[[int], StoredPassage]
        """From a row to its passage; LookupError for a row without one."""
        if texts is not None and encoder is not None:
            self._encoded_by: Encoder | str = encoder
            if not is_lucene(texts):
                raise UserError("this folder holds no texts; expected a Lucene index in pyserini's format", file=texts)
            ids, searcher = docids(folder), open_searcher(texts)

            def passage(row: int) -> StoredPassage:
                with java_thread():
                    docid = ids[row].as_py().rstrip()  # as pyserini reads it
                    document = searcher.doc(docid)
                    if document is None:
                        raise LookupError(f"document {docid!r} of {folder} has no text in {texts}")
                    return stored_passage(docid, document)

            self._passage, self._rows = passage, len(ids)
            self._files = [folder / VECTORS]
            encoded_by = encoder if isinstance(encoder, str) else encoder.name
            where = f"({folder}, {fingerprint_of(folder)}), texts from {texts} ({fingerprint_of(texts)})"
            described = f"{encoded_by} vectors of {self._rows:,} documents {where}"
        else:
            manifest = open_manifest(folder)
            assert isinstance(manifest.index, DenseSettings)
            self._built = manifest.index
            self._encoded_by = encoder or manifest.index.encoder
            store = PassageStore(folder / PASSAGES_FILE)
            self._passage, self._rows = store.__getitem__, len(store)
            self._files = sorted(folder / file.path for file in manifest.files if file.path.endswith(".index"))
            where = f"({folder}, {manifest.fingerprint})"
            described = f"{manifest.index.encoder} vectors of {manifest.passages:,} passages {where}"
        self.description = self.fingerprint = described

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """For each query, the ``k`` passages whose vectors have the largest inner product with the query's."""
        rankings: list[Hits] = []
        for first in range(0, len(queries), _CHUNK_QUERIES):
            chunk, encoder = queries[first : first + _CHUNK_QUERIES], self._encoder
            try:
                vectors = encoder.encode_queries(chunk)
            except UserError as error:  # of an endpoint
                rankings += [Hits(error=str(error))] * len(chunk)
                continue
            scores, rows = self._index.search(vectors, min(k, self._rows))
            rankings.extend(map(self._hits, scores.tolist(), rows.tolist()))
        return rankings

    @cached_property
    def _encoder(self) -> Encoder:
        encoder, built = self._encoded_by, self._built
        if isinstance(encoder, str) and built is not None:
            encoder = load_encoder(encoder, dtype=built.dtype, encoding=built.encoding, use_card=False)
        elif isinstance(encoder, str):
            encoder = load_encoder(encoder)
        if encoder.dimension != self._index.dimension:
            problem = f"the index has vectors of {self._index.dimension} dimensions"
            raise UserError(f"{problem}, but encoder {encoder.name!r} produces {encoder.dimension}", file=self._folder)
        if built is not None and encoder.revision != built.revision and encoder.revision and built.revision:
            changed = f"(found revision {encoder.revision}, expected {built.revision}); build the index again"
            raise UserError(f"encoder {encoder.name!r} changed after the index was built {changed}", file=self._folder)
        return encoder

    @cached_property
    def _index(self) -> FaissShards:
        index = FaissShards(self._files, parameters=self._built.parameters if self._built else "")
        if len(index) != self._rows:
            raise UserError(f"found {len(index):,} vectors but {self._rows:,} ids", file=self._folder)
        return index

    def _hits(self, scores: list[float], rows: list[int]) -> Hits:
        try:
            # An approximate index may find fewer than k; the remaining rows are -1.
            passages = [(self._passage(row), score) for row, score in zip(rows, scores, strict=True) if row >= 0]
            return hits_of(self.name, passages)
        except LookupError as error:
            return Hits(error=str(error))


RankedBy = Literal["bm25", "dense"]


def vectors_file(folder: Path, encoder: Encoder) -> Path:
    """Where the shipped vectors of the passages are; another version of the encoder has another name."""
    return folder / f"minilm-{encoder.revision}.npy"


class SampleSource:
    """The sample passages, ranked by words (``bm25``) or by the meaning of ``minilm`` (``dense``)."""

    def __init__(self, ranking: RankedBy, *, name: str) -> None:
        self.name = name
        self._ranking = ranking
        self._folder = asset("indexes", "sample")
        content = (self._folder / "passages.jsonl").read_bytes()
        rows = map(json.loads, content.splitlines())
        self.passages = [StoredPassage(row["id"], row["title"], row["text"]) for row in rows]
        ranked_by = "BM25" if ranking == "bm25" else "minilm vectors"
        identity = f"{self._folder.name}, {sha256(content).hexdigest()[:12]}"
        self.description = self.fingerprint = f"{ranked_by} over {len(self.passages):,} passages ({identity})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; for BM25 only those that have one of its words."""
        if self._ranking == "bm25":
            rankings = [self._words.search(query, k) for query in queries]
        else:
            rankings = [best(row, k) for row in load_encoder("minilm").encode_queries(queries) @ self._vectors.T]
        return [hits_of(self.name, ((self.passages[number], score) for number, score in each)) for each in rankings]

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(titled_text(title, text) for _, title, text in self.passages)

    @cached_property
    def _vectors(self) -> Any:
        """The vectors of the passages, float32, in their order."""
        import numpy as np

        shipped = vectors_file(self._folder, load_encoder("minilm"))
        if shipped.exists():
            return np.load(shipped).astype(np.float32)
        _log.warning("encoding the sample: its vectors are not from this version of minilm (%s)", shipped.name)
        return self.encode().astype(np.float32)

    def encode(self) -> Any:
        """The vectors, encoded now; float16, as they are shipped."""
        import numpy as np

        _, titles, texts = zip(*self.passages, strict=True)
        return load_encoder("minilm").encode_passages(titles, texts).astype(np.float16)


VECTORS = "index"
DOCIDS = "docid"


def is_lucene(folder: Path) -> bool:
    """Whether the folder holds a Lucene index."""
    return any(path.is_file() for path in folder.glob("segments_*"))


def is_faiss(folder: Path) -> bool:
    """Whether the folder holds FAISS vectors and the ids of their documents."""
    return (folder / VECTORS).is_file() and (folder / DOCIDS).is_file()


def describe(folder: Path) -> str | None:
    """Describe a folder in pyserini's format in one line; None if it is not in this format."""
    if is_lucene(folder):
        kind, count = "Lucene index", open_searcher(folder).get_total_num_docs()
    elif is_faiss(folder):
        kind, count = "FAISS vectors", len(docids(folder))
    else:
        return None
    return f"{kind} in pyserini's format: {count:,} documents, fingerprint {fingerprint_of(folder)}"


def open_searcher(folder: Path) -> Any:
    """Open Anserini's searcher, with the published BM25 parameters, over a Lucene folder that stores its texts."""
    searcher = open_lucene(folder)
    first = searcher.doc(0) if searcher.get_total_num_docs() else None
    if first is None:
        raise UserError("this Lucene index holds no documents", file=folder)
    if first.get("raw") is None and first.get("contents") is None:
        remedy = "use one that does, or index again with -storeRaw"
        raise UserError(f"this Lucene index does not store the texts of its documents; {remedy}", file=folder)
    return searcher


def stored_passage(docid: str, document: Any) -> StoredPassage:
    r"""The passage of a Lucene document, from its ``raw`` field or else from ``contents``.

    The field holds JSON (``{"title", "text"}``, ``{"title", "contents"}`` or ``{"contents"}``) or plain text. A quoted
    first line, ``"title"\ntext``, is the title, as in ``wikipedia-dpr-100w``.
    """
    raw = document.get("raw")
    stored = document.get("contents") if raw is None else raw
    try:
        fields = json.loads(stored)
    except (ValueError, RecursionError):
        fields = None
    text, title = stored, ""
    if isinstance(fields, dict):
        text = next((fields[name] for name in ("text", "contents") if isinstance(fields.get(name), str)), stored)
        title = fields["title"] if isinstance(fields.get("title"), str) else ""
    head, newline, body = text.partition("\n")
    head = head.strip()
    if not title and newline and len(head) > 1 and head[0] == head[-1] == '"':
        title, text = head[1:-1], body
    return StoredPassage(docid, title, text)


FETCHED = "fetched.json"
"""The file in which ``madke index fetch`` records which published index a folder holds."""
_EDGE_BYTES = 1 << 16


def fingerprint_of(path: Path) -> str:
    """Twelve hexadecimal digits that identify a file or the content of a folder, without reading it whole.

    They hash names, sizes, and the first and last 64 KiB of every file (this covers all of Lucene's ``segments_N``,
    which lists the live documents).
    """
    digest = sha256()
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not part.is_file() or part.name in ("write.lock", FETCHED):
            continue
        with open_unpacked(part) as file:
            size = file.seek(0, 2)
            digest.update(f"{part.name}\n{size}\n".encode())
            for start in {0, max(0, size - _EDGE_BYTES)}:
                file.seek(start)
                digest.update(file.read(_EDGE_BYTES))
    return digest.hexdigest()[:12]


def docids(folder: Path) -> Any:
    """The ids of a FAISS folder's documents, one a line, as an Arrow column; a list of 21 million would take 2 GB."""
    require("indexes need", "wiki", "pyarrow")
    import pyarrow as pa
    from pyarrow import csv

    read = csv.ReadOptions(column_names=["id"])
    parse = csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False)
    try:
        return csv.read_csv(folder / DOCIDS, read, parse, csv.ConvertOptions(column_types={"id": pa.string()}))["id"]
    except (OSError, ValueError) as error:  # ValueError: an empty file, or no UTF-8
        raise UserError(f"cannot be read: {error}", file=folder / DOCIDS) from None
