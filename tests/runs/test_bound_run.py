"""A run at a server that takes JSON schemas, and at one that does not: calls, resume, scores and report."""

from pathlib import Path
from typing import Any

from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.support.cli import madke
from tests.support.dataset import debating, run_command
from tests.support.openai_server import Reply, error, openai_server


def refusing(body: Any, n: int) -> Reply:
    return error(400, "response_format is not supported") if "response_format" in body else debating(body, n)


def test_the_stages_are_bound_and_everything_shows_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with openai_server(debating) as server:
        command = run_command(tmp_path, server.url, n=1)
        done = madke(*command)
        requests = len(server.requests)
        (out / "transcripts.jsonl").unlink()  # as after a kill: the calls are stored, the debate is not
        again = madke(*command)
        assert len(server.requests) == requests
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    (debate,) = read_transcripts(out)
    assert {stage: used.bound for stage, used in debate.usage.items()} == {"select": 2, "speak": 0, "summarize": 1}
    assert debate.answer == "Lake Baikal"
    assert debate.rounds[0].turns[0].selection.ids == (0,)
    assert "{" not in debate.final.text
    assert "bound by a schema" in (out / "report.html").read_text()
    assert "{" not in madke("report", out, "--question", "q0").stdout


def test_a_server_without_schemas_makes_the_same_debate_with_one_request_more(tmp_path: Path) -> None:
    with openai_server(refusing) as server:
        command = run_command(tmp_path, server.url, "--concurrency", 1, n=1)
        done = madke(*command)
        requests = len(server.requests)
        free = run_command(tmp_path, server.url, "--concurrency", 1, "--set", "structured=off", n=1, out="other")
        again = madke(*free)
        (tmp_path / "out" / "transcripts.jsonl").unlink()
        resumed = madke(*command)
        assert (requests, len(server.requests)) == (6, 11)
    assert [each.returncode for each in (done, again, resumed)] == [0, 0, 0]
    assert "json_schema: false" in done.stderr
    assert "bound" not in done.stdout
    (here,), (there,) = (read_transcripts(tmp_path / out) for out in ("out", "other"))
    assert here.total.calls == there.total.calls
    assert here.total.bound == 0
    with CallStore(tmp_path / "out" / "calls.sqlite") as ours, CallStore(tmp_path / "other" / "calls.sqlite") as theirs:
        assert [call.messages for call in ours.calls()] == [call.messages for call in theirs.calls()]
