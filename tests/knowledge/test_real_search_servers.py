"""Search servers that others wrote, on loopback: Debian's searx with an offline engine, and pyserini's REST server."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from madke.core.knowledge import Hits
from madke.knowledge.http_search import HttpSearch
from madke.knowledge.source_spec import HttpSpec, spec_from_yaml
from madke.knowledge.web import WebSource
from madke.pools.pool_file import read_pools
from tests.support import pyserini_server
from tests.support.cli import madke
from tests.support.installed import needs

pytestmark = pytest.mark.slow

_SYSTEM_PYTHON, _SEARX = "/usr/bin/python3", "/usr/lib/python3/dist-packages/searx"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(command: list[str], address: str, folder: Path, **env: str) -> Iterator[None]:
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, env={**os.environ, **env}, cwd=folder, stdout=log, stderr=log) as server,
    ):
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and server.poll() is None and not answers(address):
                time.sleep(0.2)
            assert answers(address), (folder / "log").read_text()[-2000:]
            yield
        finally:
            server.kill()


def answers(address: str) -> bool:
    try:
        urlopen(address, timeout=5).close()
    except HTTPError:
        return True
    except OSError:
        return False
    return True


SEARX = """
general: {{debug: false, instance_name: test}}
search: {{safe_search: 0, autocomplete: "", default_lang: "", formats: [json]}}
server: {{port: {port}, bind_address: 127.0.0.1, secret_key: test, base_url: false, image_proxy: false, method: POST}}
ui: {{static_path: {folder}, templates_path: {folder}, default_theme: oscar, default_locale: "", theme_args: {{}}}}
outgoing: {{request_timeout: 2.0}}
locales: {{en: English}}
doi_resolvers: {{oadoi.org: https://oadoi.org/}}
default_doi_resolver: oadoi.org
engines:
  - name: shelf
    engine: sqlite
    shortcut: sh
    categories: general
    database: {folder}/shelf.db
    query_str: SELECT title, url, content FROM shelf WHERE content LIKE '%' || :query || '%'
"""


@contextmanager
def searx(folder: Path) -> Iterator[str]:
    if not Path(_SEARX).is_dir():
        pytest.skip("Debian's package python3-searx is not installed")
    (folder / "oscar").mkdir()
    with closing(sqlite3.connect(folder / "shelf.db")) as shelf, shelf:
        shelf.execute("CREATE TABLE shelf (title, url, content)")
        for name, depth in (("Baikal", 1642), ("Geneva", 310)):
            text = f"Lake {name} is {depth} metres deep."
            shelf.execute("INSERT INTO shelf VALUES (?, ?, ?)", (name, f"https://{name}.example/".lower(), text))
    port = free_port()
    (folder / "settings.yml").write_text(SEARX.format(folder=folder, port=port))
    settings = {"SEARX_SETTINGS_PATH": str(folder / "settings.yml"), "PYTHONPATH": ""}
    command = [_SYSTEM_PYTHON, "-m", "searx.webapp"]
    with serving(command, f"http://127.0.0.1:{port}/config", folder, **settings):
        yield f"http://127.0.0.1:{port}"


def search(url: str, preset: str, queries: list[str], folder: Path) -> list[Hits]:
    spec = spec_from_yaml({"http": {"preset": preset, "url": url}}, file="f")
    assert isinstance(spec, HttpSpec)
    return WebSource(HttpSearch(spec.http), spec.http, name="web", cache=folder / "c.sqlite").search(queries, 2)


def test_a_pool_is_built_from_searx(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "question": "Baikal"}\n{"id": "2", "question": "nothing like it"}\n')
    with searx(tmp_path) as url:
        (tmp_path / "sources.yaml").write_text(f"web: {{http: {{preset: searxng, url: {json.dumps(url)}}}}}\n")
        words = ("pool", "build", questions, "--sources", "web", "--out", tmp_path / "pools.jsonl")
        done = madke(*words, cwd=tmp_path, MADKE_CACHE=str(tmp_path / "cache"))

    assert done.returncode == 0, done.stderr
    pools = read_pools(tmp_path / "pools.jsonl")
    (passage,) = pools["1"].passages
    assert (passage.title, passage.text) == ("Baikal", "Lake Baikal is 1642 metres deep.")
    assert (passage.url, passage.score) == ("https://baikal.example/", 1.0)
    assert pools["2"].passages == ()
    assert not pools["2"].partial


def test_pyserinis_server_is_a_source(tmp_path: Path) -> None:
    needs("jnius_config", "wiki")
    port = free_port()
    command = [sys.executable, "-m", pyserini_server.__name__, str(tmp_path), str(port)]
    with serving(command, f"http://127.0.0.1:{port}/", tmp_path, PYTHONPATH=os.getcwd()):
        address = f"http://127.0.0.1:{port}/v1/indexes/"
        (hits,) = search(f"{address}{pyserini_server.NAME}", "pyserini", ["Dunmere volcano"], tmp_path)
        (unknown,) = search(f"{address}other", "pyserini", ["Dunmere volcano"], tmp_path)

    best = hits.passages[0]
    assert (best.key, best.title, best.text) == (
        "p3",
        "Dunmere volcano",
        "In Dunmere the volcano lava crater drew visitors.",
    )
    assert best.score > hits.passages[1].score
    assert unknown.error == "HTTP 404"
