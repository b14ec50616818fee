"""A program as a source: JSON lines in and out."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Hits
from madke.knowledge.asking import close_sources
from madke.knowledge.command_search import CommandSearch
from madke.knowledge.source_spec import CommandSpec, open_spec, spec_from_yaml
from madke.knowledge.web_source import WebSource
from tests.support.cli import command, madke, started

ECHO = """
import json, os, sys, time
starts = open("starts", "a"); starts.write(f"{os.getpid()}\\n"); starts.close()
for line in sys.stdin:
    query = json.loads(line)
    text = query["query"]
    if text == "die":
        print("out of memory " + os.environ.get("SOME_API_KEY", ""), file=sys.stderr, flush=True)
        os._exit(3)
    if text == "hang":
        time.sleep(60)
    if text == "huge":
        print("x" * 6_000_000)
    elif text == "odd":
        print("no JSON")
    elif text == "refuse":
        print(json.dumps({"error": "no such thing \\x1b[31m" + os.environ.get("SOME_API_KEY", "")}))
    else:
        found = [{"text": f"{n} on {text}", "title": "T", "url": f"https://a.example/{n}", "score": 1 / n}
                 for n in range(1, query["k"] + 1)]
        print(json.dumps({"results": found}))
    sys.stdout.flush()
"""
KEY = "canary-5d1e9f7a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SOME_API_KEY", KEY)
    return tmp_path


Opened = Callable[..., WebSource]


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    made: list[WebSource] = []

    def open_command(**more: Any) -> WebSource:
        spec = spec_from_yaml({"command": {"run": [sys.executable, "echo.py"], **more}}, file="f").under(folder)
        assert isinstance(spec, CommandSpec)
        made.append(WebSource(CommandSearch(spec.command), spec.command, name="mine", sleep=lambda _: None))
        return made[-1]

    yield open_command
    close_sources(made)


def processes(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "starts").read_text().split()]


def test_one_process_answers_all_queries_in_order(opened: Opened, folder: Path) -> None:
    source = opened()

    found = source.search([f"query {n}" for n in range(50)], 2)
    source.search(["more"], 1)

    texts = [[p.text for p in hits.passages] for hits in found]
    assert texts == [[f"1 on query {n}", f"2 on query {n}"] for n in range(50)]
    passage = found[0].passages[1]
    assert (passage.title, passage.url, passage.score, passage.source) == ("T", "https://a.example/2", 0.5, "mine")
    assert len(processes(folder)) == 1
    assert source.spent.requests == 51


def test_a_program_that_dies_is_started_again_and_the_others_are_answered(opened: Opened, folder: Path) -> None:
    good, bad, also = opened().search(["good", "die", "also good"], 1)

    assert good.error is None
    assert also.error is None
    assert bad.error == (
        "the command ended with status 3; its last line on stderr: 'out of memory ***' after 5 attempts"
    )
    assert len(processes(folder)) == 6


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("hang", "the command does not answer within 1.5 s"),
        ("huge", "the command's answer exceeds 5,000,000 bytes"),
        ("odd", "the reply is not JSON"),
        ("refuse", r"the command reports 'no such thing \x1b[31m***'"),
    ],
)
def test_a_bad_answer_fails_its_query_alone(query: str, reason: str, opened: Opened) -> None:
    source = opened(timeout=1.5)

    (bad,) = source.search([query], 1)
    (good,) = source.search(["good"], 1)

    assert bad == Hits(error=reason)
    assert [p.text for p in good.passages] == ["1 on good"]


def test_a_program_that_reads_nothing_is_given_up_also_for_a_query_that_no_pipe_holds(opened: Opened) -> None:
    source = opened(run=["sleep", "60"], timeout=1)

    assert source.search(["long " * 100_000], 1) == [Hits(error="the command does not answer within 1 s")]


def test_a_program_reads_a_query_that_no_pipe_holds(opened: Opened) -> None:
    query = "long " * 100_000

    assert [p.text for p in opened().search([query], 1)[0].passages] == [f"1 on {query}"]


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """As in a server with many connections: descriptors of new pipes are above 1,023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    with ExitStack() as held:
        for _ in range(1100):
            held.enter_context(open(os.devnull, "rb"))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_program_answers_also_with_many_open_files(opened: Opened, many_open_files: None) -> None:
    assert [p.text for p in opened().search(["good"], 1)[0].passages] == ["1 on good"]


def test_answers_are_not_cached_unless_asked_for(opened: Opened, folder: Path) -> None:
    for _ in range(2):
        opened(cache_days=1).search(["a"], 1)
    for _ in range(2):
        opened().search(["a"], 1)

    assert len(processes(folder)) == 3


def test_a_program_that_is_missing_is_told_once(opened: Opened) -> None:
    found = opened(run=["no-such-program"]).search(["a", "b"], 1)

    reason = "the command cannot be started: No such file or directory"
    assert [hits.error for hits in found] == [reason, f"not sent: {reason}"]


def test_a_closed_source_leaves_no_process(opened: Opened, folder: Path) -> None:
    source = opened()
    source.search(["a"], 1)
    (process,) = processes(folder)

    source.aclose()

    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
def test_a_pool_is_built_and_a_killed_madke_leaves_no_process(folder: Path) -> None:
    (folder / "far").mkdir()
    (folder / "far" / "mine.yaml").write_text(f"docs: {{command: [{sys.executable}, ../echo.py]}}\n")
    questions = folder / "questions.jsonl"
    questions.write_text('{"id": "1", "question": "bees"}\n')
    words = ("pool", "build", questions, "--sources", "docs", "--k", "1", "--out", folder / "pools.jsonl")

    lying = madke(*words, cwd=folder)
    named = madke(*words, cwd=folder, MADKE_SOURCES=str(folder / "far" / "mine.yaml"))

    assert lying.returncode == 2
    assert "unknown source 'docs'" in lying.stderr
    assert named.returncode == 0, named.stderr
    assert "1 on bees" in (folder / "pools.jsonl").read_text()
    assert "docs: 1 request sent, 0 answers from the cache\n" in named.stderr
    questions.write_text('{"id": "1", "question": "hang"}\n')
    (folder / "far" / "starts").unlink()
    environment = {**os.environ, "MADKE_SOURCES": str(folder / "far" / "mine.yaml")}
    with subprocess.Popen(command(*words), env=environment, cwd=folder, stderr=subprocess.DEVNULL) as running:
        while not (folder / "far" / "starts").exists() or not processes(folder / "far"):
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    (process,) = processes(folder / "far")
    deadline = time.monotonic() + 20
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_the_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.yaml").write_text(f"docs: {{command: [{sys.executable}, echo.py]}}\n")
    (folder / "questions.jsonl").write_text('{"id": "1", "question": "hang"}\n')
    monkeypatch.setenv("MADKE_SOURCES", str(folder / "mine.yaml"))
    words = ("pool", "build", folder / "questions.jsonl", "--sources", "docs", "--out", folder / "pools.jsonl")
    with started(*words) as running:
        while not (folder / "starts").exists() or not processes(folder):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=40)  # The program would sleep for 60 seconds.

    assert running.returncode == 130
    assert not (folder / "pools.jsonl").exists()


def test_each_kind_of_service_is_opened_from_its_specification(folder: Path) -> None:
    described = {
        kind: open_spec("s", spec_from_yaml({kind: content}, file="f")).description
        for kind, content in {
            "command": ["python", "search.py"],
            "wikipedia": {"language": "de"},
            "http": {"preset": "searxng", "url": "http://h.example:8080"},
            "mcp": {"run": ["server"], "tool": "find", "arguments": {"q": "{query}"}, "fields": {"text": "text"}},
        }.items()
    }

    assert described["command"].startswith("results of 'python search.py' (settings ")
    assert described["wikipedia"] == "Wikipedia search at https://de.wikipedia.org/w/api.php (3 articles per query)"
    assert described["http"].startswith("searxng search at http://h.example:8080/search (settings ")
    assert described["mcp"].startswith("MCP tool 'find' of server (settings ")
