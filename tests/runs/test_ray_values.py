"""The values of a call and a Ray cluster: a task of the user's own may be an object that cannot be sent."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.stage import Stage
from madke.endpoints.openai_client import OpenAIChat
from madke.llm.models import OwnModel, as_chat_model
from madke.llm.offline import OfflineChat
from madke.llm.scripted import ScriptedChat
from madke.runs.options import RunOptions
from madke.runs.ray_cast import _OnNodes, ray_models
from madke.tasks import TASKS
from madke.tasks.base import BaseTask
from tests.support.installed import needs
from tests.support.openai_server import chat, openai_server
from tests.support.ray_nodes import running_cluster

needs("ray", "ray")


class Locked(BaseTask):
    """A task that cannot be pickled."""

    name = "locked"

    def __init__(self) -> None:
        self.lock = threading.Lock()


def request(task: Any) -> ChatRequest:
    return ChatRequest(
        messages=(Message(role="user", content="?"),),
        purpose=Purpose(question="q", stage="speak", agent="Debater 1", round=1),
        temperature=0.0,
        max_tokens=9,
        stage=Stage(name="speak", question=Question(question="Which lake?"), task=task),
    )


class Own:
    name = "own"

    async def complete(self, request: ChatRequest) -> Completion:
        return Completion(text=request.stage.question.question if request.stage else "no values")


def function(messages: Any) -> str:
    return "text"


class Sent:
    """Nodes that remember what they are sent."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def ask(self, name: str, request: ChatRequest) -> Completion:
        self.requests.append(request)
        return Completion()


def sent_to(model: Any, task: Any) -> ChatRequest:
    nodes = Sent()
    asyncio.run(_OnNodes("m", model, nodes).complete(request(task)))  # type: ignore[arg-type]
    return nodes.requests[0]


@pytest.mark.parametrize("kind", ["endpoint", "scripted", "function"])
@pytest.mark.parametrize("task", [TASKS["short_answer"], Locked()], ids=["ours", "locked"])
def test_a_model_that_reads_messages_gets_no_values(kind: str, task: Any) -> None:
    made: dict[str, Any] = {
        "endpoint": lambda: OpenAIChat("m", base_url="http://localhost:1/v1", needs_key=False),
        "scripted": lambda: ScriptedChat(lambda request: "text"),
        "function": lambda: as_chat_model(function),
    }
    sent = sent_to(made[kind](), task)
    assert sent.stage is None
    assert sent.messages == request(task).messages


@pytest.mark.parametrize("model", [OfflineChat(), OwnModel(Own(), "own")], ids=["offline", "own"])
def test_a_model_that_reads_values_gets_them(model: Any) -> None:
    sent = sent_to(model, TASKS["short_answer"])
    assert sent.stage is not None
    assert sent.stage.question.question == "Which lake?"
    with pytest.raises(UserError, match=r"the task 'locked' cannot be sent to a node .*lock"):
        sent_to(model, Locked())


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_on_a_real_cluster(tmp_path: Path) -> None:
    async def both(models: Any, task: Any) -> list[str]:
        return [(await models[role].complete(request(task))).text for role in ("judge", "summarizer")]

    names = {"judge": "openai/m", "summarizer": "tests.runs.test_ray_values:Own"}
    with openai_server(chat("From the server.")) as server, running_cluster(OPENAI_API_KEY="k") as cluster:
        options = RunOptions(engine="ray", base_url=server.url, address=cluster.address)
        with ray_models(names, options) as models:
            assert asyncio.run(both(models, TASKS["short_answer"])) == ["From the server.", "Which lake?"]
        with ray_models({"judge": "openai/m"}, options) as models:
            assert asyncio.run(models["judge"].complete(request(Locked()))).text == "From the server."
