"""A run whose roles are asked at different servers: one slow to recover, one gone, one that moves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke
from tests.support.dataset import debating, run_command, stage_of
from tests.support.openai_server import OpenAIServer, error, openai_server

KEY, JUDGE_KEY = "sk-base-31415926", "sk-judge-27182818"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("JUDGE_KEY", JUDGE_KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def stages(server: OpenAIServer) -> set[str]:
    return {stage_of(seen.body) for seen in server.requests}


def keys(server: OpenAIServer) -> set[str]:
    return {seen.headers["authorization"] for seen in server.requests}


def test_each_role_is_asked_at_its_server_with_its_own_key_though_one_is_busy(tmp_path: Path) -> None:
    rejected: list[int] = []

    def busy(body: Any, n: int) -> Any:
        if len(rejected) < 6:
            rejected.append(n)
            return error(429, "slow down", {"Retry-After": "0.1"})
        return debating(body, n)

    with openai_server(debating) as base, openai_server(busy) as own, openai_server(debating) as other:
        file = tmp_path / "mine.yaml"
        file.write_text(f"referee: {{base_url: '{own.url}', model: m, key: JUDGE_KEY, concurrency: 2}}\n")
        cast = ("--cast", "judge=referee", "--cast", f"summarizer=openai/s@{other.url}")
        command = run_command(tmp_path, base.url, *cast, "--set", "judge_asked=always", n=4)
        done = madke(*command, MADKE_MODELS=str(file))
        assert done.returncode == 0, done.stderr
        assert (stages(own), keys(own)) == ({"judge"}, {f"Bearer {JUDGE_KEY}"})
        assert (stages(other), keys(other)) == ({"summarize"}, {"Bearer no-key"})
        assert (stages(base), keys(base)) == ({"select", "speak", "reply"}, {f"Bearer {KEY}"})
    assert len(rejected) == 6
    assert json.loads((tmp_path / "out" / "run.json").read_text())["sessions"][0]["retries"] == 6
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    assert JUDGE_KEY.encode() not in everything


def test_a_server_that_moved_pays_nothing_twice(tmp_path: Path) -> None:
    with openai_server(debating) as before:
        done = madke(*run_command(tmp_path, before.url, n=4))
        assert done.returncode == 0, done.stderr
        paid = len(before.requests)
    transcripts = tmp_path / "out" / "transcripts.jsonl"
    transcripts.write_text("")  # as after a loss: the calls are all that is left
    with openai_server(debating) as after:
        done = madke(*run_command(tmp_path, after.url, n=4))
        assert done.returncode == 0, done.stderr
        assert after.requests == []
    assert paid
    assert len(transcripts.read_text().splitlines()) == 4
