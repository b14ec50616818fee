"""Debates whose prompts list what their reader may see, and whose debaters sign what they say.

Debater ``B`` says ``B@2 [Oslo]`` in round 2, so what a prompt shows is read off it with :func:`tokens`.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from madke.core.chat import ChatRequest, Completion, Message, Spoken, join_messages
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import ParseStatus, Stance, Transcript, Turn
from madke.engine.protocol import Protocol, as_protocol, hold_debate
from madke.engine.scene import STAGE_VALUES, Scene
from madke.models.scripted import ScriptedChat
from madke.tasks import TASKS, BaseTask

QUESTION = Question(id="q1", question="Which lake is the deepest?", answers=("Lake Baikal",))

_OPTIONS = ("seed", "repeat", "retrieve", "score_answers", "listen", "deltas", "clock")

BASE = {
    "function": "mad",
    "source": "none",
    "debaters": [{"name": name} for name in "ABC"],
    "reads": {"anonymous": False},
}
"""Three debaters, two rounds, no judge: what a test is not about."""


class PlainPrompts:
    """Shows every value that a stage is given, one a line."""

    def render(
        self,
        stage: str,
        task: BaseTask,
        values: Mapping[str, Any],
        *,
        prompt: str | None = None,
        chat: Sequence[Message] = (),
    ) -> tuple[Message, ...]:
        shown = [f"passage {number}: {title} {text}" for number, title, text in values.get("knowledge", ())]
        own = [name for name in ("own", "critique", "digest") if values.get(name) is not None]
        shown += [f"{name}: {values[name]}" for name in own]
        for name in ("history", "peers", "stances"):
            shown += [
                f"{name} {_who(s)} round {s.round}: {s.text or f'holds {s.answer}'}" for s in values.get(name, ())
            ]
        for group in values.get("groups", ()):
            shown.append(f"group {group.answer}: " + ", ".join(_who(member) for member in group.members))
        extra = {name: values[name] for name in ("level", "persona", "max_selected") if name in values}
        system = f"{stage} {prompt or ''} {extra}"
        asked = Message(role="user", content="\n".join([*shown, values["question"].question]))
        return join_messages([Message(role="system", content=system), *chat, asked])

    def shows(self, stage: str, *, prompt: str | None = None) -> Collection[str]:
        return frozenset().union(*STAGE_VALUES.values())


def _who(spoken: Spoken) -> str:
    return "you" if spoken.own else spoken.agent or "somebody"


def protocol(**settings: Any) -> Protocol:
    content = {**BASE, **settings}
    if content["function"] not in ("mad", "per_document"):
        content = {name: value for name, value in content.items() if name in settings or name != "reads"}
    made: Protocol = as_protocol(content)
    return made


def signed(answers: dict[str, Any] | str | Callable[..., Any] = "Lake Baikal", **stages: Any) -> Callable[..., Any]:
    """Replies: a debater signs and gives its answer; other stages say what the keywords hold.

    ``answers`` is one for all, agent -> answer, or a function of (agent, round); None is a reply without an answer.
    """

    def reply(request: ChatRequest) -> str | Completion:
        purpose = request.purpose
        if purpose.stage in stages:
            said = stages[purpose.stage]
            return said(purpose) if callable(said) else said
        answer = answers
        if callable(answers):
            answer = answers(purpose.agent, purpose.round)
        elif isinstance(answers, dict):
            answer = answers[purpose.agent]
        return sign(purpose.agent, purpose.round, answer)

    return reply


def sign(agent: str, round_n: int, answer: Any) -> str:
    return f"I, {agent}@{round_n}, agree with the others." if answer is None else f"{agent}@{round_n} [{answer}]"


def play(
    replies: Callable[..., Any] | None = None,
    *,
    question: Question = QUESTION,
    pool: KnowledgePool = EMPTY_POOL,
    model: Any = None,
    **settings: Any,
) -> tuple[Transcript, Any]:
    """One debate: (transcript, model). Keywords that ``debate`` knows go there, the others into the protocol."""
    options = {name: settings.pop(name) for name in _OPTIONS if name in settings}
    given = settings.pop("turns", ())
    rules = protocol(**settings)
    model = model or ScriptedChat(replies or signed())
    cast = dict.fromkeys(rules.roles, model)
    task = TASKS[question.task]
    played = hold_debate(
        Scene(question, rules, cast, pool, task=task, prompts=PlainPrompts(), first_round=given, **options)
    )
    return asyncio.run(played), model


def given_turn(agent: str, answer: str | None = "Lake Baikal", text: str | None = None) -> Turn:
    """A first-round turn from outside."""
    status: ParseStatus = "ok" if answer is not None else "abstained"
    return Turn(agent=agent, stance=Stance(text=text or sign(agent, 1, answer), answer=answer, status=status))


def prompts(
    model: ScriptedChat, stage: str | None = None, round_n: int | None = None, agent: str | None = None
) -> list[str]:
    """The user messages of the requests of a stage, round and agent."""
    return [
        "\n".join(message.content for message in request.messages if message.role != "system")
        for request in model.requests
        if stage in (None, request.purpose.stage)
        and round_n in (None, request.purpose.round)
        and agent in (None, request.purpose.agent)
    ]


def tokens(text: str) -> list[str]:
    """The signatures in a text, in the order in which they stand: ``["A@1", "C@1"]``."""
    return re.findall(r"[\w-]+@\d+", text)


def read_by(model: ScriptedChat, agent: str, round_n: int) -> list[str]:
    """The signatures in what a debater was shown before it spoke in a round."""
    (prompt,) = [p for stage in ("speak", "reply") for p in prompts(model, stage, round_n, agent)]
    return tokens(prompt)
