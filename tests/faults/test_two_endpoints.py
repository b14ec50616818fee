"""A run whose roles are asked at different servers: one slow to recover, one gone, one that moves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import madke
from tests.support.dataset import debating, run_command, stage_of
from tests.support.openai_server import error, openai_server

KEY, JUDGE_KEY = "sk-base-31415926", "sk-judge-27182818"
ASKED = ("--set", "judge_asked=always")
"""Its debaters agree, so the judge would not be asked otherwise."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("JUDGE_KEY", JUDGE_KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def arguments(folder: Any, url: Any, *more: Any, n: int = 4) -> Any:
    return run_command(folder, url, *more, n=n)


def stages(server: Any) -> Any:
    return {stage_of(seen.body) for seen in server.requests}


def keys(server: Any) -> Any:
    return {seen.headers["authorization"] for seen in server.requests}


def test_roles_are_asked_where_they_are_said_to_be_and_keys_never_cross(tmp_path: Path) -> None:
    with openai_server(debating) as base, openai_server(debating) as other:
        done = madke(*arguments(tmp_path, base.url, "--cast", f"judge=openai/j@{other.url}", *ASKED))
        assert done.returncode == 0, done.stderr
        assert (stages(other), keys(other)) == ({"judge"}, {"Bearer no-key"})
        assert (stages(base), keys(base)) == ({"select", "speak", "reply", "summarize"}, {f"Bearer {KEY}"})
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert KEY.encode() not in everything


@pytest.mark.slow
def test_a_named_model_has_a_key_of_its_own_and_a_busy_server_holds_back_nobody(tmp_path: Path) -> None:
    rejected: list[float] = []

    def busy(body: Any, n: Any) -> Any:
        if len(rejected) < 6:
            rejected.append(n)
            return error(429, "slow down", {"Retry-After": "0.1"})
        return debating(body, n)

    with openai_server(debating) as base, openai_server(busy) as other:
        file = tmp_path / "mine.yaml"
        file.write_text(f"referee: {{base_url: '{other.url}', model: m, key: JUDGE_KEY, concurrency: 2}}\n")
        done = madke(*arguments(tmp_path, base.url, "--cast", "judge=referee", *ASKED), MADKE_MODELS=str(file))
        assert done.returncode == 0, done.stderr
        assert (stages(other), keys(other)) == ({"judge"}, {f"Bearer {JUDGE_KEY}"})
        assert "judge" not in stages(base)
    assert len(rejected) == 6
    assert json.loads((tmp_path / "out" / "run.json").read_text())["sessions"][0]["retries"] == 6


def test_a_server_that_moved_pays_nothing_twice(tmp_path: Path) -> None:
    with openai_server(debating) as before:
        done = madke(*arguments(tmp_path, before.url))
        assert done.returncode == 0, done.stderr
        paid = len(before.requests)
    transcripts = tmp_path / "out" / "transcripts.jsonl"
    transcripts.write_text("")  # as after a loss: the calls are all that is left
    with openai_server(debating) as after:
        done = madke(*arguments(tmp_path, after.url))
        assert done.returncode == 0, done.stderr
        assert after.requests == []
    assert paid
    assert len(transcripts.read_text().splitlines()) == 4
    done = madke(*arguments(tmp_path, "http://127.0.0.1:1/v1", "--replay"))  # needs no endpoint
    assert done.returncode == 0, done.stderr
