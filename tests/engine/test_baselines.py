"""The baselines of Wang et al., section 4.2, as configurations of the same engine."""

import asyncio

import pytest

from madke.core.knowledge import EMPTY_POOL
from madke.core.question import Question
from madke.engine.debate import debate
from madke.llm import ScriptedChat
from madke.tasks import TASKS
from madke.variants import load_variant

QUESTION = Question(id="q1", question="Which lake is the deepest?", answers=("Lake Baikal",))


def run(name, pool=EMPTY_POOL, sources=(), settings=None, answers=("Lake Baikal",)):
    variant = load_variant(name)
    variant = (variant.with_sources(sources) if sources else variant).with_settings(settings or {})
    agents = [debater.name for debater in variant.protocol.cast]

    def reply(request):
        purpose = request.purpose
        answer = answers[agents.index(purpose.agent) % len(answers)]
        return f"{purpose.agent} in round {purpose.round}: the answer is [{answer}]."

    model = ScriptedChat(reply)
    cast = dict.fromkeys(variant.protocol.roles, model)
    task = TASKS[QUESTION.task]
    return asyncio.run(debate(QUESTION, variant.protocol, cast, pool, task=task, prompts=variant)), model


@pytest.mark.parametrize(
    ("name", "settings", "calls"),
    [
        ("standard", {}, 1),
        ("cot", {}, 1),
        ("rag", {}, 1),
        ("self-consistency", {}, 5),
        ("self-consistency", {"debaters": 9}, 9),
        ("mad", {}, 3 * 2),
        ("mad", {"debaters": 2, "rounds": 3}, 2 * 3),
    ],
)
def test_calls_per_question(pool, name, settings, calls):
    transcript, model = run(name, pool, settings=settings)
    assert model.calls == calls
    assert (transcript.stop_reason, transcript.answer) == ("rounds", "Lake Baikal")


def test_rag_gets_the_whole_pool_and_the_others_none(pool):
    for name, shown in (
        ("rag", True),
        ("cot", False),
        ("standard", False),
        ("self-consistency", False),
        ("mad", False),
    ):
        _, model = run(name, pool)
        prompts = [request.messages[-1].content for request in model.requests]
        assert all(("[2] Deep lakes:" in prompt) == shown for prompt in prompts), name
        assert all(("Knowledge:" in prompt) == shown for prompt in prompts), name


def test_any_of_them_can_be_given_a_pool(pool):
    for name in ("standard", "cot", "self-consistency", "mad"):
        transcript, model = run(name, pool, sources=("wiki", "google"))
        assert all("[2] Deep lakes:" in request.messages[-1].content for request in model.requests), name
        assert transcript.rounds[0].turns[0].selection is None


def test_standard_prompting_asks_for_no_reasoning():
    (_, standard), (_, cot) = run("standard"), run("cot")
    assert "step by step" not in standard.requests[0].messages[-1].content
    assert "step by step" in cot.requests[0].messages[-1].content


def test_self_consistency_is_a_vote_under_the_tasks_matcher():
    transcript, model = run("self-consistency", answers=("Lake Tanganyika", "Lake Baikal", "the lake baikal", "x", "y"))
    assert (transcript.answer, transcript.final.tie) == ("Lake Baikal", False)
    assert len({request.purpose.agent for request in model.requests}) == 5
    assert len({request.messages for request in model.requests}) == 1


def test_mad_shows_everyones_answers_of_the_round_before():
    transcript, model = run("mad", settings={"rounds": 3}, answers=("Rome", "Oslo", "Bern"))
    for request in model.requests:
        n, agent = request.purpose.round, request.purpose.agent
        prompt = request.messages[-1].content
        for other in ("Debater 1", "Debater 2", "Debater 3"):
            for earlier in (1, 2, 3):
                assert (f"{other} in round {earlier}" in prompt) == (earlier == n - 1)
        own = prompt.partition("Answers of the others:")[0]
        assert n == 1 or f"{agent} in round {n - 1}" in own
    assert (transcript.answer, transcript.final.tie) == ("Rome", True)
