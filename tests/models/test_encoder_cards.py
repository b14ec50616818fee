"""Encoders get the texts, the pooling and the lengths that their models or cards state."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from madke.core.errors import UserError
from madke.models.encoders import Encoding, load_encoder
from madke.retrieval.index_sources import open_index
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.index_folder import DenseSettings, read_manifest
from madke.retrieval.source import search_source
from tests.support.corpus import write_corpus
from tests.support.installed import needs
from tests.support.tiny_encoder import BGE, WEB, save_sentence_model, save_transformer

needs("sentence_transformers", "offline")

pytestmark = pytest.mark.slow

FAMILIES = [
    ("bge-small-en-v1.5", BGE, "", "cls"),
    ("gte-Qwen2-1.5B-instruct", f"{WEB} ", "", "lasttoken"),
    ("all-MiniLM-L6-v2", None, None, None),
]
"""More names are tested behind endpoints, where no model is loaded."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_transformer(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture
def tokenized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that reaches a tokenizer."""
    from transformers import PreTrainedTokenizerBase

    texts: list[str] = []
    call = PreTrainedTokenizerBase.__call__

    def capture(self: Any, text: Any, *args: Any, **options: Any) -> Any:
        texts.extend([text] if isinstance(text, str) else text)
        return call(self, text, *args, **options)

    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", capture)
    return texts


def named(plain: Path, tmp_path: Path, name: str) -> str:
    return str(shutil.copytree(plain, tmp_path / name))


def texts_read(encoder: Any, tokenized: list[str]) -> set[str]:
    """What reaches the tokenizer of a query, of a passage with a title, and of one without."""
    tokenized.clear()
    encoder.encode_queries(["river"])
    encoder.encode_passages(["mouth", ""], ["delta", "delta river"])
    return {text for text in tokenized if "river" in text or "delta" in text}


@pytest.mark.parametrize(("name", "query", "passage", "pooling"), FAMILIES, ids=[each[0] for each in FAMILIES])
def test_each_family_gets_the_texts_and_the_pooling_of_its_card(
    plain: Path, tmp_path: Path, tokenized: list[str], name: str, query: Any, passage: Any, pooling: Any
) -> None:
    encoder: Any = load_encoder(named(plain, tmp_path, name))
    expected = {f"{query or ''}river", f"{passage or ''}mouth\ndelta", f"{passage or ''}delta river"}
    assert texts_read(encoder, tokenized) == expected
    assert encoder.encoding == Encoding(query_prefix=query, passage_prefix=passage, pooling=pooling)


def test_the_user_comes_before_the_model_and_the_model_before_its_card(tmp_path: Path, tokenized: list[str]) -> None:
    prompts = {"query": "ask: ", "passage": "text: "}
    folder = str(save_sentence_model(tmp_path / "bge-base-prompted", prompts=prompts))
    stored: Any = load_encoder(folder)
    assert texts_read(stored, tokenized) == {"ask: river", "text: mouth\ndelta", "text: delta river"}
    assert stored.encoding == Encoding(query_prefix="ask: ", passage_prefix="text: ")
    asked = load_encoder(folder, encoding=Encoding(query_prefix="", pooling="max"))
    assert texts_read(asked, tokenized) == {"river", "text: mouth\ndelta", "text: delta river"}
    assert pickle.loads(pickle.dumps(asked)) is asked


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_pooling_is_computed_from_the_vectors_of_the_tokens(plain: Path, pooling: Any) -> None:
    import torch
    from transformers import AutoTokenizer, BertModel

    tokens = AutoTokenizer.from_pretrained(str(plain))("river mouth delta", return_tensors="pt")
    with torch.inference_mode():
        rows = BertModel.from_pretrained(str(plain)).eval()(**tokens).last_hidden_state[0].numpy()
    pooled = {"cls": rows[0], "max": rows.max(0)}[pooling]

    encoder = load_encoder(str(plain), encoding=Encoding(pooling=pooling, query_prefix="", normalize=False))

    assert encoder.similarity == "inner_product"
    assert encoder.encode_queries(["river mouth delta"])[0] == pytest.approx(pooled, abs=1e-5)


def test_a_layer_that_normalizes_is_left_out_if_the_user_asks(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    folder = str(save_sentence_model(tmp_path))
    model = SentenceTransformer(folder)
    model.append(Normalize())
    model.save_pretrained(folder)
    free = load_encoder(folder, encoding=Encoding(normalize=False))
    assert free.similarity == "inner_product"
    assert np.linalg.norm(free.encode_queries(["river"])) > 1.1


def test_a_model_that_no_card_describes_gives_a_warning(
    plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "madke"):
        load_encoder(named(plain, tmp_path, "all-MiniLM-mine"))
        load_encoder(named(plain, tmp_path, "secret-model"), encoding=Encoding(query_prefix=""))
        assert not caplog.messages
        load_encoder(str(tmp_path / "secret-model"))

    assert "secret-model: neither the model nor madke states prefixes" in caplog.text
    assert "--query-prefix" in caplog.text


def test_an_index_states_its_settings_and_an_older_one_none(plain: Path, tmp_path: Path, tokenized: list[str]) -> None:
    needs("faiss", "wiki")
    encoder = named(plain, tmp_path, "e5-small")
    corpus, folder = write_corpus(tmp_path / "c.jsonl"), tmp_path / "index"

    build_index(corpus, folder, "dense", encoder=encoder, faiss="flat", passage_prefix="text: ")
    assert any(text.startswith("text: Arlen volcano\nIn Arlen") for text in tokenized)
    tokenized.clear()
    open_index("wiki", folder).search(["river"], 1)
    assert "query: river" in tokenized
    settings = read_manifest(folder).index
    assert isinstance(settings, DenseSettings)
    assert settings.encoding == Encoding(query_prefix="query: ", passage_prefix="text: ", pooling="mean")
    with pytest.raises(UserError, match="an index with other settings"):
        build_index(corpus, folder, "dense", encoder=encoder, faiss="flat")

    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("query_prefix", "passage_prefix", "pooling", "normalize"):
        del manifest["index"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    tokenized.clear()
    (hits,) = search_source(open_index("wiki", folder), ["river"], 1)
    assert hits.passages
    assert "river" in tokenized
    assert "query: river" not in tokenized


def test_settings_that_a_model_states_itself_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    needs("faiss", "wiki")
    corpus = write_corpus(tmp_path / "c.jsonl")
    manifest = build_index(corpus, tmp_path / "index", "dense", encoder=str(save_sentence_model(tmp_path / "gte-base")))
    content = json.loads(manifest.model_dump_json(include={"corpus": {"sha256"}, "index": True, "files": True}))
    older = {name: value for name, value in content["index"].items() if value is not None}

    assert set(content["index"]) - set(older) == {"query_prefix", "passage_prefix", "pooling", "normalize"}
    text = json.dumps({**content, "index": older}, separators=(",", ":"), ensure_ascii=False)
    assert manifest.fingerprint == sha256(text.encode()).hexdigest()[:12]
