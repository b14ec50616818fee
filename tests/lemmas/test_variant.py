"""The variant ``lemmas`` in batch: calls, who sees what, how the answer is taken, and its prompts word for word."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.scripted import ScriptedChat
from madke.tasks import get_task
from tests.support.debates import shown

QUESTION = Question(id="q1", question="Which lake is the deepest?", answers=("Lake Baikal",))
ANSWERS = {"Debater 1": "Lake Tanganyika", "Debater 2": "Lake Baikal", "Debater 3": "Lake Baikal"}


def stance(request: ChatRequest) -> str:
    purpose = request.purpose
    return f"{purpose.agent} in round {purpose.round}: the answer is [{ANSWERS.get(purpose.agent, 'Lake Baikal')}]."


def run(
    replies: dict[Any, Any] | Callable[..., Any] = stance, settings: dict[str, Any] | None = None, **options: Any
) -> tuple[Transcript, ScriptedChat]:
    variant = load_variant("lemmas").with_settings(settings or {})
    model = ScriptedChat(replies)
    cast = dict.fromkeys(variant.protocol.roles, model)
    task = get_task(QUESTION.task)
    return asyncio.run(
        hold_debate(Scene(QUESTION, variant.protocol, cast, task=task, prompts=variant, **options))
    ), model


def prompts(model: ScriptedChat, n: int) -> dict[str, str]:
    """Who is asked in this round: everything that it reads."""
    return {r.purpose.agent: shown(r) for r in model.requests if r.purpose.round == n}


@pytest.mark.parametrize(
    ("settings", "calls"),
    [
        ({}, 3 * 3),
        ({"rounds": 1}, 3),
        ({"debaters": 7, "rounds": 2}, 7 * 2),
        ({"end": "pick"}, 3 * 3 + 1),
    ],
)
def test_calls_are_k_times_rounds_and_one_for_the_judge(settings: dict[str, Any], calls: int) -> None:
    transcript, model = run(settings=settings)
    assert model.calls == calls == sum(used.calls for used in transcript.usage.values())
    assert transcript.stop_reason == "rounds"


def test_each_reads_the_others_drafts_of_the_round_before_and_not_its_own() -> None:
    transcript, model = run()
    for n in (1, 2, 3):
        for agent, prompt in prompts(model, n).items():
            seen = set(re.findall(r"Debater \d in round \d", prompt))
            assert seen == {f"{other} in round {n - 1}" for other in ANSWERS if n > 1 and other != agent}
    assert transcript.rounds[1].turns[0].reads == ("Debater 2", "Debater 3")


def test_a_draft_without_an_answer_takes_no_part_in_the_convergence() -> None:
    same = "No answer comes to mind here"
    replies = {
        ("reply", "Debater 1"): same,
        ("reply", "Debater 2"): same,
        "reply": "I say [Lake Baikal].",
        "speak": "?",
    }
    transcript, _ = run(replies)
    assert (transcript.answer, transcript.final.agent) == ("Lake Baikal", "Debater 3")
    transcript, _ = run({"reply": same, "speak": same})
    assert (transcript.status, transcript.answer) == ("abstained", None)


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        ("Debater 1 is more careful than Debater 2. [Debater 1]", "Lake Tanganyika"),
        ("All of them have a point. [Debater 3]", "Lake Baikal"),
        ("All of them have a point. [name]", None),
        ("", None),
    ],
)
def test_the_judge_picks_a_debater_by_name(verdict: str, answer: str | None) -> None:
    pick = Completion(text=verdict)
    transcript, _ = run(lambda r: pick if r.purpose.stage == "pick" else stance(r), {"end": "pick"})
    assert (transcript.final.by, transcript.answer) == ("judge", answer)
    assert transcript.status == ("abstained" if answer is None else "ok")


def test_free_text_has_no_marker() -> None:
    _, model = run(settings={"marker": "text", "end": "pick"})
    assert not any("The answer is" in shown(r) for r in model.requests)
    assert not any(re.search("few words|two sentences|brief", shown(r)) for r in model.requests)
    assert all("at the length that the task asks for" in shown(r) for r in model.requests if r.purpose.stage != "pick")
    assert "Begin with the name of that debater and a colon." in model.requests[-1].messages[-1].content
