"""Sources that users write: plain or coroutines, by object, by ``module:object``, and in files."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.retrieval.named import open_source
from madke.retrieval.pools import read_pools, retrieve, retrieve_pools
from madke.retrieval.source import ask_source, close_sources
from tests.support.search_server import SearchServer, ok

QUESTIONS = [Question(id=str(n), question=f"Question {n}?") for n in range(3)]

MODULE = """
from tests.retrieval.test_own_sources import Plain

ready = Plain()
broken = lambda: 1 / 0
number = 3
"""


def found(text: str) -> Hits:
    return Hits(passages=(Passage(source="whatever", key=text, title="", text=text, score=1.0, rank=0),))


class Plain:
    name = "plain"
    description = "a plain source"
    fingerprint = "p1"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        return [found(f"plain {query}") for query in queries]


class Coroutine:
    """Its searches must share a loop, as those of an HTTP client must."""

    name = "coroutine"
    description = "a source with coroutines"

    def __init__(self) -> None:
        self.loops: set[object] = set()
        self.closed = False

    async def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return [found(f"coroutine {query}") for query in queries]

    async def aclose(self) -> None:
        self.loops.add(asyncio.get_running_loop())
        self.closed = True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with a module of sources."""
    (tmp_path / "my_notes.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MADKE_SOURCES", raising=False)
    yield tmp_path
    sys.modules.pop("my_notes", None)


def test_plain_sources_and_coroutines_fill_pools_the_latter_in_one_loop_that_closes_them(folder: Path) -> None:
    slow = Coroutine()

    async def notebook() -> None:
        retrieve_pools(QUESTIONS, [Plain(), slow], 5, folder / "pools.jsonl")
        ask_source(slow, ["again"], 5)
        close_sources([slow, Plain()])

    asyncio.run(notebook())

    record = read_pools(folder / "pools.jsonl")["1"]
    assert [(p.source, p.text) for p in record.passages] == [
        ("plain", "plain Question 1?"),
        ("coroutine", "coroutine Question 1?"),
    ]
    assert record.sources == {"plain": "a plain source (p1)", "coroutine": "a source with coroutines"}
    assert slow.closed
    assert len(slow.loops) == 1


@pytest.mark.parametrize("answer", [None, [], ["no hits"]])
def test_a_source_that_answers_nonsense_fails_its_queries_alone(answer: object) -> None:
    wrong = Plain()
    wrong.search = lambda queries, k: answer  # type: ignore[method-assign, assignment, return-value]

    records = retrieve(QUESTIONS, [wrong, Coroutine()], 5)

    assert all("plain" in record.partial and "coroutine" not in record.partial for record in records)


@pytest.mark.parametrize("code", ["my_notes:Plain", "my_notes:ready"])
def test_a_class_or_an_instance_is_named_on_the_command_line(code: str) -> None:
    source = open_source("docs", code)

    (hits,) = ask_source(source, ["bees"], 5)
    assert [(p.source, p.text) for p in hits.passages] == [("docs", "plain bees")]
    assert (source.name, source.description) == ("docs", "a plain source (p1)")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("my_notes:broken", "cannot be created: ZeroDivisionError"),
        ("my_notes:number", "expected an object with name, description and search, found 3"),
        ("my_notes:nothing", "module 'my_notes' has no attribute 'nothing'"),
        ("no_such_module:x", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_code_that_makes_no_source_is_told_in_one_line(code: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_source("docs", code)


@pytest.mark.parametrize("entry", ["{python: 'my_notes:ready'}", "{hybrid: [google, 'my_notes:ready']}"])
def test_a_file_in_the_working_folder_runs_no_code(folder: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sources.yaml").write_text(f"\ndocs: {entry}\n")

    with pytest.raises(UserError, match=r"^sources.yaml:2: source 'docs' is Python code.*MADKE_SOURCES=sources.yaml"):
        open_source("docs")
    assert "my_notes" not in sys.modules

    monkeypatch.setenv("MADKE_SOURCES", "sources.yaml")
    (hits,) = ask_source(open_source("docs"), ["bees"], 5)
    assert "plain bees" in {passage.text for passage in hits.passages}


@pytest.mark.parametrize(
    "options",
    [
        "preset: tavily, url: URL",
        "preset: searxng, url: URL, headers: {X-Key: '${OPENAI_API_KEY}'}",
    ],
)
def test_a_file_in_the_working_folder_sends_no_key(folder: Path, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TAVILY_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "canary-3c2b1a")
    with SearchServer(lambda seen, before: ok({"results": []})).running() as server:
        (folder / "sources.yaml").write_text(f"docs: {{http: {{{options.replace('URL', server.url)}}}}}\n")

        for name, spec in (("docs", None), ("mine", "docs"), ("mine", "docs+google"), ("google", None)):
            with pytest.raises(UserError, match=r"^sources.yaml:1: source 'docs' sends a key, .*MADKE_SOURCES="):
                ask_source(open_source(name, spec), ["bees"], 5)

        assert not server.requests
