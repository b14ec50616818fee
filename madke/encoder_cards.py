"""How a sentence encoder wants its texts: prefixes, pooling and normalisation, as published on the models' cards."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Literal

_log = logging.getLogger(__name__)

Pooling = Literal["mean", "cls", "lasttoken", "max"]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How texts become vectors. A field of None is decided by the model itself."""

    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: Pooling | None = None
    """How the vectors of a text's tokens become one."""
    normalize: bool | None = None
    """Whether vectors get length 1. None: yes, unless the model declares the dot product."""


AS_STORED = Encoding()

_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_LAST = Encoding(query_prefix=f"{_TASK} ", passage_prefix="", pooling="lasttoken")

_CARDS = {
    r"e5-mistral|gte-qwen": _LAST,
    r"e5-(?:small|base|large)-instruct": Encoding(query_prefix=f"{_TASK} ", passage_prefix="", pooling="mean"),
    r"e5-(?:small|base|large)": Encoding(query_prefix="query: ", passage_prefix="passage: ", pooling="mean"),
    r"bge-(?:small|base|large)-zh": Encoding(
        query_prefix="为这个句子生成表示以用于检索相关文章：",  # noqa: RUF001
        passage_prefix="",
        pooling="cls",
    ),
    r"bge-(?:small|base|large)": Encoding(
        query_prefix="Represent this sentence for searching relevant passages: ", passage_prefix="", pooling="cls"
    ),
    r"bge-m3|gte-(?:multilingual|modernbert)|gte-(?:base|large)-en-v1\.5|gte-(?:small|base|large)-zh": Encoding(
        pooling="cls"
    ),
    r"gte-(?:tiny|small|base|large)": Encoding(pooling="mean"),
    r"nomic-embed-text": Encoding(query_prefix="search_query: ", passage_prefix="search_document: ", pooling="mean"),
    # Its card has no space after "Query:".
    r"qwen3-embedding": Encoding(query_prefix=_TASK, passage_prefix="", pooling="lasttoken"),
    r"contriever": Encoding(pooling="mean", normalize=False),
    r"minilm|mpnet|multi-qa|msmarco|text-embedding-(?:3|ada)": AS_STORED,
}
"""Pattern of a model's name -> its card. The first match counts."""


def resolved(name: str, model: str, *, asked: Encoding, stored: Encoding, has_layers: bool, use_card: bool) -> Encoding:
    """The encoding of a model: what the user asked for, else what is stored with the model, else its card.

    Args:
        name: The encoder's name, for the warning that neither the model nor a card states prefixes.
        model: The model's name or folder; only the last part of the path counts.
        asked: The user's settings.
        stored: The prompts that are stored with the model.
        has_layers: Whether pooling and normalisation are stored with the model, or decided by its server.
        use_card: False for an index that states its own settings.
    """
    base = re.split(r"[/\\]", model.casefold().rstrip("/"))[-1]
    cards = (card for pattern, card in _CARDS.items() if re.search(rf"(?<![a-z0-9])(?:{pattern})", base))
    card = next(cards, None) if use_card else AS_STORED
    prompts = stored if stored.query_prefix or stored.passage_prefix else card or AS_STORED
    if card is None and prompts is not stored and asked.query_prefix is None and asked.passage_prefix is None:
        _log.warning(
            "encoder %s: neither the model nor madke states prefixes for queries and passages, so none are used; if "
            "the model's card has some, set --query-prefix and --passage-prefix",
            name,
        )
    own = AS_STORED if card is None or has_layers else card
    return Encoding(
        query_prefix=prompts.query_prefix if asked.query_prefix is None else asked.query_prefix,
        passage_prefix=prompts.passage_prefix if asked.passage_prefix is None else asked.passage_prefix,
        pooling=asked.pooling or own.pooling,
        normalize=own.normalize if asked.normalize is None else asked.normalize,
    )
