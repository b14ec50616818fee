"""Tit-for-tat debate with a judge (Liang et al., 2023, Algorithm 1). Who is called when is in ``tests/frozen``."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.question import Question
from madke.engine.variant import load_variant
from madke.runs.spec import role_models
from tests.support.debates import play


def test_different_models_can_play_the_roles() -> None:
    protocol = load_variant("liang").protocol
    named = role_models(protocol, "offline", {"affirmative": "openai/a", "negative": "openai/b", "judge": "openai/c"})
    assert named == {"Affirmative": "openai/a", "Negative": "openai/b", "judge": "openai/c"}


def test_the_answer_of_a_judge_is_read_by_the_task() -> None:
    settled = json.dumps({"settled": True, "side": "Negative", "answer": "(B)"})
    question = Question(id="q", question="Which?", task="choice", choices=("one", "two"))
    transcript, _ = play("liang", lambda request: settled, question=question)
    assert transcript.answer == "B"


@pytest.mark.slow
def test_the_authors_recorded_debates_end_when_and_as_they_did(shared_data: Path) -> None:
    lines = gzip.decompress((shared_data / "recorded" / "mad_commonmt_debates_100.jsonl.gz").read_bytes()).splitlines()
    assert len(lines) == 100
    for record in map(json.loads, lines[::3]):
        said = {
            name: [message["content"] for message in messages if message["role"] == "assistant"]
            for name, messages in record["players"].items()
        }
        question = Question(id="q", question=record["source"], task="translation")
        transcript, _ = play("liang", replaying(said), question=question, settings={"rounds": 4})
        assert len(transcript.rounds) == len(said["Moderator"])
        assert (transcript.stop_reason, "extract" in transcript.usage) == (
            ("rounds", True) if "Judge" in said else ("settled", False)
        )
        assert letters(transcript.answer) == letters(record["debate translation"])


def replaying(said: dict[str, list[str]]) -> Callable[..., Any]:
    def reply(request: ChatRequest) -> str:
        n = request.purpose.round
        match request.purpose.stage, request.purpose.agent:
            case "judge", _:
                return said["Moderator"][n - 1]
            case "extract", _:
                return said["Judge"][-1]
            case _, "Affirmative":
                return said["Affirmative side"][n]  # the base translation stands before it
        return said["Negative side"][n - 1]

    return reply


def letters(answer: str) -> str:
    """The file has lost some apostrophes."""
    return re.sub(r"\W", "", answer)
