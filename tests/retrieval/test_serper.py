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
from pydantic import ValidationError

from madke.retrieval.pools.pool_file import read_pools
from madke.retrieval.services import SerperOptions
from madke.retrieval.web import WebSource
from tests.support.cli import command, madke
from tests.support.search_server import Reply, SearchServer, Seen, ok

RESULTS = [
    {"title": "One", "snippet": "first", "link": "https://a.example/1", "date": "1 May 2024", "position": 1},
    {"title": "No snippet", "link": "https://a.example/2"},
    {"title": "Odd", "snippet": 5, "link": "https://a.example/4"},
    {"title": "Three", "snippet": "third", "link": "https://www.quiz.example/3"},
]
OK = ok({"organic": RESULTS, "credits": 1, "answerBox": {"answer": "42"}})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchServer]:
    monkeypatch.setenv("SERPER_API_KEY", "canary-7f3a")
    with SearchServer(lambda seen, before: OK).running() as server:
        monkeypatch.setenv("SERPER_BASE_URL", server.url + "/")
        yield server


def open_source(folder: Path, **options: Any) -> WebSource:
    service = SerperOptions.model_validate(options)
    return WebSource(service, name="google", cache=folder / "c.sqlite", sleep=lambda _: None)


def test_organic_snippets_alone_become_passages(server: SearchServer, tmp_path: Path) -> None:
    (hits,) = open_source(tmp_path).search(["who?"], 5)

    assert [(p.source, p.key, p.title, p.text, p.rank, p.date) for p in hits.passages] == [
        ("google", "https://a.example/1", "One", "first", 0, "1 May 2024"),
        ("google", "https://www.quiz.example/3", "Three", "third", 1, None),
    ]
    (rest,) = open_source(tmp_path, exclude=["quiz.example"]).search(["who?"], 5)
    assert [p.title for p in rest.passages] == ["One"]
    assert len(server.requests) == 1  # the whole reply is cached


def test_all_settings_are_sent_and_the_query_stays_verbatim(server: SearchServer, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"results": 30, "country": "CH", "language": "de", "after": "2020-01-31"}
    source = open_source(tmp_path, **settings, before="2021-02-01", exclude=["WWW.b.example", "a.example"])

    source.search(['"Bern" -site?'], 5)

    assert server.requests[0].body == {
        "q": '"Bern" -site?',
        "num": 30,
        "gl": "ch",
        "hl": "de",
        "tbs": "cdr:1,cd_min:1/31/2020,cd_max:2/1/2021",
    }
    assert source.description == (
        f'web search through {server.url} (results=30, country="ch", language="de", after="2020-01-31", '
        'before="2021-02-01", exclude=["a.example", "b.example"])'
    )
    assert open_source(tmp_path, cache_days=3).description == f"web search through {server.url}"


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"after": "2021-01-01", "before": "2020-01-01"}, "later than before"),
        ({"after": 2020}, "expected a day such as 2021-01-31, found 2020"),
        ({"country": "usa"}, "country"),
        ({"language": "English"}, "language"),
        ({"results": 101}, "results"),
        ({"results": True}, "results"),
        ({"cache_days": -1}, "cache_days"),
        ({"answerbox": True}, "answerbox"),
        ({"exclude": "a.example"}, "exclude"),
        *(
            ({"exclude": [wrong]}, f"expected a domain such as example.org, found {wrong!r}")
            for wrong in ("", "example", "https://a.example", "a.example/b", "*.a.example", "a..b")
        ),
    ],
)
def test_wrong_settings_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("*", r"\*")):
        SerperOptions.model_validate(values)
