"""The baselines of Wang et al., section 4.2, as configurations of the same engine."""

import re
from typing import Any

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript
from madke.engine.variant import load_variant
from madke.models.scripted import ScriptedChat
from tests.support.debates import QUESTION, play


def run(name: str, answers: tuple[str, ...] = ("Lake Baikal",), **options: Any) -> tuple[Transcript, ScriptedChat]:
    agents = [debater.name for debater in load_variant(name).protocol.cast]

    def reply(request: ChatRequest) -> str:
        agent = request.purpose.agent
        answer = answers[agents.index(agent) % len(answers)] if agent in agents else answers[0]
        return f"{agent}: the answer is [{answer}]."

    return play(name, reply, **options)


def test_rag_gets_the_whole_pool_and_the_others_none(pool: KnowledgePool) -> None:
    for name, shown in (
        ("rag", True),
        ("cot", False),
        ("standard", False),
        ("self-consistency", False),
    ):
        _, model = run(name, pool=pool)
        prompts = [request.messages[-1].content for request in model.requests]
        assert all(("Passage 2 (Deep lakes):" in prompt) == shown for prompt in prompts), name
        assert all(("Passages from a search." in prompt) == shown for prompt in prompts), name


def test_standard_and_cot_are_asked_with_one_example_of_their_form() -> None:
    """Section 4.2: one demonstration, which shows the form of the answer (standard) or the steps to it (cot)."""
    for name, form in (("standard", r"Danube"), ("cot", r".+ .+\. The answer is Danube\.")):
        (request,) = run(name)[1].requests
        assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
        example, reply, asked = (message.content for message in request.messages[1:])
        assert re.fullmatch(form, reply)
        assert example == asked.replace(QUESTION.question, "Which river flows through the capital of Hungary?")
        (bare,) = run(name, settings={"examples": 0})[1].requests
        assert [message.role for message in bare.messages] == ["system", "user"]
        assert bare.messages[-1].content == asked


def test_self_consistency_is_a_vote_under_the_tasks_matcher() -> None:
    transcript, model = run("self-consistency", answers=("Lake Tanganyika", "Lake Baikal", "the lake baikal", "x", "y"))
    assert (transcript.answer, transcript.final.tie) == ("Lake Baikal", False)
    assert len({request.purpose.agent for request in model.requests}) == 5
    assert len({request.messages for request in model.requests}) == 1
