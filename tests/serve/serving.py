"""A server in this process, before a loopback model endpoint that counts its calls and takes its time."""

import asyncio
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx2
import openai

from madke.core.knowledge import Hits, Passage
from madke.models.limiter import Limits
from madke.models.store import CallStore
from madke.runs.request import RunOptions, RunRequest
from madke.serve.debates import Debates
from madke.serve.offers import ServeOptions
from madke.serve.server import Server, create_app, listening_socket
from tests.support.dataset import fields_asked
from tests.support.forked import installed
from tests.support.openai_server import USAGE, OpenAIServer, Reply, chat, error, openai_server

JUDGED = {"judge_asked": "always"}
"""Settings of protocols with a judge: it is asked also where all answers are the same."""

ANSWERS = {f"Who wrote book {n}?": f"Author {n}" for n in range(20)}


@dataclass
class Upstream:
    """The model endpoint: debaters who agree in round ``rounds``, and give the answer of :data:`ANSWERS`."""

    seconds: float = 0.0
    rounds: int = 1
    began: list[tuple[float, str]] = field(default_factory=list)
    """When each call arrived, and what it was for."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Stages whose calls are refused."""
    server: OpenAIServer = field(init=False)

    def __call__(self, body: dict[str, Any], n: int) -> Reply:
        stage = stage_of(body)
        self.began.append((time.monotonic(), stage))
        time.sleep(self.seconds)
        if held := self.held.get(stage):
            assert held.wait(60)
        if stage in self.broken:
            return error(400, "the model is broken")
        prompt = "\n".join(message["content"] for message in body["messages"])
        answer = next((answer for question, answer in ANSWERS.items() if question in prompt), "Baikal")
        agreed = sum(stage == "judge" for _, stage in self.began) % self.rounds == 0
        verdict = "SAME" if agreed else "DIFFERENT"
        if "response_format" in body:
            values = {"reasoning": "I know that.", "selected": [0], "verdict": verdict, "answer": answer}
            text = json.dumps({name: values[name] for name in fields_asked(body)})
            return streamed(text) if body.get("stream") else chat(text)
        if stage == "judge":
            return chat(f"They say so. Verdict: [{verdict}]")
        said = {"select": "The first. Selected: [0]", "condense": "Who wrote book 3?", "plain": "A title"}
        text = said.get(stage, f"I know that. The answer is [{answer}].")
        return streamed(text) if body.get("stream") else chat(text)

    @contextmanager
    def holding(self, stage: str) -> Iterator[None]:
        """Calls of this stage are answered after the block."""
        self.held[stage] = threading.Event()
        try:
            yield
        finally:
            self.held.pop(stage).set()

    @property
    def calls(self) -> list[str]:
        """Each call as text."""
        kept = ("messages", "seed", "model", "temperature", "max_tokens")
        return [json.dumps({name: seen.body.get(name) for name in kept}) for seen in self.server.requests]

    @property
    def stages(self) -> list[str]:
        return [stage_of(seen.body) for seen in self.server.requests]


def stage_of(body: Mapping[str, Any]) -> str:
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if system.startswith("You rewrite"):
        return "condense"
    if "Do not answer yet" in last:
        return "select"
    if system.startswith("You are the judge"):
        return "judge"
    if system.startswith("You are the summarizer"):
        return "summarize"
    return "debater" if 'begins with "The answer is"' in last or "complete this sentence" in last.lower() else "plain"


def streamed(text: str) -> Reply:
    """The reply as a stream, some characters at a time."""

    def chunk(delta: dict[str, str], end: str | None = None) -> str:
        return json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

    parts = [chunk({"content": text[start : start + 12]}) for start in range(0, len(text), 12)]
    events = [*parts, chunk({}, "stop"), json.dumps({"id": "c", "choices": [], "usage": USAGE}), "[DONE]"]
    return 200, {"Content-Type": "text/event-stream"}, (f"data: {event}\n\n".encode() for event in events)


class Shelf:
    """A source with two passages, one of them with an address."""

    name = "shelf"
    description = "two passages"
    fingerprint = "1"

    def __init__(self) -> None:
        self.queries: list[str] = []

    def search(self, queries: list[str], k: int) -> list[Hits]:
        self.queries += queries
        own: dict[str, Any] = {"source": "shelf", "score": 1.0}
        first = Passage(key="a", title="A book", text="It has an author. Author 1 wrote it.", rank=0, **own)
        second = Passage(key="b", title="B", text="Another.", rank=1, url="https://example.org/b", **own)
        return [Hits(passages=(first, second))] * len(queries)


@dataclass
class Serving:
    """A server that runs."""

    url: str
    debates: Debates
    server: Server
    thread: threading.Thread
    loop: asyncio.AbstractEventLoop
    clients: list[Any] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    def client(self, **options: Any) -> Any:
        http = openai.DefaultHttpxClient(verify=False)  # certificates take a while to load
        given = {"api_key": "none", "max_retries": 0, "http_client": http, **options}
        client = openai.OpenAI(base_url=f"{self.url}/v1", **given)
        self.clients.append(client)
        return client

    def answer(self, question: Any, model: str = "madke", *, key: str = "none", **fields: Any) -> Any:
        """The completion for a question, or for all messages of a conversation."""
        messages = question if isinstance(question, list) else [{"role": "user", "content": question}]
        return self.client(api_key=key).chat.completions.create(model=model, messages=messages, **fields)

    def text(self, question: Any, model: str = "madke", **fields: Any) -> str:
        return str(self.answer(question, model, **fields).choices[0].message.content)

    def get(self, address: str, **headers: str) -> Any:
        """The response to a GET request, of a path or of a whole address."""
        return httpx2.get(address if "://" in address else self.url + address, headers=headers)

    def raw(self, request: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sendall(request)
        return connection

    def ask(self, question: str, **fields: Any) -> socket.socket:
        """Send a request for an answer and leave the connection open."""
        return self.raw(post(body_of(question, **fields)))

    @property
    def is_idle(self) -> bool:
        """Whether no request holds a place, and no call of a client that has gone is under way."""
        return not (self.debates.turns or self.debates.running or self.debates.offers.shared.landing)

    def mcp_session(self, key: str = "none") -> tuple[int, str]:
        """Status and session of an MCP client's handshake."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        headers = {**MCP_HEADERS, "authorization": f"Bearer {key}"}
        answer = httpx2.post(f"{self.url}/mcp", json=body, headers=headers)
        return answer.status_code, answer.headers.get("mcp-session-id", "")

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.server.drain)
        self.thread.join(40)
        assert not self.thread.is_alive()


def body_of(question: str, **fields: Any) -> dict[str, Any]:
    return {"model": "madke", "messages": [{"role": "user", "content": question}], **fields}


def response(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the response to a raw request."""
    with connection, HTTPResponse(connection) as answer:
        answer.begin()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def post(body: Mapping[str, Any] | bytes, path: str = "/v1/chat/completions", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"host": "localhost", "content-type": "application/json", "content-length": str(len(content)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content


MCP_HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "host": "localhost",
}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
"""The parameters with which an MCP client opens a session."""


@contextmanager
def serving(
    out: Path,
    upstream: Upstream | str | None,
    *,
    run: Mapping[str, Any] | None = None,
    keys: Sequence[str] = (),
    host: str = "127.0.0.1",
    grace: float = 20.0,
    sources: Any = "none",
    protocols: tuple[str, ...] = ("madke",),
    **options: Any,
) -> Iterator[Serving]:
    """Serve for the length of the block, on a free port."""
    base_url = upstream.server.url if isinstance(upstream, Upstream) else upstream
    judged = JUDGED if "madke" in protocols else {}
    served = ServeOptions(
        out=out,
        protocols=protocols,
        request=RunRequest(model="openai/m", sources=sources, settings=judged, **options.pop("settings", {})),
        run=RunOptions(base_url=base_url, **(run or {})),
        **options,
    )
    debates = Debates(served)
    # The tests count the calls under way, so none waits for another.
    limits = Limits(served.run.concurrency)
    limits.prefixes_of = lambda model: None  # type: ignore[method-assign]
    debates.offers.shared = replace(debates.offers.shared, limits=limits)
    server = Server(create_app(debates, keys, host), debates, grace=grace)
    listening = listening_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    loops: list[asyncio.AbstractEventLoop] = []

    async def until_stopped() -> None:
        loops.append(asyncio.get_running_loop())
        async with debates:
            await server.serve([listening])

    thread = threading.Thread(target=lambda: asyncio.run(until_stopped()), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    running = Serving(url=url, debates=debates, server=server, thread=thread, loop=loops[0])
    try:
        yield running
    finally:
        for client in running.clients:
            client.close()
        if thread.is_alive():
            running.stop()


@contextmanager
def process(out: Path, url: str, *args: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """``madke serve`` as a process, and a client of it."""
    command = [str(installed()), "serve", "--out", str(out), "--port", "0", "-m", "openai/m"]
    command += ["--base-url", url, "--sources", "none", "--protocols", "madke", "--set", "judge_asked=always", *args]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        line = running.stderr.readline()
        assert line.startswith("madke: serving "), line
        with openai.OpenAI(base_url=line.split(" at ")[1].strip(), api_key="none", max_retries=0) as client:
            try:
                yield running, client
            finally:
                running.kill()


@contextmanager
def endpoint(**options: Any) -> Iterator[Upstream]:
    """A model endpoint for the length of the block."""
    upstream = Upstream(**options)
    with openai_server(upstream) as server:
        upstream.server = server
        yield upstream


def stored(out: Path) -> int:
    """The number of calls in the stores that can answer."""
    total = 0
    for path in out.glob("*/calls.sqlite"):
        with CallStore(path) as store:
            total += sum(each.completion.outcome == "ok" for each in store.calls())
    return total


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
