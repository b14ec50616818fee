"""How a stance is shown: its text, else its answer, else that it has none; and which rounds stand above it."""

from typing import Any

import pytest

from madke.core.chat import ChatRequest
from tests.support.debates import asked, play, shown

READERS = ("madke", "lemmas", "reconcile", "per-document", "mad")


def reply(request: ChatRequest) -> str:
    agent, n = request.purpose.agent, request.purpose.round
    match request.purpose.stage:
        case "judge":
            return "[No]"
        case "summarize":
            return "The answer is [x]."
    return f"{agent} in round {n}: the answer is [{agent} {n}]."


def mute(request: ChatRequest) -> str:
    """As ``reply``, but Cy gives no answer that can be read."""
    return "I would rather not say." if request.purpose.agent == "Cy" else reply(request)


NAMES = [{"name": "Ada"}, {"name": "Bo"}, {"name": "Cy"}]


def settings(**more: Any) -> dict[str, Any]:
    return {
        "debaters": NAMES,
        "sources": [],
        "rounds": 2,
        "marker": "brackets",
        "early_stop": "never",
    } | more


@pytest.mark.parametrize("variant", READERS)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("anonymous", [True, False])
def test_without_a_readable_answer_none_is_put_into_a_mouth(variant: str, grouped: bool, anonymous: bool) -> None:
    reads = {"peers": "answers", "own": "last", "grouped": grouped, "anonymous": anonymous}
    _, model = play(variant, mute, settings=settings(reads=reads))
    prompt = shown(asked(model, agent="Bo", round=2, stage="reply")[0])
    ada, cy = ("Another agent", "Another agent") if anonymous else ("Ada", "Cy")
    assert f"\n{ada} answered: Ada 1\n" in prompt
    assert f"\n{cy} gave no readable answer.\n" in prompt
    assert prompt.count("gave no readable answer") == 1
    assert "none" not in prompt
    assert "rather not say" not in prompt
