"""Sources by name: specifications from words, from entries of a file and files of them; where a name is looked up."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.retrieval import named
from madke.retrieval.indexes.index_folder import MANIFEST
from madke.retrieval.named import (
    BUILT_IN_SOURCES,
    HybridSpec,
    IndexSpec,
    ResultsSpec,
    SampleSpec,
    SourceSpec,
    WikipediaSpec,
    is_sample,
    known_sources,
    open_source,
    parse_sources,
    parse_spec,
    read_sources,
    register,
    resolve,
    spec_from_yaml,
)
from madke.retrieval.source import search_source
from tests.support.corpus import WordEncoder, write_corpus


def test_sources_are_parsed_in_order() -> None:
    assert list(parse_sources(" wiki = a+b , google", ()).items()) == [("wiki", "a+b"), ("google", None)]


@pytest.mark.parametrize("text", ["", "wiki,", "wiki=", "=a", "wiki,wiki=a"])
def test_a_broken_list_of_sources_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="sources"):
        parse_sources(text, ())


def test_only_what_ships_for_the_sample_questions_is_the_sample(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    hybrid = HybridSpec(hybrid=(SampleSpec(sample="bm25"), IndexSpec(index=folder)))
    more = {"faq": lambda: ResultsSpec(results=folder / "faq.jsonl"), "both": lambda: hybrid}
    monkeypatch.setattr("madke.retrieval.named.BUILT_IN_SOURCES", {**BUILT_IN_SOURCES, **more})

    of_sample = [name for name in (*BUILT_IN_SOURCES, *more) if is_sample(name, None)]

    assert of_sample == ["wiki", "google", "wiki-bm25", "wiki-dense"]

    monkeypatch.setenv("SERPER_API_KEY", "k")
    assert not is_sample("google", None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a cache of its own and no file of sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MADKE_SOURCES", raising=False)
    return tmp_path


def test_a_name_is_looked_up_in_the_users_file_then_in_what_was_fetched_then_among_the_built_in(folder: Path) -> None:
    assert isinstance(resolve("google"), ResultsSpec)

    register("google", IndexSpec(index=Path("fetched")))
    assert resolve("google") == IndexSpec(index=folder / "fetched")

    (folder / "sources.yaml").write_text("google: {index: here}\n")
    assert resolve("google") == IndexSpec(index=folder / "here")
    assert resolve("google", "r.jsonl") == ResultsSpec(results=folder / "r.jsonl")


def test_the_environment_names_another_file_and_paths_in_it_are_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sources.yaml").write_text("mine: {index: a}\n")
    (folder / "far").mkdir()
    (folder / "far" / "s.yaml").write_text("theirs: {index: b, texts: ../c}\n")
    monkeypatch.setenv("MADKE_SOURCES", "far/s.yaml")

    assert resolve("theirs") == IndexSpec(index=folder / "far" / "b", texts=folder / "far" / ".." / "c")
    assert "mine" not in known_sources()
    monkeypatch.setenv("MADKE_SOURCES", "nowhere.yaml")
    with pytest.raises(UserError, match=r"nowhere.yaml: cannot be read"):
        resolve("google")


def test_a_part_of_a_hybrid_is_a_declared_name_then_a_folder_then_a_built_in_name(folder: Path) -> None:
    (folder / "sources.yaml").write_text("a: {index: /idx/a}\nb: {index: b}\nmix: {hybrid: [a, google, b]}\n")
    for name in ("a", "google"):
        (folder / name).mkdir()
        (folder / name / MANIFEST).touch()

    assert resolve("mix") == HybridSpec(
        hybrid=(IndexSpec(index=Path("/idx/a")), IndexSpec(index=folder / "google"), IndexSpec(index=folder / "b"))
    )
    rmtree(folder / "google")
    parts = resolve("any", "2*google + b")
    assert isinstance(parts, HybridSpec)
    assert parts.weights == (2, 1)
    assert isinstance(parts.hybrid[0], ResultsSpec)
    assert parts.hybrid[1] == IndexSpec(index=folder / "b")


def test_a_source_that_is_made_of_itself_is_refused(folder: Path) -> None:
    (folder / "sources.yaml").write_text(
        "a: {hybrid: [google, b]}\nb: {hybrid: [google, a]}\nc: {hybrid: [google, c]}\n"
    )

    with pytest.raises(UserError, match=r"^sources.yaml:2: source 'a' contains itself: a -> b -> a$"):
        resolve("a")
    with pytest.raises(UserError, match=r"^sources.yaml:3: source 'c' contains itself: c -> c$"):
        resolve("x", "google+c")


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


def test_wiki_is_the_fusion_of_both_rankings_of_the_sample(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.retrieval.index_sources.asset", lambda *parts: sample.joinpath(*parts))
    monkeypatch.setattr("madke.retrieval.named.find_spec", lambda _: True)
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda *_, **__: WordEncoder())

    source = open_source("wiki")
    (hits,) = search_source(source, ["drawbridge of Elstow"], 3)

    assert hits.passages[0].key == "p34"
    assert hits.passages[0].source == "wiki"
    assert source.description.startswith("weighted sum of BM25 over 50 passages (sample, ")
    assert " and minilm vectors over 50 passages" in source.description


@pytest.mark.parametrize("name", ["corpus.tsv", "corpus.tsv.gz", "corpus.jsonl", "beir"])
def test_passages_that_need_an_index_name_the_command_that_builds_it(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / name
    line = '{"_id": "1", "title": "Baikal", "text": "Baikal is deep."}\n'
    if name == "beir":
        corpus.mkdir()
        (corpus / "corpus.jsonl").write_text(line)
    else:
        corpus.write_text(line)
    out = f"{name.partition('.')[0]}-index"
    with pytest.raises(UserError, match=f"madke index build {corpus} --out {out}, then use --sources ./{out}"):
        open_source("passages", str(corpus))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("my/index", "my/index"),
        ("web.jsonl", ResultsSpec(results=Path("web.jsonl"))),
        ("a+b", HybridSpec(hybrid=("a", "b"), fusion="weighted")),
        (" a + ~/b +c", HybridSpec(hybrid=("a", "~/b", "c"))),
        ("1.2*a+b", HybridSpec(hybrid=("a", "b"), fusion="weighted", weights=(1.2, 1))),
        ("a + .5 * b+ 2*c", HybridSpec(hybrid=("a", "b", "c"), fusion="weighted", weights=(1, 0.5, 2))),
    ],
)
def test_a_word_of_the_command_line_is_a_specification(text: str, spec: SourceSpec | str) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    ("content", "spec"),
    [
        ({"index": "i"}, IndexSpec(index=Path("i"))),
        (
            {"index": "i", "encoder": "minilm", "texts": "t"},
            IndexSpec(index=Path("i"), encoder="minilm", texts=Path("t")),
        ),
        ({"wikipedia": None}, WikipediaSpec()),
        ({"results": "r.jsonl"}, ResultsSpec(results=Path("r.jsonl"))),
        ({"hybrid": ["a", "b"], "weights": [1, 2]}, HybridSpec(hybrid=("a", "b"), fusion="weighted", weights=(1, 2))),
    ],
)
def test_an_entry_of_a_file_is_a_specification(content: dict[str, Any], spec: SourceSpec) -> None:
    assert spec_from_yaml(content, file="f") == spec


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"indx": "i"}, r"expected one of index, .*found 'indx'"),
        ("i", r"expected one of index, .*found 'i'"),
        ({"serper": {}}, r"found 'serper'; a preset is written \{http: \{preset: serper\}\}"),
        (None, "found None"),
        ({"index": "i", "wikipedia": {}}, "unknown key 'wikipedia'"),
        ({"index": None}, "index: .*found None"),
        ({"hybrid": ["a"]}, "hybrid: .*at least 2"),
        ({"hybrid": "a+b"}, "hybrid: .*found 'a.b'"),
        ({"hybrid": ["a", ""]}, r"hybrid\.1"),
        ({"hybrid": ["a", {"index": "b"}]}, r"hybrid\.1"),
        ({"hybrid": ["a", "b"], "fusion": "sum"}, "fusion: .*found 'sum'"),
        ({"hybrid": ["a", "b"], "fusion": "rrf", "weights": [1, 2]}, "weights require fusion: weighted"),
        ({"hybrid": ["a", "b"], "fusion": "weighted", "weights": [1]}, "expected 2 weights, one per part; found 1"),
        ({"hybrid": ["a", "b"], "fusion": "weighted", "weights": [1, 0]}, r"weights\.1: .*found 0"),
        ({"wikipedia": {"langage": "en"}}, r"unknown key 'wikipedia\.langage'"),
        ({"python": "notes"}, "python: expected module:object, found 'notes'"),
    ],
)
def test_a_wrong_entry_is_one_line_that_says_what_was_expected(content: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^f: .*{message}"):
        spec_from_yaml(content, file="f")


def test_paths_are_taken_from_a_folder_and_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert IndexSpec(index=Path("i"), texts=Path("/t")).under(Path("/base")) == IndexSpec(
        index=Path("/base/i"), texts=Path("/t")
    )
    assert ResultsSpec(results=Path("~/r.jsonl")).under(Path("/base")) == ResultsSpec(results=Path("/home/ada/r.jsonl"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wiki: {index: a}\nwiki: {index: b}\n", ":2: is not YAML: 'wiki' is already on line 1"),
        ("a: {index: a}\n\nb: {indx: b}\n", ":3: source 'b': expected one of"),
        ("a,b: {index: a}\n", ":1: 'a,b' is not a valid source name"),
        ("a: {index: a}\nnone: {index: a}\n", ":2: 'none' is not a valid source name"),
        ("7: {index: a}\n", ":1: expected a name, found 7"),
        ("- wiki\n", ": expected a mapping at the top level, found list"),
        ("a: {index: a\n", ":2: is not YAML"),
        ("a: &a {hybrid: [*a, b]}\n", ":1: is not YAML: aliases and lists expand to more than 50,000 values"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text(text)

    with pytest.raises(UserError, match=f"sources.yaml{message}"):
        read_sources(tmp_path / "sources.yaml")


def test_a_source_is_registered_beside_the_others_or_in_place_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path))
    kept = HybridSpec(hybrid=("a", "/b"), fusion="weighted", weights=(1, 0.5))

    register("mix", kept)
    register("wiki", IndexSpec(index=Path("/old")))
    file = register("wiki", IndexSpec(index=Path("/new"), encoder="minilm"))

    found = {name: entry.spec for name, entry in read_sources(file).items()}
    assert found == {"mix": kept, "wiki": IndexSpec(index=Path("/new"), encoder="minilm")}
