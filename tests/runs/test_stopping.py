"""A run that ends before its questions do: limits, deadlines, signals, an endpoint that fails everything."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from madke.core.chat import Completion
from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.core.question import Question
from madke.models.limiter import Limits
from madke.runs.directory import RunDirectory, read_transcripts
from madke.runs.meter import Meter, seconds_until
from madke.runs.request import RunRequest
from madke.runs.runner import drain_calls, own_pools, until_limit, until_stopped
from madke.runs.spec import resolve
from tests.support.chat_requests import chat_request
from tests.support.cli import madke, started
from tests.support.dataset import debating, run_command
from tests.support.openai_server import error, openai_server
from tests.support.pipelines import limited

TOKENS_EACH = 25
"""Of one call to the loopback server."""


def sessions(folder: Any) -> Any:
    return json.loads((folder / "out" / "run.json").read_text())["sessions"]


def unfinished(folder: Any) -> Any:
    path = folder / "out" / "unfinished.jsonl"
    return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []


def finished(folder: Any) -> Any:
    return {transcript.id for transcript in read_transcripts(folder / "out")}


def repeated(server: Any) -> Any:
    """Calls that the server got more than once: each has a seed of its own."""
    sent = Counter((seen.body["seed"], seen.body["messages"][-1]["content"]) for seen in server.requests)
    return [call for call, times in sent.items() if times > 1]


def test_a_token_budget_ends_the_run_scored_listed_and_resumable(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        args = run_command(tmp_path, server.url, "--concurrency", "1")
        done = madke(*args, "--token-budget", 10 * TOKENS_EACH)
        assert done.returncode == 1, done.stderr
        assert (
            "tokens used; 4 questions are unfinished; the same command with a higher --token-budget resumes"
            in done.stderr
        )
        # A question takes 6 or 11 calls: the second one begins with some of ten left, and is finished.
        assert len(finished(tmp_path)) == 2
        assert set(unfinished(tmp_path)) == {f"q{n}" for n in range(6)} - finished(tmp_path)
        assert json.loads((tmp_path / "out" / "metrics.json").read_text())["transcripts"] == 2
        used = len(server.requests)

        again = madke(*args, "--token-budget", 10 * TOKENS_EACH)
        assert (again.returncode, len(server.requests)) == (1, used), "what was used before counts"
        assert madke(*args).returncode == 0
    assert finished(tmp_path) == {f"q{n}" for n in range(6)}
    assert unfinished(tmp_path) == []
    first, *_, last = sessions(tmp_path)
    assert (first["ended"], first["questions"], first["left_over"]) == ("--token-budget", 2, 4)
    assert first["prompt_tokens"] + first["completion_tokens"] == used * TOKENS_EACH
    assert (last["ended"], last["questions"], last["left_over"]) == ("finished", 4, 0)
    assert last["concurrency"]["lowest"] >= 1


@pytest.mark.slow
def test_a_call_that_is_under_way_at_the_deadline_is_stored(tmp_path: Path) -> None:
    stopping = threading.Event()

    def slow(body: Any, n: Any) -> Any:
        stopping.wait(60)
        return debating(body, n)

    with openai_server(slow) as server:
        args = run_command(tmp_path, server.url, "--concurrency", "2")
        with started(*args, "--deadline", "8s") as process:
            assert any("stopping" in line for line in process.stderr)
            under_way = len(server.requests)
            stopping.set()
            _, complaint = process.communicate(timeout=30)
        assert process.returncode == 1
        assert "--deadline is reached; 6 questions are unfinished; the same command resumes" in complaint
        assert len(server.requests) == under_way, "no call began after the deadline"
        assert len(unfinished(tmp_path)) == 6
        assert madke(*args).returncode == 0
        assert not repeated(server)
    assert finished(tmp_path) == {f"q{n}" for n in range(6)}
    assert [session["ended"] for session in sessions(tmp_path)] == ["--deadline", "finished"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_waits_for_calls_under_way_and_loses_none(tmp_path: Path, number: Any, status: int) -> None:
    reached = threading.Event()
    held = threading.Event()

    def slow(body: Any, n: Any) -> Any:
        if n == 10:
            reached.set()
            held.wait(20)
        return debating(body, n)

    with openai_server(slow) as server:
        args = run_command(tmp_path, server.url, "--concurrency", "1")
        with started(*args) as process:
            assert reached.wait(60)
            process.send_signal(number)
            assert "stopping; waiting for 1 call in flight" in next(
                line for line in process.stderr if "stopping" in line
            )
            held.set()
            _, complaint = process.communicate(timeout=30)
        assert process.returncode == status
        assert "the same command resumes" in complaint
        assert "Traceback" not in complaint
        assert re.search(r"questions: \d/6, [^,]* calls/s$", complaint, re.MULTILINE), "the last counts"
        assert madke(*args).returncode == 0
        assert not repeated(server)
    assert sessions(tmp_path)[0]["ended"] == "interrupted"


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    reached = threading.Event()

    def hanging(body: Any, n: Any) -> Any:
        if n >= 10:
            reached.set()
            server.stopping.wait(60)
        return debating(body, n)

    with openai_server(hanging) as server, started(*run_command(tmp_path, server.url)) as process:
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        next(line for line in process.stderr if "stopping" in line)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in complaint


def test_an_endpoint_that_fails_every_call_ends_the_run(tmp_path: Path) -> None:
    def revoked(body: Any, n: Any) -> Any:
        return debating(body, n) if n <= 12 else error(401, "the key is revoked")

    with openai_server(revoked) as server:
        done = madke(*run_command(tmp_path, server.url, "--concurrency", "2", n=40))
        sent = len(server.requests)
    assert done.returncode == 1
    assert re.search(r"stopped: the last 20 calls of openai/m all failed: HTTP 401: the key is revoked", done.stderr)
    assert sent < 12 + 20 + 2 * 2 * 2, "what was under way, and nothing more"
    assert len(unfinished(tmp_path)) > 20
    assert sessions(tmp_path)[0]["left_over"] == len(unfinished(tmp_path))


def test_a_finished_run_asks_nobody_and_writes_nothing_anew(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        args = run_command(tmp_path, server.url)
        first = madke(*args)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if "sqlite" not in path.name}
    again = madke(*args)  # the server is gone
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in before} == before
    (tmp_path / "out" / "metrics.json").write_text("{}")
    assert madke(*args).stdout == first.stdout
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["transcripts"] == 6


NOW = datetime(2026, 11, 21, 22, 30, tzinfo=ZoneInfo("Europe/Zurich"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("0.5h", 1800),
        ("23:00", 1800),
        ("6:30", 8 * 3600),
        ("2026-11-22T22:30", 86400),
        ("2026-11-21T21:31:00+00:00", 60),
    ],
)
def test_deadlines_as_people_write_them(text: str, seconds: Any) -> None:
    assert seconds_until(text, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "0s", "25:00", "2020-01-01T00:00", "-5m", "1h 5m"])
def test_what_is_no_deadline_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--deadline"):
        seconds_until(text, NOW)


class _Answering:
    """Answers once it is free."""

    name = "m"

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def complete(self, request: Any) -> Any:
        await self.free.wait()
        return Completion(text="[Oslo]")


def test_an_error_in_one_debate_waits_for_the_calls_of_the_others(tmp_path: Path) -> None:
    """What they said is paid for: it is stored before the error ends them."""
    model, limits, said = _Answering(), Limits(4), []
    piped = limited(model, limits.of(model))

    async def play(number: int) -> None:
        if number == 3:
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, model.free.set)
            raise UserError("the pool file was changed")
        said.append((await piped.complete(chat_request())).text)
        await asyncio.Event().wait()  # for a call that no longer begins

    async def run() -> None:
        meter = Meter(total=4)
        drain = partial(drain_calls, limits)
        batch = until_limit(meter, range(4), play, workers=4, drain=drain)
        with pytest.raises(UserError, match="changed"):
            await until_stopped(batch, drain, seconds=None)
        assert meter.ended == "an error"

    asyncio.run(run())
    assert said == ["[Oslo]"] * 3


def test_a_replay_of_a_stopped_run_makes_no_failures_of_what_was_left(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        args = run_command(tmp_path, server.url, "--concurrency", "1")
        assert madke(*args, "--token-budget", 10 * TOKENS_EACH).returncode == 1
    left = unfinished(tmp_path)
    replayed = madke(*args, "--replay")
    assert replayed.returncode == 1
    assert "4 questions are unfinished; the command without --replay resumes" in replayed.stderr
    assert {t.status for t in read_transcripts(tmp_path / "out")} == {"ok"}
    assert (len(finished(tmp_path)), unfinished(tmp_path)) == (2, left)


class Interrupted:
    """A source that answers one batch of questions, then meets Ctrl-C."""

    name, description = "wiki", "a list"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def search(self, queries: Any, k: Any) -> Any:
        self.asked += queries
        if len(self.asked) > len(queries):
            raise KeyboardInterrupt
        return [Hits() for _ in queries]


def test_a_run_that_was_stopped_while_it_retrieved_goes_on_where_it_was(tmp_path: Path) -> None:
    questions = [Question(id=str(n), question=f"Question {n}?", answers=("a",)) for n in range(501)]
    out = tmp_path / "out"

    def retrieve(source: Any) -> None:
        with RunDirectory(out) as directory:
            spec = resolve(RunRequest(questions=questions, sources=[source]))
            asyncio.run(own_pools(spec, directory, replay=False))

    with pytest.raises(KeyboardInterrupt):
        retrieve(Interrupted())
    again = Interrupted()
    retrieve(again)
    assert again.asked == ["Question 500?"]
    assert [path.name for path in out.iterdir() if path.name != "lock"] == ["pools.jsonl"]


SLOW_SOURCE = """
from time import sleep
from madke import Hits, Passage
class Slow:
    name = description = fingerprint = "slow"
    def search(self, queries, k):
        found = []
        for query in queries:
            print("searching", flush=True)
            sleep(0 if query.startswith("Quick") else 60)
            found.append(Hits(passages=(Passage(source="slow", key=query, title=query, text=query, score=1, rank=0),)))
        return found
source = Slow()
"""


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_slow_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was searched before is kept, and nothing of the search that was left."""
    (tmp_path / "slow_source.py").write_text(SLOW_SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    questions, out = tmp_path / "questions.jsonl", tmp_path / "out"
    quick = [json.dumps({"id": f"q{n}", "question": f"Quick {n}?", "golden_answers": ["a"]}) for n in range(500)]
    slow = json.dumps({"id": "slow", "question": "Slow?", "golden_answers": ["a"]})
    questions.write_text("\n".join([*quick, slow]))
    out.mkdir()
    (tmp_path / "replies.yaml").write_text("- reply: The answer is [a].")
    model = ("--model", f"scripted/{tmp_path / 'replies.yaml'}")
    command = ("run", questions, "--protocol", "rag", *model, "--sources", "slow=slow_source:source", "--out", out)
    with started(*command) as process:
        assert process.stdout is not None
        for _ in range(501):
            assert process.stdout.readline() == "searching\n"
        stopped_at = monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=50)[1]
    assert monotonic() - stopped_at < 20  # seconds; it is one where nothing else runs
    assert process.returncode == 130
    assert said.endswith("madke: interrupted; the same command resumes\n")
    kept = [path for path in out.rglob("*.jsonl") if path.is_file()]
    assert [path.parent.name for path in kept] == [".pools.more.jsonl.asking"]
    (tmp_path / "slow_source.py").write_text(SLOW_SOURCE.replace("60", "0"))
    again = madke(*command)
    assert again.stdout.count("searching") == 1, again
