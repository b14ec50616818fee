"""``madke pool build`` with the engine ray, as a user runs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from madke.indexing.build import build_index
from tests.support.cli import madke
from tests.support.corpus import PLACES, write_corpus
from tests.support.installed import needs
from tests.support.ray_nodes import another_node, running_cluster

needs("ray", "ray")
needs("jnius_config", "wiki")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_cluster() as cluster, another_node(cluster):
        yield cluster.address


@pytest.fixture(scope="module")
def serper() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["q"]
            found = {"title": "T", "snippet": f"About {query}", "link": "https://a.example/1"}
            body = json.dumps({"organic": [found], "credits": 1}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    build_index(write_corpus(folder / "passages.jsonl"), folder / "bm25")
    lines = [{"id": p, "question": f"Which castle stands in {p}?", "golden_answers": ["x"]} for p in PLACES]
    (folder / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "sources.yaml").write_text("castles: {index: bm25}\n")
    return folder


def test_the_nodes_ask_the_indexes_and_this_machine_asks_serper(address: str, serper: str, folder: Path) -> None:
    def build(out: str, *more: str) -> tuple[str, str]:
        done = madke(
            *("pool", "build", "q.jsonl", "--sources", "castles,google=serper,again=bm25", "--k", 3, "--out", out),
            *more,
            cwd=folder,
            SERPER_API_KEY="k",
            SERPER_BASE_URL=serper,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    _, first = build("here.jsonl")
    stdout, second = build("there.jsonl", "--engine", "ray", "--address", address)

    assert (folder / "there.jsonl").read_bytes() == (folder / "here.jsonl").read_bytes()
    assert stdout == "pools: there.jsonl\n"
    assert "google: 5 requests sent, 0 answers from the cache, 5 credits spent" in first
    assert "google: 0 requests sent, 5 answers from the cache" in second
    assert "castles: passages for 5 of 5 questions, 0 failed" in second


def test_an_engine_that_cannot_be_had_is_one_line(folder: Path) -> None:
    build = ("pool", "build", "q.jsonl", "--sources", "snippets=web.jsonl", "--out", "p.jsonl")
    (folder / "web.jsonl").write_text('{"query": "q", "results": []}\n')

    for more, said in (
        (("--engine", "ray", "--address", "127.0.0.1:9"), "127.0.0.1:9: no answer"),
        (("--address", "127.0.0.1:9"), "needs --engine ray"),
    ):
        done = madke(*build, *more, cwd=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]
    assert not (folder / "p.jsonl").exists()
