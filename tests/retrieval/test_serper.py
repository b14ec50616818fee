"""Google through Serper: what is sent, read and paid for. What it shares with all services is tested with them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Source
from madke.retrieval.named import open_spec, spec_from_yaml
from madke.retrieval.pools import read_pools
from madke.retrieval.source import search_source
from tests.support.cli import command, madke
from tests.support.search_server import Reply, SearchServer, Seen, ok

RESULTS = [
    {"title": "One", "snippet": "first", "link": "https://a.example/1", "date": "1 May 2024", "position": 1},
    {"title": "No snippet", "link": "https://a.example/2"},
    {"title": "Odd", "snippet": {}, "link": "https://a.example/4"},
    {"title": "Three", "snippet": "third", "link": "https://www.quiz.example/3"},
]
OK = ok({"organic": RESULTS, "credits": 1, "answerBox": {"answer": "42"}})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    monkeypatch.setenv("SERPER_API_KEY", "canary-7f3a")
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    with SearchServer(lambda seen, before: OK).running() as server:
        monkeypatch.setenv("SERPER_BASE_URL", server.url + "/")
        yield server


def test_organic_snippets_alone_become_passages(server: SearchServer, tmp_path: Path) -> None:
    def opened(**options: Any) -> Source:
        spec = spec_from_yaml({"http": {"preset": "serper", "url": server.url, **options}}, file="f")
        return open_spec(spec, "google")

    source = opened(body={"num": 20, "gl": "ch"})
    (hits,) = search_source(source, ["who?"], 5)

    assert server.requests[0].body == {"q": "who?", "num": 20, "gl": "ch"}
    assert [(p.source, p.key, p.title, p.text, p.rank, p.date) for p in hits.passages] == [
        ("google", "https://a.example/1", "One", "first", 0, "1 May 2024"),
        ("google", "https://www.quiz.example/3", "Three", "third", 1, None),
    ]
    (rest,) = search_source(opened(body={"num": 20, "gl": "ch"}, exclude=["quiz.example"]), ["who?"], 5)
    assert [p.title for p in rest.passages] == ["One"]
    assert len(server.requests) == 1  # the whole reply is cached


def test_a_killed_pool_build_asks_again_only_for_what_had_not_come_back(server: SearchServer, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    lines = [{"id": f"id{n}", "question": f"q{n}", "golden_answers": ["x"]} for n in range(40)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    stored = 20
    held, go_on = threading.Event(), threading.Event()

    def answer_some(seen: Seen, before: int) -> Reply:
        if len(server.requests) > stored and not go_on.is_set():
            if len(server.requests) == stored + 8:  # each of the eight that ask has stored what it got before
                held.set()
            go_on.wait(60)
        return OK

    server.reply = answer_some
    env: dict[str, Any] = {"SERPER_BASE_URL": server.url, "MADKE_CACHE": str(tmp_path / "cache")}
    words = ("pool", "build", questions, "--sources", "web=serper", "--out", tmp_path / "p.jsonl")
    with subprocess.Popen(command(*words), env={**os.environ, **env}, stderr=subprocess.DEVNULL) as process:
        assert held.wait(60)
        process.kill()
    go_on.set()
    asked = {request.body["q"] for request in server.requests}
    assert len(asked) == len(server.requests) == stored + 8
    server.requests.clear()

    done = madke(*words, **env)

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 40 - stored
    assert len(read_pools(tmp_path / "p.jsonl")) == 40
