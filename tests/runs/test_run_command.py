"""``madke run`` against an OpenAI-compatible server on the loopback: what goes over the wire, and what survives."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.support.cli import madke, refused
from tests.support.dataset import debating, run_command, stage_of
from tests.support.openai_server import chat, error, openai_server


def test_every_call_of_a_question_is_made_once_and_there_are_at_most_2nr_plus_r_plus_1(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        done = madke(*run_command(tmp_path, server.url))
        assert done.returncode == 0, done.stderr
        transcripts = list(read_transcripts(tmp_path / "out"))
        bodies = [seen.body for seen in server.requests]
    calls = Counter(re.search(r"survey (\d+)", json.dumps(body))[1] for body in bodies)
    assert {t.id for t in transcripts} == {f"q{n}" for n in range(6)}
    for transcript in transcripts:
        rounds = len(transcript.rounds)
        assert calls[transcript.id[1:]] == transcript.total.calls <= 2 * 2 * rounds + rounds + 1
        assert transcript.answer == "Lake Baikal" or rounds == 3
    assert {len(transcript.rounds) for transcript in transcripts} == {1, 2}
    usage = [used for transcript in transcripts for used in transcript.usage.values()]
    assert sum(used.prompt_tokens for used in usage) == 20 * sum(calls.values())
    assert not any(used.estimated for used in usage)
    selections = [json.dumps(body["messages"]) for body in bodies if stage_of(body) == "select"]
    assert len(set(selections)) < len(selections), "in round 1 both debaters have the same prompt"
    assert len({body["seed"] for body in bodies}) == len(bodies)


def test_a_seed_below_0_is_left_to_the_server(tmp_path: Path) -> None:
    with openai_server(chat("The answer is [Lake Baikal].")) as server:
        assert madke(*run_command(tmp_path, server.url, "--seed", "-1", n=1)).returncode == 0
    assert not any("seed" in seen.body for seen in server.requests)


def test_a_replay_needs_no_server_gives_the_same_transcripts_and_leaves_them_where_calls_lack(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        args = run_command(tmp_path, server.url, n=4)
        assert madke(*args).returncode == 0
    before = {t.id: t for t in read_transcripts(tmp_path / "out")}
    done = madke(*args, "--replay")
    assert done.returncode == 0, done.stderr
    assert {t.id: t for t in read_transcripts(tmp_path / "out")} == before

    written = (tmp_path / "out" / "transcripts.jsonl").read_bytes()
    for part in (tmp_path / "out").glob("calls.sqlite*"):
        part.unlink()
    CallStore(tmp_path / "out" / "calls.sqlite").close()
    assert "lacks calls of 4 questions" in madke(*args, "--replay").stderr
    assert (tmp_path / "out" / "transcripts.jsonl").read_bytes() == written


def test_failed_questions_exit_1_and_are_run_again_by_the_same_command(tmp_path: Path) -> None:
    broken = True

    def sometimes(body: Any, n: Any) -> Any:
        return error(400, "no") if broken and "survey 1?" in json.dumps(body) else debating(body, n)

    with openai_server(sometimes) as server:
        args = run_command(tmp_path, server.url, n=3)
        done = madke(*args)
        assert done.returncode == 1
        assert "1 question failed; the same command retries them" in done.stderr
        (failed,) = (t for t in read_transcripts(tmp_path / "out") if t.status == "failed")
        assert (failed.id, failed.answer) == ("q1", None)
        scores = json.loads((tmp_path / "out" / "metrics.json").read_text())
        assert (scores["failed"], scores["correct"]["n"]) == (1, 2)
        assert scores["correct_if_failed"] == [pytest.approx(2 / 3), 1.0]

        broken = False
        assert madke(*args).returncode == 0
    assert {t.id: t.status for t in read_transcripts(tmp_path / "out")} == dict.fromkeys(("q0", "q1", "q2"), "ok")


@pytest.mark.slow
def test_degraded_questions_are_run_again_where_that_is_asked_for(tmp_path: Path) -> None:
    broken = True

    def sometimes(body: Any, n: Any) -> Any:
        hit = broken and "survey 1?" in json.dumps(body) and stage_of(body) == "judge"
        return error(400, "no") if hit else debating(body, n)

    with openai_server(sometimes) as server:
        args = (*run_command(tmp_path, server.url, n=3), "--set", "judge_asked=always")
        done = madke(*args)
        assert done.returncode == 0
        assert "1 question lost a debater or a verdict; --retry-degraded retries them" in done.stderr
        assert [t.id for t in read_transcripts(tmp_path / "out") if t.degraded] == ["q1"]
        broken, sent = False, len(server.requests)
        assert madke(*args).returncode == 0
        assert len(server.requests) == sent, "a degraded question has an outcome"
        again = madke(*args, "--retry-degraded")
        assert (again.returncode, "lost a debater" in again.stderr) == (0, False)
        anew = [stage_of(seen.body) for seen in server.requests[sent:]]
        assert anew[0] == "judge"
        assert "select" not in anew
    assert {t.id: t.degraded for t in read_transcripts(tmp_path / "out")} == dict.fromkeys(("q0", "q1", "q2"), False)


def test_a_directory_of_another_configuration_is_refused_and_left_alone(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        args = run_command(tmp_path, server.url, n=2)
        assert madke(*args).returncode == 0
        before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        complaint = refused(*args, "--set", "rounds=2")
        assert 'holds another run: protocol: "madke", not "rag" (and ' in refused(*args, "--protocol", "rag")
    assert "holds another run: protocol.rounds: 3, not 2" in complaint
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
