"""Specifications of sources: from words, from entries of a file, and files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.retrieval.named import (
    HybridSpec,
    IndexSpec,
    ResultsSpec,
    SourceSpec,
    WikipediaSpec,
    parse_spec,
    read_sources,
    register,
    spec_from_yaml,
)


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
        ({"hybrid": ["a", {"index": "i"}]}, HybridSpec(hybrid=("a", IndexSpec(index=Path("i"))))),
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
        ({"hybrid": ["a", {"indx": "b"}]}, r"hybrid\.1: expected a name, or one of index"),
        ({"hybrid": ["a", {"index": "b", "k": 1}]}, r"unknown key 'hybrid\.1\.index\.k'"),
        ({"hybrid": ["a", "b"], "fusion": "sum"}, "fusion: .*found 'sum'"),
        ({"hybrid": ["a", "b"], "fusion": "rrf", "weights": [1, 2]}, "weights require fusion: weighted"),
        ({"hybrid": ["a", "b"], "fusion": "weighted", "weights": [1]}, "expected 2 weights, one per part; found 1"),
        ({"hybrid": ["a", "b"], "fusion": "weighted", "weights": [1, 0]}, r"weights\.1: .*found 0"),
        ({"wikipedia": {"langage": "en"}}, r"unknown key 'wikipedia\.langage'"),
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
    kept = HybridSpec(hybrid=("a", IndexSpec(index=Path("/b"))), fusion="weighted", weights=(1, 0.5))

    register("mix", kept)
    register("wiki", IndexSpec(index=Path("/old")))
    file = register("wiki", IndexSpec(index=Path("/new"), encoder="minilm"))

    found = {name: entry.spec for name, entry in read_sources(file).items()}
    assert found == {"mix": kept, "wiki": IndexSpec(index=Path("/new"), encoder="minilm")}
