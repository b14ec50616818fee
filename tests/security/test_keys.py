"""Keys turn up in no file, output, log, traceback, report or process title, whatever servers do with them."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import CallError
from madke.models.chat_models import close
from madke.models.openai_client import AzureChat, OpenAIChat
from tests.support.canary import NAMES, leaks, run
from tests.support.chat_requests import chat_request
from tests.support.cli import madke
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import chat, error, openai_server
from tests.support.search_server import Reply, SearchServer, Seen

PLAIN = {name: f"sk-canary-{name.lower()}-{n}718281828459" for n, name in enumerate(NAMES)}
UNUSUAL = {name: f"{name[:3]}+Zq8/x=='\"%&<{n}>\\y.q{n}5772156649\n" for n, name in enumerate(NAMES)}
"""Keys that are written otherwise in addresses, JSON and HTML, each read from a file with its line end."""

SECRET = "gateway-token-271828182845904"
"""As part of an endpoint's path."""


def arguments(folder: Any, url: Any, *more: Any, n: int = 2) -> Any:
    questions, pools = write_dataset(folder, n)
    command = ("run", questions, "--pools", pools, "--model", "openai/m", "--out", folder / "out", *more)
    return (*command, "--base-url", url) if url else command


def assert_no_leak(folder: Any, ended: Any, keys: Any) -> None:
    found = leaks(folder, ended, keys)
    assert not found, "\n".join(found)


def said(content: Any) -> Any:
    """Faults and replies that repeat what the client sent, as real servers' do."""
    page = f"<html><title>502</title><body>{content}</body></html>"
    return [
        chat(f"[Yes] the answer is [{content}] [0]", reasoning_content=content),
        chat(None, refusal=f"I refuse {content}"),
        error(401, f"Incorrect API key provided: {content}. You can find your key at https://platform.example/keys."),
        (400, {"Content-Type": "text/html"}, page),
        (404, {"X-Echo": json.dumps(content)[1:-1]}, {"detail": content}),
        (400, {}, content),
        error(400, f"filtered {content}", code="content_filter"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [PLAIN, UNUSUAL], ids=["plain", "unusual"])
def test_a_run_whose_server_repeats_keys_and_headers_and_has_a_secret_in_its_path(tmp_path: Path, keys: Any) -> None:
    def answer(body: Any, n: Any) -> Any:
        sent = server.requests[-1].headers["authorization"]
        faults = [*said(sent), *said(sent.removeprefix("Bearer "))]
        return faults[n // 2 % len(faults)] if n % 2 else debating(body, n)

    with openai_server(answer) as server:
        secrets = {**keys, "OPENAI_BASE_URL": server.url.replace("/v1", f"/{SECRET}/v1")}
        done = run(*arguments(tmp_path, None, n=6), folder=tmp_path, keys=secrets)
        assert server.requests[0].path == f"/{SECRET}/v1/chat/completions"
        assert server.requests[0].headers["authorization"] == f"Bearer {keys['OPENAI_API_KEY'].strip()}"
        again = run(*arguments(tmp_path, None, "--replay", n=6), folder=tmp_path, keys=secrets)
    assert done.status == 1, done.err[-2000:]
    assert (tmp_path / "out" / "report.html").exists()
    for ended in (done, again):
        assert_no_leak(tmp_path, ended, {**keys, "PATH": SECRET})


def test_a_redirect_to_another_host_does_not_get_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in PLAIN.items():
        monkeypatch.setenv(name, key)

    async def complete(*models: OpenAIChat) -> None:
        for model in models:
            with suppress(CallError):
                await model.complete(chat_request())
            await close(model)

    with openai_server(chat()) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        with openai_server((307, {"Location": f"{elsewhere}/chat/completions"}, {})) as server:
            by_httpx = OpenAIChat("m", base_url=server.url, transport="httpx")
            asyncio.run(complete(OpenAIChat("m", base_url=server.url), by_httpx, AzureChat("m", endpoint=server.url)))
    assert len(server.requests) == 3
    assert all(any(key in str(seen.headers) for key in PLAIN.values()) for seen in server.requests)
    assert other.requests == []


@pytest.mark.slow
def test_doctor(tmp_path: Path) -> None:
    sources = tmp_path / "sources.yaml"
    sources.write_text("wiki: {http: {preset: serper}}\ngoogle: {http: {preset: serper, body: {gl: us}}}\n")
    key = PLAIN["OPENAI_API_KEY"]
    # In a third of the time.
    without = "import sys; sys.modules.update(dict.fromkeys(('torch', 'jnius', 'ray', 'sentence_transformers')))"
    with openai_server(chat()) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        keys = {**PLAIN, "MADKE_SOURCES": str(sources), "OPENAI_BASE_URL": f"http://user:{key}@{host}/v1?api_key={key}"}
        done = run("doctor", folder=tmp_path, keys=keys, prelude=without)
    assert "answers with status" in done.out
    assert_no_leak(tmp_path, done, PLAIN)


@pytest.mark.slow
def test_searching_the_web(tmp_path: Path) -> None:
    """With services that repeat the key in their errors."""

    def search(body: Any, n: int) -> Any:
        sent = web.requests[-1].headers["x-api-key"]
        hit = {"title": "Lakes", "snippet": "Baikal is deep.", "link": "https://l.example"}
        found = {"organic": [hit], "credits": 1}
        return [(400, {}, {"message": f"bad key {sent}"}), (200, {}, found), (403, {}, f"<p>{sent}</p>")][n % 3]

    def repeat(seen: Seen, before: int) -> Reply:
        return (500, 404, 401)[before % 3], {}, json.dumps(seen.headers).encode()

    questions, _ = write_dataset(tmp_path, 6)
    with openai_server(search) as web, SearchServer(repeat).running() as own:
        headers = "headers: {X-Key: '${HF_TOKEN}'}, params: {token: '${HF_TOKEN}'}"
        (tmp_path / "search.yaml").write_text(f"own: {{http: {{preset: searxng, url: '{own.url}', {headers}}}}}\n")
        keys = {**PLAIN, "SERPER_BASE_URL": web.url, "MADKE_SOURCES": str(tmp_path / "search.yaml")}
        words = ("pool", "build", questions, "--sources", "google=serper,own", "--out", tmp_path / "built.jsonl")
        built = run(*words, folder=tmp_path, keys=keys)
        assert {seen.headers["x-api-key"] for seen in web.requests} == {PLAIN["SERPER_API_KEY"]}
        assert {(seen.headers["x-key"], seen.params["token"]) for seen in own.requests} == {(PLAIN["HF_TOKEN"],) * 2}
    assert "HF_TOKEN was rejected" in (tmp_path / "built.jsonl").read_text(), built.err[-2000:]
    assert_no_leak(tmp_path, built, PLAIN)


@pytest.mark.slow
def test_what_is_made_of_a_run_afterwards(tmp_path: Path) -> None:
    key = PLAIN["OPENAI_API_KEY"]

    def answer(body: Any, n: Any) -> Any:
        prompt = json.dumps(body)
        if "[True]" in prompt:
            return error(401, f"Incorrect API key provided: {key}")
        return debating(body, n)

    with openai_server(answer) as server:
        assert madke(*arguments(tmp_path, server.url), OPENAI_API_KEY=key).returncode == 0
        commands = [
            ("score", tmp_path / "out", "--grader", "openai/m", "--base-url", server.url),
            ("report", tmp_path / "out", "--out", tmp_path / "again.html"),
        ]
        for command in commands:
            done = run(*command, folder=tmp_path, keys=PLAIN)
            assert done.status in (0, 1, 2), (command, done.err[-2000:])
            assert_no_leak(tmp_path, done, PLAIN)
