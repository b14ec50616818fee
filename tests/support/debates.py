"""Debates between scripted models, and the prompts that they were shown."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any

from madke.core.chat import ChatRequest
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import Variant, load_variant
from madke.models.scripted import ScriptedChat
from madke.tasks import TASKS

QUESTION = Question(id="q1", question="Which lake is the deepest?", answers=("Lake Baikal",))
SENTENCE = Question(
    id="t1", question="他总爱在老板面前拍马屁。", task="translation", answers=("He is fond of flattering the boss.",)
)

Reply = Callable[[ChatRequest], Any]


def play(
    name: str | Variant,
    reply: Reply | Mapping[Any, Any] | None = None,
    *,
    model: Any = None,
    question: Question = QUESTION,
    wording: str | None = None,
    settings: Mapping[str, Any] | None = None,
    sources: Sequence[str] = (),
    pool: KnowledgePool = EMPTY_POOL,
    task: Any = None,
    **options: Any,
) -> tuple[Transcript, Any]:
    """One debate of a variant, in which one model, by default a scripted one, plays every role.

    A variant that needs a first round gets that of two strangers and its debaters, unless one is given.
    """
    variant = name if isinstance(name, Variant) else _variant(name, wording, tuple(sources), json.dumps(settings or {}))
    options.setdefault("first_round", first_round_of(variant))
    model = model or ScriptedChat(reply)
    cast = dict.fromkeys(variant.protocol.roles, model)
    task = task or TASKS[question.task]
    return asyncio.run(
        hold_debate(Scene(question, variant.protocol, cast, pool, task=task, prompts=variant, **options))
    ), model


def first_round_of(variant: Variant) -> tuple[Turn, ...]:
    """A first round of the debaters and two strangers, for a protocol that needs one; else empty."""
    if not variant.protocol.first_round_given:
        return ()
    answers = {debater.name: "Lake Tanganyika" for debater in variant.protocol.cast}
    answers |= {"Stranger 1": "Aida", "Stranger 2": "Nabucco"}
    return tuple(
        Turn(agent=agent, stance=Stance(text=f"I looked it up. The answer is {answer}.", answer=answer))
        for agent, answer in answers.items()
    )


@cache
def _variant(name: str, wording: str | None, sources: tuple[str, ...], settings: str) -> Variant:
    variant = load_variant(name)
    if wording is not None:
        variant = variant.in_words(wording)
    return (variant.with_sources(sources) if sources else variant).with_settings(json.loads(settings))


def disagreeing_until(last_round: int) -> Reply:
    """MADKE's roles: debaters who come together in round ``last_round`` (never, if that is beyond the last)."""

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        match purpose.stage:
            case "select":
                return "Knowledge [0] and [2] help."
            case "judge":
                return "[Yes]" if purpose.round >= last_round else "[No]"
            case "summarize":
                return "The final answer is [Lake Baikal]."
        mine = "Lake Baikal" if purpose.agent == "Debater 1" or purpose.round >= last_round else "Lake Tanganyika"
        return f"{purpose.agent} in round {purpose.round}: the answer is [{mine}]."

    return reply


def asked(model: ScriptedChat, **purpose: Any) -> list[ChatRequest]:
    """The requests whose purpose has all these fields."""
    return [r for r in model.requests if all(getattr(r.purpose, name) == value for name, value in purpose.items())]


def shown(request: ChatRequest) -> str:
    """All messages of a request as one text."""
    return "\n".join(message.content for message in request.messages)


def own_and_others(request: ChatRequest) -> tuple[str, str]:
    """What the last message quotes of the reader ("You wrote:"), and the rest of it, with the stances of the others."""
    before, mark, after = request.messages[-1].content.partition("You wrote:\n")
    lines = after.splitlines(keepends=True)
    quoted = list(takewhile(lambda line: line.startswith(">"), lines))
    return mark + "".join(quoted), before + "".join(lines[len(quoted) :])


def prompts(requests: Iterable[ChatRequest]) -> str:
    """Requests, whole, as the text of a golden file."""
    parts = []
    for request in requests:
        parts.append(f"=== {request.purpose.agent}: {request.purpose.stage}, round {request.purpose.round}")
        parts += [f"--- {message.role}\n{message.content}" for message in request.messages]
    return "\n\n".join(parts) + "\n"
