"""The shipped sample passages as a source: no index to build, and neither Java nor FAISS nor torch to load."""

import json
import logging
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from madke._util.assets import asset
from madke.core.knowledge import Hits
from madke.encoding.embeddings import open_encoder
from madke.encoding.encoders import Encoder, titled_text
from madke.indexing.documents.word_index import WordIndex, best, words_of
from madke.indexing.index_folder import StoredPassage
from madke.knowledge.index_sources import hits_of, log_without_terms

_log = logging.getLogger(__name__)

RankedBy = Literal["bm25", "dense"]


def vectors_file(folder: Path, encoder: Encoder) -> Path:
    """Where the shipped vectors of the passages are; another version of the encoder has another name."""
    return folder / f"minilm-{encoder.revision}.npy"


class SampleSource:
    """The sample passages, ranked by words (``bm25``) or by the meaning of ``minilm`` (``dense``)."""

    def __init__(self, ranking: RankedBy, *, name: str, folder: Path | None = None) -> None:
        self.name = name
        self._ranking = ranking
        self._folder = folder or asset("indexes", "sample")
        content = (self._folder / "passages.jsonl").read_bytes()
        rows = map(json.loads, content.splitlines())
        self.passages = [StoredPassage(row["id"], row["title"], row["text"]) for row in rows]
        ranked_by = "BM25" if ranking == "bm25" else "minilm vectors"
        identity = f"{self._folder.name}, {sha256(content).hexdigest()[:12]}"
        self.description = self.fingerprint = f"{ranked_by} over {len(self.passages):,} passages ({identity})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The best ``k`` passages for each query; for BM25 only those that have one of its words."""
        if self._ranking == "bm25":
            found = [self._words.search(query, k) for query in queries]
            log_without_terms(self.name, [query for query in queries if not words_of(query)])
        else:
            scores = self._encoder.encode_queries(queries) @ self.vectors.T
            found = [best(row, k) for row in scores]
        return [hits_of(self.name, ((self.passages[number], score) for number, score in each)) for each in found]

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex.build(titled_text(title, text) for _, title, text in self.passages)

    @cached_property
    def _encoder(self) -> Encoder:
        return open_encoder("minilm")

    @cached_property
    def vectors(self) -> Any:
        """The vectors of the passages, float32, in their order."""
        import numpy as np

        shipped = vectors_file(self._folder, self._encoder)
        if shipped.exists():
            return np.load(shipped).astype(np.float32)
        _log.warning("encoding the sample: its vectors are not from this version of minilm (%s)", shipped.name)
        return self.encoded()

    def encoded(self) -> Any:
        """The vectors, encoded now; rounded to 16 bits, as they are shipped."""
        import numpy as np

        _, titles, texts = zip(*self.passages, strict=True)
        return self._encoder.encode_passages(titles, texts).astype(np.float16).astype(np.float32)
