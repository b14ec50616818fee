"""A run at a server that takes JSON schemas, and at one that does not: calls, resume, scores and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.data.published import write
from tests.support.cli import madke
from tests.support.openai_server import Reply, chat, error, openai_server

FREE = {"select": "Selected: [0]", "speak": "The answer is Paris.", "judge": "Verdict: SAME"}


def stage_of(body: Any) -> str:
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "You are the judge" in system:
        return "judge"
    return "select" if "Do not answer yet" in last else "speak"


def taking(body: Any, n: int) -> Reply:
    if "response_format" not in body:
        return chat(FREE[stage_of(body)])
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    values = {"reasoning": "All agree.", "selected": [1], "verdict": "SAME", "answer": "Paris"}
    return chat(json.dumps({name: values[name] for name in schema}))


def refusing(body: Any, n: int) -> Reply:
    return error(400, "response_format is not supported") if "response_format" in body else taking(body, n)


@pytest.fixture
def command(tmp_path: Path) -> tuple[Any, ...]:
    question = {"id": "q", "question": "What is the capital of France?"}
    passages = [{"source": "notes", "title": f"T{n}", "text": f"Town {n}."} for n in (0, 1)]
    questions = write(tmp_path / "q.jsonl", {**question, "golden_answers": ["Paris"]})
    pools = write(tmp_path / "pools.jsonl", {**question, "passages": passages})
    return ("run", questions, "--pools", pools, "--sources", "notes", "--model", "openai/m")


def test_the_stages_are_bound_and_everything_shows_it(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with openai_server(taking) as server:
        done = madke(*command, "--base-url", server.url, "--out", out)
        requests = len(server.requests)
        (out / "transcripts.jsonl").unlink()  # as after a kill: the calls are stored, the debate is not
        again = madke(*command, "--base-url", server.url, "--out", out)
        assert len(server.requests) == requests == 5
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    (debate,) = read_transcripts(out)
    assert {stage: used.bound for stage, used in debate.usage.items()} == {"select": 2, "speak": 0, "summarize": 1}
    assert debate.answer == "Paris"
    assert debate.rounds[0].turns[0].selection.ids == (1,)
    assert "{" not in debate.final.text
    assert "bound by a schema" in (out / "report.html").read_text()
    assert "{" not in madke("report", out, "--question", "q").stdout


def test_a_server_without_schemas_makes_the_same_debate_with_one_request_more(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with openai_server(refusing) as server:
        done = madke(*command, "--base-url", server.url, "--out", out, "--concurrency", 1)
        requests = len(server.requests)
        free = ("--concurrency", 1, "--set", "structured=off")
        again = madke(*command, "--base-url", server.url, "--out", tmp_path / "other", *free)
        (out / "transcripts.jsonl").unlink()
        resumed = madke(*command, "--base-url", server.url, "--out", out)
        assert (requests, len(server.requests)) == (6, 11)
    assert [each.returncode for each in (done, again, resumed)] == [0, 0, 0]
    assert "json_schema: false" in done.stderr
    assert "bound" not in done.stdout
    (here,), (there,) = read_transcripts(out), read_transcripts(tmp_path / "other")
    assert here.total.calls == there.total.calls == 5
    assert here.total.bound == 0
    with CallStore(out / "calls.sqlite") as ours, CallStore(tmp_path / "other" / "calls.sqlite") as theirs:
        assert [call.messages for call in ours.calls()] == [call.messages for call in theirs.calls()]
