"""A small corpus with a topic per passage, and an encoder that needs no model."""

import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from madke.models.encoders import Dtype, Similarity

TOPICS = (
    "volcano lava crater",
    "violin bow strings",
    "glacier ice moraine",
    "bakery bread oven",
    "lighthouse lamp coast",
    "telescope mirror star",
    "castle moat drawbridge",
    "camel desert caravan",
    "printing press ink",
    "submarine sonar hull",
)
PLACES = ("Arlen", "Bexley", "Corva", "Dunmere", "Elstow")
PASSAGES = [
    {"id": f"p{5 * t + p}", "title": f"{place} {topic.split()[0]}", "text": f"In {place} the {topic} drew visitors."}
    for t, topic in enumerate(TOPICS)
    for p, place in enumerate(PLACES)
]


def write_corpus(path: Path, passages: Sequence[dict[str, str]] = PASSAGES) -> Path:
    path.write_text("".join(json.dumps(passage) + "\n" for passage in passages), encoding="utf-8")
    return path


class WordEncoder:
    """Hashes words into 64 dimensions; counts its calls and raises at the one asked for."""

    name = "words"
    dtype: Dtype = "float32"
    dimension = 64
    similarity: Similarity = "cosine"
    revision = ""

    def __init__(self, *, raise_at: int | None = None) -> None:
        self.passage_calls: list[list[str]] = []
        self.raise_at = raise_at

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                vectors[row, zlib.crc32(word.encode()) % self.dimension] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self.passage_calls) == self.raise_at:
            raise RuntimeError("power cut")
        self.passage_calls.append(list(texts))
        return self.encode_queries([f"{title} {text}" for title, text in zip(titles, texts, strict=True)])
