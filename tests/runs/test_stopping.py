"""A run that ends before its questions do: limits, deadlines, signals, an endpoint that fails everything."""

import asyncio
import json
import re
import signal
import threading
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from madke import ChatRequest, Completion, UserError, run
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from madke.runs.meter import seconds_until
from tests.data.published import write
from tests.support.cli import madke, started
from tests.support.dataset import debating, run_command
from tests.support.openai_server import error, openai_server

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


def test_a_token_budget_ends_the_run_scored_listed_replayable_and_resumable(tmp_path: Path) -> None:
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

        replayed = madke(*args, "--replay")
        assert replayed.returncode == 1
        assert "4 questions are unfinished; the command without --replay resumes" in replayed.stderr
        assert {transcript.status for transcript in read_transcripts(tmp_path / "out")} == {"ok"}
        assert (len(finished(tmp_path)), len(unfinished(tmp_path))) == (2, 4)

        assert madke(*args).returncode == 0
    assert finished(tmp_path) == {f"q{n}" for n in range(6)}
    assert unfinished(tmp_path) == []
    first, *_, last = sessions(tmp_path)
    assert (first["ended"], first["questions"], first["left_over"]) == ("--token-budget", 2, 4)
    assert first["prompt_tokens"] + first["completion_tokens"] == used * TOKENS_EACH
    assert (last["ended"], last["questions"], last["left_over"]) == ("finished", 4, 0)
    assert last["concurrency"]["lowest"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "ended"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "interrupted"), (None, 1, "--deadline")],
    ids=["Ctrl-C", "SIGTERM", "deadline"],
)
def test_a_signal_or_a_deadline_waits_for_calls_under_way_and_loses_none(
    tmp_path: Path, number: signal.Signals | None, status: int, ended: str
) -> None:
    reached = threading.Event()
    held = threading.Event()

    def slow(body: Any, n: Any) -> Any:
        if n == 1:
            reached.set()
            held.wait(20)
        return debating(body, n)

    with openai_server(slow) as server:
        args = run_command(tmp_path, server.url, "--concurrency", "1")
        with started(*args, *(() if number else ("--deadline", "8s"))) as process:
            assert reached.wait(60)
            if number:
                process.send_signal(number)
            stopping = next(line for line in process.stderr if "stopping" in line)
            assert "stopping; waiting for 1 call in flight" in stopping
            held.set()
            _, complaint = process.communicate(timeout=30)
        assert process.returncode == status
        assert "the same command resumes" in complaint
        assert "Traceback" not in complaint
        assert re.search(r"questions: 0/6, [^,]* calls/s$", complaint, re.MULTILINE), "the last counts"
        assert len(server.requests) == 1, "no call began afterwards"
        assert len(unfinished(tmp_path)) == 6
        assert madke(*args).returncode == 0
        assert not repeated(server)
    assert finished(tmp_path) == {f"q{n}" for n in range(6)}
    assert [session["ended"] for session in sessions(tmp_path)] == [ended, "finished"]


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
        ("23:00", 1800),
        ("6:30", 8 * 3600),
        ("2026-11-21T21:31:00+00:00", 60),
    ],
)
def test_deadlines_as_people_write_them(text: str, seconds: Any) -> None:
    assert seconds_until(text, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1h 5m", "0s", "25:00", "2020-01-01T00:00"])
def test_what_is_no_deadline_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--deadline"):
        seconds_until(text, NOW)


def test_an_error_in_one_debate_waits_for_the_calls_of_the_others(tmp_path: Path) -> None:
    """What they said is paid for: it is stored before the error ends them."""
    asked: list[str] = []
    free = asyncio.Event()

    class Waiting:
        name = "waiting"

        async def complete(self, request: ChatRequest) -> Completion:
            asked.append(request.purpose.question)
            if request.purpose.question == "q3":
                asyncio.get_running_loop().call_later(0.05, free.set)
                raise UserError("no worker is left")
            await free.wait()
            return Completion(text="The answer is [Oslo].")

    questions = [{"id": f"q{n}", "question": f"Which city is number {n}?"} for n in range(4)]
    with pytest.raises(UserError, match="no worker is left"):
        run(questions, model=Waiting(), protocol="standard", out=tmp_path / "out")
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        outcomes = {call.purpose.question: call.completion.outcome for call in store.calls()}
    assert outcomes == {"q0": "ok", "q1": "ok", "q2": "ok"}
    assert sorted(asked) == ["q0", "q1", "q2", "q3"]
    assert sessions(tmp_path)[0]["ended"] == "an error"


SLOW_SOURCE = """
from time import sleep
from madke import Hits
class Slow:
    name = description = fingerprint = "slow"
    def search(self, queries, k):
        for query in queries:
            print("searching", flush=True)
            sleep(0 if query.startswith("Quick") else 60)
        return [Hits() for _ in queries]
source = Slow()
"""


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_slow_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was searched before is kept, and nothing of the search that was left."""
    write(tmp_path / "slow_source.py", SLOW_SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    records = [{"id": f"q{n}", "question": f"Quick {n}?", "golden_answers": ["a"]} for n in range(500)]
    questions = write(tmp_path / "questions.jsonl", [*records, {"id": "s", "question": "Slow?", "golden_answers": []}])
    script = write(tmp_path / "replies.yaml", "- reply: The answer is [a].")
    out = tmp_path / "out"
    asked = ("--protocol", "rag", "--model", f"scripted/{script}", "--sources", "slow=slow_source:source")
    command = ("run", questions, *asked, "--out", out)
    with started(*command) as process:
        assert process.stdout is not None
        for _ in range(501):
            assert process.stdout.readline() == "searching\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert said.endswith("madke: interrupted; the same command resumes\n")
    kept = [path for path in out.rglob("*.jsonl") if path.is_file()]
    assert [path.parent.name for path in kept] == [".pools.more.jsonl.asking"]
    write(tmp_path / "slow_source.py", SLOW_SOURCE.replace("60", "0"))
    again = madke(*command)
    assert again.stdout.count("searching") == 1, again
