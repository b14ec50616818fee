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
from tests.support.debates import play, shown

OPEN = json.dumps({"reason": "Both have a point.", "settled": False, "side": "", "answer": ""})


def never_settled(request: ChatRequest) -> str:
    """The judge settles nothing; debaters say who they are and when."""
    purpose = request.purpose
    match purpose.stage:
        case "judge":
            return OPEN
        case "extract":
            return f"Extracted after iteration {purpose.round}: [Lake Tanganyika]."
    return f"{purpose.agent} in iteration {purpose.round}: the answer is [Lake {purpose.agent}]."


def test_the_level_changes_the_debaters_system_text_and_whether_the_first_reply_must_disagree() -> None:
    by_level = []
    for level in (0, 1, 2, 3):
        _, model = play("liang", never_settled, settings={"level": level})
        by_level.append(model.requests)
    for requests in zip(*by_level, strict=True):
        purpose = requests[0].purpose
        assert len({request.messages[0].content for request in requests}) == (1 if purpose.agent == "judge" else 4)
        first_reply = (purpose.agent, purpose.round) == ("Negative", 1)
        assert len({request.messages[1:] for request in requests[1:]}) == 1
        assert (requests[0].messages[1:] == requests[1].messages[1:]) != first_reply
    _, default = play("liang", never_settled)
    assert default.requests[0].messages == by_level[2][0].messages


@pytest.mark.parametrize("settings", [{}, {"debaters": 3}])
def test_at_level_0_no_prompt_of_a_debater_asks_for_disagreement(settings: dict[str, Any]) -> None:
    _, model = play("liang", never_settled, settings={"level": 0, **settings})
    for request in model.requests:
        if request.purpose.agent != "judge":
            assert "agree fully" in request.messages[0].content
            assert "disagree" not in shown(request).casefold()
            assert "different answer" not in shown(request)


def test_different_models_can_play_the_roles() -> None:
    protocol = load_variant("liang").protocol
    named = role_models(protocol, "offline", {"affirmative": "openai/a", "negative": "openai/b", "judge": "openai/c"})
    assert named == {"Affirmative": "openai/a", "Negative": "openai/b", "judge": "openai/c"}


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
