"""A server that refuses long prompts: what is left out of them."""

import json
from pathlib import Path
from typing import Any

from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.support.cli import madke
from tests.support.dataset import write_dataset
from tests.support.openai_server import Reply, chat, error, openai_server

REFUSAL = "This model's maximum context length is 512 tokens. However, your messages resulted in more."


def narrow(body: dict[str, Any], n: int) -> Reply:
    """Of a server whose replies are long, and which takes prompts of up to 6,000 characters."""
    if sum(len(message["content"]) for message in body["messages"]) > 6000:
        return error(400, REFUSAL, code="context_length_exceeded")
    return chat(f"{'I have thought about it at length. ' * 40}The answer is [Lake Baikal].")


def test_the_oldest_stances_are_left_out_until_the_prompt_fits(tmp_path: Path) -> None:
    """Of five debaters, so that each reply shows four stances of some 1,400 characters."""
    questions, _ = write_dataset(tmp_path, 1)
    settings = ("--protocol", "mad", "--set", "debaters=5", "--set", "overflow=drop")
    with openai_server(narrow) as server:
        endpoint = ("--model", "openai/m", "--base-url", server.url)
        command = ("run", questions, *endpoint, "--out", tmp_path / "out", *settings)
        done = madke(*command)
    assert done.returncode == 0, done.stderr
    (transcript,) = read_transcripts(tmp_path / "out")
    assert (transcript.status, transcript.degraded) == ("ok", False)
    first, second = transcript.rounds
    assert {turn.stance.truncated for turn in first.turns} == {None}
    assert {turn.stance.truncated.stances for turn in second.turns} <= {1, 2, 3}
    assert transcript.usage["reply"].failed == 0
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["shortened"] == 1
    assert "prompts too long" in done.stderr
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        outcomes = [call.completion.outcome for call in store.calls() if call.purpose.stage == "reply"]
    assert outcomes.count("ok") == 5
    assert outcomes.count("too_long") == sum(turn.stance.truncated.stances for turn in second.turns)
    assert "stances left out)" in madke("report", tmp_path / "out", "--question", "q0").stdout
    again = madke(*command, "--replay")
    assert again.returncode == 0, again.stderr
    assert list(read_transcripts(tmp_path / "out")) == [transcript]
