"""How an encoder wants its texts: prefixes, pooling and normalisation, as published on the models' cards."""

import logging
import re
from dataclasses import dataclass
from typing import Literal

_log = logging.getLogger(__name__)

Pooling = Literal["mean", "cls", "lasttoken", "max"]


@dataclass(frozen=True)
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
_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："  # noqa: RUF001

_CARDS: dict[str, tuple[str | None, str | None, Pooling | None, bool | None]] = {
    r"e5-mistral|gte-qwen": (f"{_TASK} ", "", "lasttoken", None),
    r"qwen3-embedding": (_TASK, "", "lasttoken", None),  # its card has no space after "Query:"
    r"e5-(?:small|base|large)-instruct": (f"{_TASK} ", "", "mean", None),
    r"e5-(?:small|base|large)": ("query: ", "passage: ", "mean", None),
    r"bge-(?:small|base|large)-zh": (_BGE_ZH, "", "cls", None),
    r"bge-(?:small|base|large)": (_BGE, "", "cls", None),
    r"bge-m3|gte-(?:multilingual|modernbert)|gte-(?:base|large)-en-v1\.5": (None, None, "cls", None),
    r"gte-(?:small|base|large)-zh": (None, None, "cls", None),
    r"gte-(?:tiny|small|base|large)": (None, None, "mean", None),
    r"nomic-embed-text": ("search_query: ", "search_document: ", "mean", None),
    r"contriever": (None, None, "mean", False),
    r"minilm|mpnet|multi-qa|msmarco|text-embedding-(?:3|ada)": (None, None, None, None),
}
"""Pattern of a model's name -> the fields of :class:`Encoding` on its card. The first match counts."""


def encoding_of(
    name: str, model: str, *, asked: Encoding, stored: Encoding, has_layers: bool, use_card: bool
) -> Encoding:
    """The encoding of a model: what the user asked for, else what is stored with the model, else its card.

    ``name`` is for the warning that neither the model nor a card states prefixes. ``model`` is a name or a folder; only
    the last part counts. ``has_layers``: pooling and normalisation are stored with it, or decided by its server.
    ``use_card`` is False for an index that states its own settings.
    """
    base = re.split(r"[/\\]", model.casefold().rstrip("/"))[-1]
    cards = (card for pattern, card in _CARDS.items() if re.search(rf"(?<![a-z0-9])(?:{pattern})", base))
    found = next(cards, None) if use_card else None
    card = Encoding(*found) if found else AS_STORED
    prompts = stored if stored.query_prefix or stored.passage_prefix else card
    unknown = use_card and not found and prompts is not stored
    if unknown and asked.query_prefix is None and asked.passage_prefix is None:
        _log.warning(
            "encoder %s: neither the model nor madke states prefixes for queries and passages, so none are used; if "
            "the model's card has some, set --query-prefix and --passage-prefix",
            name,
        )
    layers = AS_STORED if has_layers else card
    return Encoding(
        query_prefix=prompts.query_prefix if asked.query_prefix is None else asked.query_prefix,
        passage_prefix=prompts.passage_prefix if asked.passage_prefix is None else asked.passage_prefix,
        pooling=asked.pooling or layers.pooling,
        normalize=layers.normalize if asked.normalize is None else asked.normalize,
    )
