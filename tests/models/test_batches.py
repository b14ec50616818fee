"""Calls through a provider's batch interface: waves, kills, lost and refused answers, cost limits, a program."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import UserError
from madke.models import batches
from madke.models.batches import STATE, BatchClient
from madke.models.scripted import ScriptedChat
from madke.runs.request import RunOptions
from tests.data.published import write
from tests.support.batch_server import BatchServer, answer, batch_server, said
from tests.support.chat_requests import chat_request, purpose
from tests.support.cli import madke as madke_command


def batched(
    server: BatchServer, folder: Path, how: str = "api", allow: Callable[[str, Usage], None] = lambda model, usage: None
) -> BatchClient:
    return BatchClient("m", how, folder, allow, base_url=server.url)


def requests(*texts: str, **changes: Any) -> list[ChatRequest]:
    return [chat_request(text, **changes) for text in texts]


def completions(model: BatchClient, *waves: Sequence[ChatRequest]) -> list[list[Completion]]:
    """The completions of requests that are made at the same time, wave after wave."""

    async def ask() -> list[list[Completion]]:
        try:
            return [await asyncio.gather(*map(model.complete, wave)) for wave in waves]
        finally:
            await model.aclose()

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none-needed")
    monkeypatch.setattr(batches, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(batches, "POLL_SECONDS", (0.01, 0.02))


def asked_alone(server: BatchServer) -> list[str]:
    return sorted(body["messages"][-1]["content"] for body in server.alone)


def test_what_waits_is_one_batch_and_its_answers_may_come_in_any_order(tmp_path: Path) -> None:
    two_debaters = [chat_request("aa", about=purpose(agent=name)) for name in ("A", "B")]
    with batch_server() as server:
        waves = (requests("first"), requests(*"abcde"), two_debaters)
        (first, *_), second, third = completions(batched(server, tmp_path), *waves)
    assert [len({line["custom_id"] for line in lines}) for lines in server.batches] == [5, 2]
    assert asked_alone(server) == ["first"]
    assert {each.text for each in second} == {"The answer is 1."}
    assert {each.text for each in third} == {"The answer is 2."}
    assert [first.tier, *(each.tier for each in (*second, *third))] == ["", *["batch"] * 7]


def test_lost_and_refused_answers_are_asked_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def some(_: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [answer(lines[0]), answer(lines[1], status=400)]  # and none to the third

    with batch_server(some, status=lambda batch, look: "expired") as server:
        _, found = completions(batched(server, tmp_path), requests("first"), requests("a", "bb", "ccc"))
    assert [each.text for each in found] == ["The answer is 1.", "The answer is 2.", "The answer is 3."]
    assert [each.tier for each in found] == ["batch", "", ""]
    assert asked_alone(server) == ["bb", "ccc", "first"]
    assert "no answer to 2 of 3 calls, which are asked one by one" in caplog.text


def killed(model: BatchClient, wave: Sequence[ChatRequest], seen: list[Any]) -> None:
    """End the process's part without an orderly close, once the server has seen a batch."""

    async def ask() -> None:
        await model.complete(chat_request("first"))
        waiting = [asyncio.create_task(model.complete(each)) for each in wave]
        async with asyncio.timeout(20):
            while not seen:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await model.aclose()

    asyncio.run(ask())


def test_a_killed_run_collects_its_batch_and_pays_nothing_twice(tmp_path: Path) -> None:
    wave = requests("a", "bb", "bb", "ccc")
    with batch_server(status=lambda batch, look: "in_progress") as server:
        killed(batched(server, tmp_path), wave, server.batches)
        server.status = lambda batch, look: "completed"
        (found,) = completions(batched(server, tmp_path), [*wave[::-1], chat_request("dddd")])
    assert [each.text for each in found] == [f"The answer is {n}." for n in (3, 2, 2, 1, 4)]
    assert [len(lines) for lines in server.batches] == [4, 1]
    assert asked_alone(server) == ["first"]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_kill_while_a_batch_is_sent_neither_loses_it_nor_sends_it_twice(arrived: bool, tmp_path: Path) -> None:
    with batch_server(status=lambda batch, look: "in_progress") as server:
        killed(batched(server, tmp_path), requests("a", "bb"), server.batches)
        intent, sent = (tmp_path / STATE).read_text().splitlines()
        (tmp_path / STATE).write_text(f"{intent}\n{sent[:10]}")  # The process ended within its second line.
        if not arrived:
            server.metadata[0] = {}
        server.status = lambda batch, look: "completed"
        _, found = completions(batched(server, tmp_path), requests("first"), requests("a", "bb"))
    assert [each.text for each in found] == ["The answer is 1.", "The answer is 2."]
    assert len(server.batches) == (1 if arrived else 2)


def test_the_budget_counts_batches_that_are_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(batches, "MAX_BATCH_CALLS", 1)

    def allow(model: str, usage: Usage) -> None:
        asked.append(usage.completion_tokens)
        if usage.completion_tokens > 150:
            raise UserError("--max-cost: no room")

    with batch_server() as server:
        model = batched(server, tmp_path, allow=allow)
        waves = (requests("a", "b", max_tokens=64), requests("c", max_tokens=151))
        with pytest.raises(UserError, match="no room"):
            completions(model, requests("first"), *waves)
    assert asked == [64, 128, 151]
    assert len(server.batches) == 2


PROGRAM = """
import json, pathlib, sys
lines = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
sys.path.insert(0, sys.argv[3])
from tests.support.batch_server import all_answers
pathlib.Path(sys.argv[2]).write_text("\\n".join(map(json.dumps, all_answers(1, lines))))
"""


def test_a_program_answers_a_file_of_requests_in_the_same_lines(tmp_path: Path) -> None:
    program = tmp_path / "batch.py"
    program.write_text(PROGRAM)
    command = f"{sys.executable} {program} {{input}} {{output}} {Path(__file__).parents[2]}"
    with batch_server() as server:
        (found,) = completions(batched(server, tmp_path, how=command), requests("a", "bb"))
        assert [each.text for each in found] == ["The answer is 1.", "The answer is 2."]
        program.write_text("raise SystemExit('it must not run again')")
        (found,) = completions(batched(server, tmp_path, how=command), requests("bb", "a"))
        assert [each.text for each in found] == ["The answer is 2.", "The answer is 1."]
        assert server.alone == server.batches == []
    (sent,) = tmp_path.glob("batch-*.requests.jsonl")
    lines = [json.loads(line) for line in sent.read_text().splitlines()]
    assert {line["url"] for line in lines} == {"/v1/chat/completions"}
    assert [said(line["body"]) for line in lines] == ["The answer is 1.", "The answer is 2."]


def test_a_program_that_fails_stops_the_run_with_its_status(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'raise SystemExit(3)' {{input}} {{output}}"
    questions = write(tmp_path / "q.jsonl", [{"question": "Why?", "answers": ["1"]}])
    options = ("--protocol", "cot", "--model", "openai/m", "--batch", command, "--out", tmp_path / "run")
    with batch_server() as server:
        done = madke_command("run", questions, *options, "--base-url", server.url)
    assert (done.returncode, "ended with status 3" in done.stderr) == (2, True), done.stderr


def test_a_command_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"expected api, or a command with {input} and {output}"):
        RunOptions(batch="vllm")


def test_debates_go_in_waves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET_SECONDS", 0.2)
    questions = [{"id": f"q{n}", "question": f"How deep is lake {'x' * n}?", "answers": ["1"]} for n in range(4)]
    with batch_server() as server:

        def run() -> list[Any]:
            options = RunOptions(base_url=server.url, batch="api")
            asked: Any = {"protocol": "mad", "model": "openai/m", "options": options, "sources": "none"}
            return list(madke.run(questions, **asked, out=tmp_path / "run").transcripts())

        transcripts = run()
        assert [each.status for each in transcripts] == ["ok"] * 4
        # Three debaters, two rounds: one ordinary call, and one batch for each round.
        assert [len(lines) for lines in server.batches] == [4 * 3 - 1, 4 * 3]
        assert run() == transcripts
        assert (len(server.alone), len(server.batches)) == (1, 2)


def test_only_endpoints_have_batches() -> None:
    with pytest.raises(UserError, match="--batch is for openai/ models"):
        batches.in_batches({"debater-1": ScriptedChat([])}, "api", Path(), lambda model, usage: None)
