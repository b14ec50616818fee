from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.indexing import named
from madke.indexing.named import open_source, parse_sources
from tests.support.corpus import WordEncoder, write_corpus


def test_sources_are_parsed_in_order() -> None:
    assert list(parse_sources(" wiki = a+b , google").items()) == [("wiki", "a+b"), ("google", None)]


@pytest.mark.parametrize("text", ["", "wiki,", "wiki=", "=a", "wiki,wiki=a"])
def test_a_broken_list_of_sources_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="sources"):
        parse_sources(text)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown source 'wikki'; did you mean 'wiki'.*wikki=SPEC"):
        open_source("wikki")


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Assets of our own in place of the shipped ones."""
    (tmp_path / "indexes" / "sample").mkdir(parents=True)
    (tmp_path / "eval" / "samples").mkdir(parents=True)
    write_corpus(tmp_path / "indexes" / "sample" / "passages.jsonl")
    (tmp_path / "eval" / "samples" / "web.jsonl").write_text(json.dumps({"query": "q", "results": []}))
    monkeypatch.setattr(named, "asset", lambda *parts: tmp_path.joinpath(*parts))
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_google_without_a_key_is_the_sample_and_says_so(sample: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        source = open_source("google")

    assert source.description.startswith("web-style snippets for 1 queries")
    assert "SERPER_API_KEY is not set" in caplog.text


def test_google_with_a_key_is_a_web_search(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", "k")
    monkeypatch.setenv("SERPER_BASE_URL", "http://127.0.0.1:1")

    assert open_source("google").description == "web search through http://127.0.0.1:1"


def test_wiki_is_built_once_over_the_sample(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs the extra madke[dense]")
    pytest.importorskip("jnius_config", reason="needs the extra madke[wiki]")
    encoders: list[WordEncoder] = []

    def load(*_: object, **__: object) -> WordEncoder:
        encoders.append(WordEncoder())
        return encoders[-1]

    monkeypatch.setattr(named, "load_encoder", load)
    monkeypatch.setattr("madke.knowledge.sources.dense.load_encoder", load)

    first = open_source("wiki").search(["drawbridge of Elstow"], 3)
    again = open_source("wiki").search(["drawbridge of Elstow"], 3)

    assert first == again
    assert first[0].passages[0].key == "p34" and first[0].passages[0].source == "wiki"
    assert sum(len(encoder.passage_calls) for encoder in encoders) == 1
