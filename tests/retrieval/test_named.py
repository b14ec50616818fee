"""Sources by name: specifications from words, from entries of a file and files of them; where a name is looked up."""

from pathlib import Path
from shutil import rmtree

import pytest

from madke.core.errors import UserError
from madke.retrieval.indexes.index_folder import MANIFEST
from madke.retrieval.named import (
    BUILT_IN_SOURCES,
    HybridSpec,
    IndexSpec,
    ResultsSpec,
    WikipediaSpec,
    is_sample,
    known_sources,
    open_source,
    parse_sources,
    read_sources,
    register,
    resolve,
)
from tests.data.published import write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a cache of its own and no file of sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MADKE_SOURCES", raising=False)
    return tmp_path


def test_sources_are_parsed_in_order() -> None:
    assert list(parse_sources(" wiki = a+b , google", ()).items()) == [("wiki", "a+b"), ("google", None)]


@pytest.mark.parametrize("text", ["", "wiki,", "wiki=", "=a", "wiki,wiki=a"])
def test_a_broken_list_of_sources_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="sources"):
        parse_sources(text, ())


def test_only_what_ships_for_the_sample_questions_is_the_sample(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [name for name in BUILT_IN_SOURCES if is_sample(name, None)] == ["wiki", "google", "wiki-bm25", "wiki-dense"]
    monkeypatch.setenv("SERPER_API_KEY", "k")
    assert not is_sample("google", None)


def test_a_name_is_looked_up_in_the_users_file_then_in_what_was_fetched_then_among_the_built_in(folder: Path) -> None:
    assert isinstance(resolve("google"), ResultsSpec)

    register("google", IndexSpec(index=Path("fetched")))
    register("another", IndexSpec(index=Path("/idx")))
    assert resolve("google") == IndexSpec(index=folder / "fetched")

    (folder / "sources.yaml").write_text("google: {index: here}\nwiki: {wikipedia: }\n")
    assert resolve("google") == IndexSpec(index=folder / "here")
    assert resolve("wiki") == WikipediaSpec()
    assert resolve("google", "r.jsonl") == ResultsSpec(results=folder / "r.jsonl")


def test_the_environment_names_another_file_with_paths_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sources.yaml").write_text("mine: {index: a}\n")
    (folder / "far").mkdir()
    (folder / "far" / "s.yaml").write_text("theirs: {index: b, texts: ~/c}\n")
    monkeypatch.setenv("MADKE_SOURCES", "far/s.yaml")
    monkeypatch.setenv("HOME", "/home/ada")

    assert resolve("theirs") == IndexSpec(index=folder / "far" / "b", texts=Path("/home/ada/c"))
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
    parts = resolve("any", "google + .5 * b+ 2*a")
    assert isinstance(parts, HybridSpec)
    assert (parts.fusion, parts.weights) == ("weighted", (1, 0.5, 2))
    assert isinstance(parts.hybrid[0], ResultsSpec)
    assert parts.hybrid[1:] == (IndexSpec(index=folder / "b"), IndexSpec(index=Path("/idx/a")))


def test_a_source_that_is_made_of_itself_is_refused(folder: Path) -> None:
    rings = "a: {hybrid: [google, b]}\nb: {hybrid: [google, a]}\nc: {hybrid: [google, c]}\n"
    (folder / "sources.yaml").write_text(rings)

    with pytest.raises(UserError, match=r"^sources.yaml:2: source 'a' contains itself: a -> b -> a$"):
        resolve("a")
    with pytest.raises(UserError, match=r"^sources.yaml:3: source 'c' contains itself: c -> c$"):
        resolve("x", "google+c")


@pytest.mark.parametrize("name", ["corpus.tsv.gz", "beir/corpus.jsonl"])
def test_passages_that_need_an_index_name_the_command_that_builds_it(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, '{"_id": "1", "title": "Baikal", "text": "Baikal is deep."}\n')
    corpus = tmp_path / name.partition("/")[0]
    out = f"{corpus.name.partition('.')[0]}-index"
    with pytest.raises(UserError, match=f"madke index build {corpus} --out {out}, then use --sources ./{out}"):
        open_source("passages", str(corpus))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {index: a}\n\nb: {indx: i}\n", ":3: source 'b': expected one of index, .*found 'indx'"),
        ("a: {serper: {}}\n", r":1: .*found 'serper'; a preset is written \{http: \{preset: serper\}\}"),
        ("a:\n", ":1: source 'a': expected one of index, .*found None"),
        ("a: {hybrid: [b]}\n", ":1: source 'a': hybrid: .*at least 2"),
        ("a: {hybrid: [b, c], fusion: rrf, weights: [1, 2]}\n", "weights require fusion: weighted"),
        ("a: {python: notes}\n", "python: expected module:object, found 'notes'"),
        ("a,b: {index: a}\n", ":1: 'a,b' is not a valid source name"),
    ],
)
def test_a_wrong_entry_is_one_line_that_says_what_was_expected(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text(text)

    with pytest.raises(UserError, match=f"sources.yaml.*{message}"):
        read_sources(tmp_path / "sources.yaml")
