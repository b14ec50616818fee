"""The tools for MCP clients, called by the client of the ``mcp`` package over both transports and protocol eras."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from madke.core.knowledge import Hits
from madke.serve import mcp
from tests.serve.serving import HELLO, MCP_HEADERS, Serving, Shelf, Upstream, serving, stored, wait_for
from tests.support.forked import installed

ROOT = Path(__file__).parents[2]
QUESTION = "Who wrote book 1?"


class Loud(Shelf):
    """A source that prints."""

    def search(self, queries: list[str], k: int) -> list[Hits]:
        print("a plug-in prints this")
        os.system("echo a child of a plug-in prints this")
        return super().search(queries, k)


class Broken(Shelf):
    """A source that cannot be searched, and gives a reason that cannot be sent."""

    name = "broken"
    description = fingerprint = "out of order"

    def search(self, queries: list[str], k: int) -> list[Hits]:
        return [Hits(error="the shelf fell \ud83d down")] * len(queries)


def command(out: Path, upstream: Upstream, *program: str) -> list[str]:
    """The command line that a client starts; by default in a fork, which has done its imports."""
    # Each reply is awaited, so no call waits for another.
    entry = f"{{base_url: '{upstream.server.url}', key: OPENAI_API_KEY, prefix: 'off'}}"
    (out.parent / "models.yaml").write_text(f"m: {entry}\n")
    sources = "shelf=tests.serve.test_mcp:Loud,broken=tests.serve.test_mcp:Broken"
    served = ["serve", "--mcp", "--out", str(out), "-m", "m", "--sources", sources]
    return [*(program or [str(installed())]), *served, "--protocols", "madke,cot", "--set", "judge_asked=always"]


def environment(out: Path) -> dict[str, str]:
    names = ("PATH", "OPENAI_API_KEY", "MADKE_CACHE")
    own = {"PYTHONPATH": str(ROOT), "MADKE_MODELS": str(out.parent / "models.yaml")}
    return {name: os.environ[name] for name in names if name in os.environ} | own


@dataclass
class Door:
    """One way to reach the tools."""

    transport: str
    mode: str
    out: Path
    upstream: Upstream
    server: Serving | None = None
    """Where it is in this process."""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        if self.transport == "stdio":
            program, *args = command(self.out, self.upstream)
            with (self.out.parent / "stderr").open("w") as log:
                parameters = StdioServerParameters(command=program, args=args, env=environment(self.out), cwd=ROOT)
                async with Client(stdio_client(parameters, errlog=log), mode=self.mode) as client:
                    yield client
            return
        sources = {"shelf": Shelf(), "broken": Broken()}
        with serving(self.out, self.upstream, sources=sources, protocols=("madke", "cot")) as self.server:
            async with Client(f"{self.server.url}/mcp", mode=self.mode) as client:
                yield client

    async def cancelled(self, client: Client) -> None:
        """Wait until the server knows of a cancellation."""
        await client.list_tools()  # messages of a pipe are read in their order
        while self.server and self.server.debates.running:
            await asyncio.sleep(0.01)

    def use(self, test: Callable[[Client], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), self.client() as client:
                await test(client)

        asyncio.run(main())


@pytest.fixture
def door(request: pytest.FixtureRequest, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Door:
    caplog.set_level("CRITICAL")  # pytest's processes cannot send each other the reason of Broken
    transport, mode = getattr(request, "param", "http auto").split()
    return Door(transport, mode, tmp_path / "out", upstream)


every_door = pytest.mark.parametrize("door", ["http auto", "http legacy", "stdio auto"], indirect=True)
"""HTTP and stdio, in the protocol of 2026 and in those that begin with a handshake."""


@dataclass
class Progress:
    """The progress notifications of a call, and how many upstream calls had begun by then."""

    upstream: Upstream
    lines: list[str] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert progress == len(self.lines) + 1
        self.lines.append(message or "")
        self.begun.append(len(self.upstream.began))


def reason(result: Any) -> str:
    """The one sentence of a tool error."""
    assert result.is_error
    assert result.structured_content is None
    (block,) = result.content
    return str(block.text)


async def transcript_at(address: str) -> str:
    if address.startswith("http"):
        async with httpx2.AsyncClient() as http:
            return (await http.get(address)).raise_for_status().text
    return await asyncio.to_thread(Path(urlsplit(address).path).read_text)


@every_door
def test_a_debate_with_its_progress_citations_and_transcript(door: Door) -> None:
    door.upstream.rounds, door.upstream.seconds = 2, 0.1
    progress = Progress(door.upstream)

    async def ask(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"debate", "search"}
        description = tools["debate"].description or ""
        assert "Protocols: madke, cot" in description
        assert "Sources: shelf, broken" in description
        result = await client.call_tool("debate", {"question": QUESTION}, progress_callback=progress)
        assert not result.is_error
        found = result.structured_content
        assert json.loads(result.content[0].text) == found  # type: ignore[union-attr]
        assert (found["answer"], found["status"], found["rounds"]) == ("Author 1", "answered", 2)
        (cited,) = found["citations"]
        assert cited == {"number": 0, "title": "A book", "address": f"{found['transcript']}#0"}
        assert found["failed"] == ["source broken: the shelf fell ? down"]
        agreement = found["agreement"]
        assert (agreement["outcome"], agreement["by"], agreement["cited"]) == ("consensus", "judge", [0])
        assert QUESTION in await transcript_at(found["transcript"])
        again = await client.call_tool("debate", {"question": QUESTION, "protocol": "cot", "sources": []})
        assert again.structured_content["answer"] == "Author 1"
        assert again.structured_content["citations"] == []

    door.use(ask)
    turns = [f"round {n}, Debater {d}: Author 1" for n in (1, 2) for d in (1, 2)]
    assert progress.lines[0] == "2 passages found; broken failed"
    assert sorted(progress.lines[1:3] + progress.lines[4:6]) == turns
    assert progress.lines[3::3] == ["round 1, judge: the debaters do not agree", "round 2, judge: the debaters agree"]
    assert progress.begun[2] <= 5, "the turns of round 1 are told before the calls of round 2"
    assert progress.begun[5] <= 10, "the turns of round 2 are told before the summarizer's call"
    assert len(door.upstream.began) == 12, "11 for the first question, 1 for the second"


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("debate", {"question": QUESTION, "protocol": "madk"}, "unknown protocol 'madk'; did you mean 'madke'? known"),
    ("debate", {"question": QUESTION, "sources": ["shelv"]}, "unknown source 'shelv'; did you mean 'shelf'? known"),
    ("debate", {"question": QUESTION, "sources": ["x=/etc/hosts"]}, "unknown source 'x=/etc/hosts'; known"),
    ("debate", {"question": QUESTION, "sources": ["x=os:listdir"]}, "unknown source 'x=os:listdir'; known"),
    ("search", {"query": "books", "k": 51}, "less than or equal to 50"),
    ("search", {"query": "books", "sources": ["broken"]}, "broken: the shelf fell ? down"),
]


def test_a_search_and_mistakes_that_are_tool_errors_in_one_sentence(door: Door) -> None:
    async def ask(client: Client) -> None:
        result = await client.call_tool("search", {"query": "books", "k": 1})
        found = result.structured_content
        assert found["failed"] == {"broken": "the shelf fell ? down"}
        assert found["passages"] == [
            {"title": "A book", "text": "It has an author. Author 1 wrote it.", "address": None, "source": "shelf"}
        ]
        both = await client.call_tool("search", {"query": "books", "sources": ["shelf"]})
        assert [each["address"] for each in both.structured_content["passages"]] == [None, "https://example.org/b"]
        for tool, arguments, sentence in MISTAKES:
            assert sentence in reason(await client.call_tool(tool, arguments))

    door.use(ask)
    assert door.upstream.calls == []
    assert not any(door.out.glob("madke-*")), "a search belongs to no run"


@every_door
def test_a_cancelled_call_ends_its_debate_and_pays_nothing_twice(door: Door) -> None:
    async def ask(client: Client) -> None:
        with door.upstream.holding("debater"):
            call = asyncio.create_task(client.call_tool("debate", {"question": QUESTION}))
            while len(door.upstream.began) < 4:
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.wait([call])
            await door.cancelled(client)
        while stored(door.out) < 4:
            await asyncio.sleep(0.01)
        assert len(door.upstream.began) == 4, "no call starts after the cancellation"
        result = await client.call_tool("debate", {"question": QUESTION})
        assert result.structured_content["answer"] == "Author 1"
        assert len(door.upstream.calls) == len({*door.upstream.calls}) == 6

    door.use(ask)


def test_sessions_are_bounded_for_each_key(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp, "MAX_SESSIONS", 3)
    with serving(tmp_path, upstream, keys=["one", "two"]) as server:
        sessions = [server.mcp_session("one") for _ in range(6)]
        assert [status for status, _ in sessions] == [200] * 3 + [503] * 3
        status, other = server.mcp_session("two")
        assert status == 200, "one key cannot take the sessions of all"
        delete = {**MCP_HEADERS, "authorization": "Bearer one", "mcp-session-id": other}
        assert httpx2.delete(f"{server.url}/mcp", headers=delete).status_code == 404, "nor use those of another"
        delete["mcp-session-id"] = sessions[0][1]
        assert httpx2.delete(f"{server.url}/mcp", headers=delete).status_code == 200
        assert server.mcp_session("one")[0] == 200
    assert not [each for each in caplog.records if each.levelname == "WARNING"], "clients cannot fill the log"


@pytest.mark.slow
def test_output_holds_messages_only_and_the_end_of_input_ends_a_debate(upstream: Upstream, tmp_path: Path) -> None:
    """As a client starts ``madke serve --mcp``, with standard output and the end of input seen from outside."""
    arguments = command(tmp_path / "out", upstream, sys.executable, "-m", "madke", "-v")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(arguments, text=True, env=environment(tmp_path / "out"), cwd=ROOT, **pipes) as running:

        def send(**message: Any) -> None:
            running.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            running.stdin.flush()

        def debate(id_: int, question: str) -> None:
            call = {"name": "debate", "arguments": {"question": question}, "_meta": {"progressToken": id_}}
            send(id=id_, method="tools/call", params=call)

        send(id=0, method="initialize", params=HELLO)
        assert json.loads(running.stdout.readline())["result"]["serverInfo"]["name"] == "madke"
        send(method="notifications/initialized")
        debate(1, QUESTION)
        messages: list[dict[str, Any]] = []
        while not messages or "id" not in messages[-1]:
            messages.append(json.loads(running.stdout.readline()))
        upstream.seconds = 0.5
        debate(2, "Who wrote book 2?")
        wait_for(lambda: len(upstream.began) == 6 + 2)
        rest, log = running.communicate(timeout=20)  # closes the client's end
    assert running.returncode == 0
    assert len(upstream.began) == 8, "no call starts after the client has gone"
    assert stored(tmp_path / "out") == 8, "calls under way finish and are stored"
    assert [message.get("method") for message in messages] == ["notifications/progress"] * 4 + [None]
    assert messages[-1]["result"]["structuredContent"]["answer"] == "Author 1"
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert "a plug-in prints this" in log
    assert "a child of a plug-in prints this" in log
    assert "Traceback" not in log
    assert "upstream-key" not in log + json.dumps(messages)


def test_idle_sessions_end(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MAX_SESSIONS", 1)
    monkeypatch.setattr(mcp, "IDLE_SECONDS", 0.3)
    with serving(tmp_path, upstream) as server:
        _, session = server.mcp_session()
        wait_for(lambda: server.mcp_session()[0] == 200, seconds=10)
        gone = httpx2.get(f"{server.url}/mcp", headers={**MCP_HEADERS, "mcp-session-id": session})
        assert gone.status_code == 404
