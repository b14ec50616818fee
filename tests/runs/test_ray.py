"""Runs whose models are on the nodes of a real Ray cluster: nodes, workers and commands are killed."""

import asyncio
import json
import re
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import madke
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.events import Event, RunProgress
from madke.runs.ray_models import ray_models
from madke.runs.request import RunOptions
from tests.support.chat_requests import chat_request, purpose
from tests.support.cli import madke as command
from tests.support.cli import refused, started
from tests.support.dataset import debating, run_command, write_dataset
from tests.support.installed import needs
from tests.support.openai_server import OpenAIServer, Reply, Seen, chat, openai_server, without_streaming
from tests.support.ray_nodes import another_node, kill, running_cluster, workers
from tests.support.tiny_model import save_tiny_model

needs("ray", "ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@contextmanager
def endpoint(name: str) -> Iterator[OpenAIServer]:
    """A server that tells its name, and kills the worker that asks something deadly."""

    def reply(body: dict[str, Any], n: int) -> Reply:
        if body["messages"][-1]["content"] == "deadly":
            key = node_of(server.requests[n - 1])
            next(each for each in workers() if each.environ()["OPENAI_API_KEY"] == key).kill()
            server.stopping.wait()
        return chat(f"From {name}.")

    with openai_server(reply) as server:
        yield server


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    """A cluster whose head has no CPU, and so no worker, and whose other node stays."""
    with (
        endpoint("home") as server,
        running_cluster(cpus=0) as cluster,
        keyed_node(cluster, "steady", OPENAI_BASE_URL=server.url),
    ):
        yield cluster


@pytest.fixture
def cluster(running: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The cluster that ``--engine ray`` uses."""
    monkeypatch.setenv("RAY_ADDRESS", running.address)
    return running


def keyed_node(cluster: Any, key: str, **environment: str) -> Any:
    """A further node, which calls under a key of its own."""
    return another_node(cluster, env_vars={"OPENAI_API_KEY": key, **environment})


def node_of(seen: Seen) -> str:
    return seen.headers["authorization"].removeprefix("Bearer ")


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.02)


def transcripts(folder: Path) -> dict[str, Any]:
    """By id, without what no two runs have in common; each question once."""
    lines = [json.loads(line) for line in (folder / "transcripts.jsonl").read_text().splitlines()]
    for line in lines:
        del line["checksum"]
        for usage in line["usage"].values():
            del usage["seconds"], usage["retries"]
    assert len({line["id"] for line in lines}) == len(lines)
    return {line["id"]: line for line in lines}


def local(folder: Path, n: int) -> tuple[dict[str, Any], int]:
    """What the local engine makes of so many questions, and with how many calls."""
    with openai_server(debating) as server:
        done = command(*run_command(folder, server.url, n=n, out="local"))
        assert done.returncode == 0, done.stderr
        return transcripts(folder / "local"), len(server.requests)


def test_a_killed_node_loses_its_calls_in_flight_and_nothing_else(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, calls = local(tmp_path, 16)
    questions, pools = write_dataset(tmp_path, 16)
    held: list[str] = []
    before: list[Seen] = []
    killed = threading.Event()

    def reply(body: dict[str, Any], n: int) -> Any:
        if n > 40 and node_of(server.requests[n - 1]) == "doomed":
            held.append(without_streaming(body))
            killed.wait()
        return debating(body)

    def kill_when_only_its_calls_are_left(event: Event) -> None:
        if killed.is_set() or not held or not isinstance(event, RunProgress):
            return
        if event.calls + len(held) == len(server.requests):
            before.extend(server.requests)
            kill(cluster, doomed)
            killed.set()

    capfd.readouterr()
    with keyed_node(cluster, "doomed") as doomed, openai_server(reply) as server:
        options = RunOptions(engine="ray", base_url=server.url, concurrency=8)
        asked: dict[str, Any] = {"model": "openai/m", "pools": pools, "out": tmp_path / "ray"}
        done = madke.run(questions, options=options, listen=kill_when_only_its_calls_are_left, **asked)
        sent = Counter(without_streaming(seen.body) for seen in server.requests)

    assert transcripts(tmp_path / "ray") == expected
    assert {body for body, times in sent.items() if times > 1} == set(held)
    assert (sent.total(), done.meter.calls, done.meter.failed_calls) == (calls + len(held), calls, 0)
    assert "the Ray worker on node" in caplog.text
    assert capfd.readouterr().out == ""
    assert set(map(node_of, before)) == {"steady", "doomed"}
    nodes = defaultdict(set)
    for seen in before:
        (survey,) = set(re.findall(r"survey (\d+)", str(seen.body["messages"])))
        nodes[survey].add(node_of(seen))
    assert {len(each) for each in nodes.values()} == {1}, "a question stays with one server's prefix cache"


@contextmanager
def on_nodes(model: str, *, concurrency: int) -> Iterator[Any]:
    with ray_models({"judge": model}, RunOptions(engine="ray", concurrency=concurrency)) as models:
        yield models["judge"]


def request(text: str) -> ChatRequest:
    made: ChatRequest = chat_request(text, about=purpose(question=text, stage="judge"), max_tokens=9)
    return made


def test_a_call_that_is_lost_twice_fails_and_without_a_worker_the_run_ends_with_one_line(cluster: Any) -> None:
    async def scenario() -> tuple[list[Completion], Completion, Completion]:
        spread = await asyncio.gather(*(model.complete(request(text)) for text in ("one", "two", "three")))
        lost, harmless = [await model.complete(request(text)) for text in ("deadly", "harmless")]
        for worker in workers():
            worker.kill()
        with pytest.raises(UserError, match=r"no worker is left.*run the same command again"):
            await model.complete(request("last"))
        return spread, lost, harmless

    with (
        endpoint("away") as server,
        keyed_node(cluster, "second", OPENAI_BASE_URL=server.url),
        keyed_node(cluster, "third", OPENAI_BASE_URL=server.url),
        on_nodes("openai/m", concurrency=3) as model,
    ):
        spread, lost, harmless = asyncio.run(scenario())

    assert sorted(each.text for each in spread) == ["From away.", "From away.", "From home."]
    assert (lost.outcome, lost.attempts) == ("failed", 2)
    assert "2 Ray workers ended during this call" in lost.error
    assert harmless.outcome == "ok"


def test_local_models_get_a_worker_for_each_gpu(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra madke[dense]")
    save_tiny_model(tmp_path)

    async def calls() -> list[Completion]:
        return await asyncio.gather(*(model.complete(request(str(n))) for n in range(4)))

    # Ray believes in these GPUs; the models find none, and take the CPU.
    with another_node(cluster, num_gpus=2), on_nodes(f"hf/{tmp_path}", concurrency=4) as model:
        assert len(workers()) == 2
        assert [each.outcome for each in asyncio.run(calls())] == ["ok"] * 4
        assert model.name == f"hf/{tmp_path}"


def test_a_run_that_is_stopped_then_killed_leaves_no_process_and_is_resumed_by_either_engine(
    running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = local(tmp_path, 8)
    answered = 15

    def reply(body: dict[str, Any], n: int) -> Reply:
        until(lambda: n <= answered)
        return debating(body, n)

    with openai_server(reply) as server:
        run = run_command(tmp_path, server.url, n=8)
        # A cluster of the run's own.
        with started(*run, "--engine", "ray") as process:
            until(lambda: len(server.requests) > answered)
            processes = psutil.Process(process.pid).children(recursive=True)
            assert any("raylet" in each.name() for each in processes)
            process.send_signal(signal.SIGINT)
            answered = 10_000
            _, stderr = process.communicate()
        assert process.returncode == 130, stderr
        assert "the same command resumes" in stderr
        assert psutil.wait_procs(processes, timeout=60)[1] == []
        finished = {without_streaming(seen.body) for seen in server.requests}

        # Another cluster, which stays.
        monkeypatch.setenv("RAY_ADDRESS", running.address)
        sent = answered = len(server.requests) + 15
        with started(*run, "--engine", "ray") as process:
            until(lambda: len(server.requests) > sent)
            left = workers()
            assert len(left) == 1
            process.kill()
        assert psutil.wait_procs(left, timeout=60)[1] == []
        in_flight = len(server.requests) - sent
        answered = 10_000

        done = command(*run)
        assert done.returncode == 0, done.stderr
        asked = Counter(without_streaming(seen.body) for seen in server.requests)
        assert command(*run, "--engine", "ray", RAY_ADDRESS="nowhere").returncode == 0, "it is finished: no cluster"
    assert transcripts(tmp_path / "out") == expected
    assert {asked[body] for body in finished} == {1}, "every call that was made is used"
    # Replies may have been on their way when the run was killed.
    assert asked.total() <= len(asked) + in_flight + 16


def test_what_cannot_be_on_a_node_is_refused_in_one_line(cluster: Any, tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 1)
    run = ("run", questions, "--pools", pools, "--out", tmp_path / "out", "--engine", "ray", "--model")

    assert "did you mean 'openai'" in refused(*run, "openia/m", RAY_ADDRESS="nowhere")
    assert "a human answers at this terminal" in refused(*run, "human", RAY_ADDRESS="nowhere")
    assert "no answer" in refused(*run, "openai/m", RAY_ADDRESS="127.0.0.1:1", OPENAI_API_KEY="here")
    with another_node(cluster):
        assert "OPENAI_API_KEY is not set" in refused(*run, "openai/m")
    assert not (tmp_path / "out").exists()
