"""Sentence encoders: prefixes of published ones, and one with random weights, small enough to be made in a test."""

import json
from pathlib import Path

WEB = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
BGE = "Represent this sentence for searching relevant passages: "
"""Query prefixes of published models."""

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "mouth", "delta", "query", "passage", ":"]
SMALL = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def save_tokenizer(folder: Path) -> None:
    from transformers import BertTokenizerFast

    BertTokenizerFast(vocab={word: n for n, word in enumerate(WORDS)}).save_pretrained(folder)


def save_transformer(folder: Path, *, seed: int = 0) -> Path:
    """A plain transformer, without the layers and prompts of sentence-transformers."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    BertModel(BertConfig(**SMALL)).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_sentence_model(
    folder: Path, *, declared: str | None = None, seed: int = 0, prompts: dict[str, str] | None = None
) -> Path:
    """A sentence-transformers model without a normalising layer, which declares that similarity, or none."""
    from sentence_transformers import SentenceTransformer

    save_transformer(folder, seed=seed)
    SentenceTransformer(str(folder), prompts=prompts).save_pretrained(str(folder))
    settings = folder / "config_sentence_transformers.json"
    stated = json.loads(settings.read_text()) | {"similarity_fn_name": declared}
    settings.write_text(json.dumps({key: value for key, value in stated.items() if value is not None}))
    return folder
