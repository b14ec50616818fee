"""Encoders behind an ``/embeddings`` endpoint, against a real server on the loopback."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from madke.core.errors import UserError
from madke.models.encoders import Encoding, load_encoder
from madke.retrieval.index_sources import open_index
from madke.retrieval.indexes.build import build_index
from madke.retrieval.source import ask_source
from tests.support.corpus import PASSAGES, WordEncoder, write_corpus
from tests.support.installed import needs
from tests.support.openai_server import OpenAIServer, Reply, error, openai_server
from tests.support.tiny_encoder import BGE, WEB

KEY = "sk-canary-embeddings-314159"


def vectors(body: dict[str, Any], n: int = 0) -> Reply:
    """A good reply, in an order that is not that of the texts."""
    found = WordEncoder().encode_queries(body["input"]).tolist()
    data = [{"object": "embedding", "index": i, "embedding": [3 * x for x in row]} for i, row in enumerate(found)]
    usage = {"prompt_tokens": 3 * len(data), "total_tokens": 3 * len(data)}
    return 200, {}, {"object": "list", "model": "m", "data": data[::-1], "usage": usage}


def texts_at(server: OpenAIServer) -> list[str]:
    """The texts that arrived, without the first call, which finds the dimension."""
    return sorted(text for seen in server.requests[1:] for text in seen.body["input"])


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.BaseClient._calculate_retry_timeout", lambda *arguments: 0.01)


def at(server: OpenAIServer, name: str = "some-model") -> str:
    return f"openai/{name}@{server.url}"


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("multilingual-e5-large-instruct", f"{WEB} ", ""),
        ("bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),  # noqa: RUF001
        ("BAAI/bge-base-en-v1.5", BGE, ""),
        ("bge-m3:latest", "", ""),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("qwen3-embedding:0.6b", WEB, ""),
    ],
)
def test_each_family_gets_the_texts_of_its_card(name: str, query: str, passage: str) -> None:
    with openai_server(vectors) as server:
        encoder = load_encoder(at(server, name))
        encoder.encode_queries(["river"])
        encoder.encode_passages(["mouth", ""], ["delta", "alone"])
        assert texts_at(server) == sorted([f"{query}river", f"{passage}mouth\ndelta", f"{passage}alone"])
        assert {(seen.path, seen.body["model"]) for seen in server.requests} == {("/v1/embeddings", name)}


def test_texts_are_sent_in_batches_and_keep_their_rows_and_lengths_if_asked() -> None:
    texts = [f"text {n} {PASSAGES[n % 50]['text']}" for n in range(100)]
    with openai_server(vectors) as server:
        encoder = load_encoder(at(server))
        found = encoder.encode_queries(texts)
        again = pickle.loads(pickle.dumps(encoder)).encode_queries(texts[:2])
        assert encoder.dimension == 64
        assert found.dtype == np.float32
        assert found == pytest.approx(WordEncoder().encode_queries(texts), abs=1e-6)
        assert again == pytest.approx(found[:2])
        assert sorted(len(seen.body["input"]) for seen in server.requests[:5]) == [1, 4, 32, 32, 32]
        assert encoder.encode_queries([]).shape == (0, 64)
        free = load_encoder(at(server), encoding=Encoding(normalize=False))
        assert free.similarity == "inner_product"
        assert np.linalg.norm(free.encode_queries(["river"])) == pytest.approx(3)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (error(401, f"bad key {KEY}"), r"encoder 'openai/some-model@.*HTTP 401: bad key \[key\]$"),
        (error(413, "`inputs` must have less than 512 tokens. Given: 600"), r"truncate: true \(TEI\)"),
        (error(503, "always loading"), "HTTP 503: always loading"),
        ((200, {}, "<html>a proxy</html>"), "JSONDecodeError"),
        ((200, {}, {"data": [{"index": 0, "embedding": [float("nan")] * 64}]}), "expected 1 vectors"),
    ],
)
def test_a_lasting_fault_is_one_line_without_the_key(
    fault: Reply, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with openai_server(fault) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(UserError, match=message) as raised:
            load_encoder(at(server))
    assert KEY not in str(raised.value)


def test_the_key_goes_to_its_own_address_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "sk-canary-other-271828")
    with openai_server(vectors) as own, openai_server(vectors) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", own.url)
        file = tmp_path / "models.yaml"
        entry = {"model": "e5-small", "base_url": other.url, "key": "OTHER_KEY", "extra_body": {"truncate": True}}
        file.write_text(json.dumps({"mine": entry}))
        monkeypatch.setenv("MADKE_MODELS", str(file))
        for name in ("openai/some-model", at(other), "mine"):
            load_encoder(name).encode_queries(["river"])
        assert {seen.headers["authorization"] for seen in own.requests} == {f"Bearer {KEY}"}
        keys = [seen.headers["authorization"] for seen in other.requests]
        assert keys == ["Bearer no-key"] * 2 + ["Bearer sk-canary-other-271828"] * 2
        sent = other.requests[-1].body
        assert sent == {
            "model": "e5-small", "input": ["query: river"], "encoding_format": "float", "truncate": True,
        }  # fmt: skip


def test_strangers_files_cannot_send_questions_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(json.dumps({"mine": {"base_url": "http://stranger.example/v1"}}))
    for name in ("openai/e5@http://stranger.example/v1", "mine", "openai/e5@http://localhost:1/0123456789abcdef/v1"):
        with pytest.raises(UserError, match="must be on this machine, or that of OPENAI_BASE_URL") as raised:
            load_encoder(name)
        assert "0123456789abcdef" not in str(raised.value)
    with pytest.raises(UserError, match="'the base URL' is not an endpoint for openai/e5"):
        load_encoder("openai/e5@http://[0123456789abcdef")


def test_what_the_server_decides_cannot_be_asked_for() -> None:
    with openai_server(vectors) as server:
        for options in ({"encoding": Encoding(pooling="cls")}, {"dtype": "bfloat16"}):
            with pytest.raises(UserError, match="its server decides pooling and dtype"):
                load_encoder(at(server), **options)
        assert not server.requests


def test_an_index_is_built_and_searched_through_a_server_and_a_fault_fails_its_queries(tmp_path: Path) -> None:
    needs("faiss", "wiki")
    corpus = write_corpus(tmp_path / "c.jsonl")
    with openai_server(vectors) as server:
        build_index(corpus, tmp_path / "index", "dense", encoder=at(server, "multilingual-e5-small"), faiss="flat")
        source = open_index("wiki", tmp_path / "index")
        server.requests.clear()
        (hits,) = ask_source(source, ["submarine sonar hull Arlen"], 1)
        assert texts_at(server) == ["query: submarine sonar hull Arlen"]
    assert hits.passages[0].key == "p45"
    failed = ask_source(source, ["sonar", "lava"], 1)  # the server is gone
    assert [hits.passages for hits in failed] == [(), ()]
    assert all(hits.error is not None and "APIConnectionError: Connection error" in hits.error for hits in failed)
