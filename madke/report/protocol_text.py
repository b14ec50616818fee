"""A protocol as text: its notes, settings, calls and templates, and the prompts of its stages."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from madke._util.assets import asset
from madke._util.terminal import printable
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError, count_of, unknown
from madke.core.knowledge import EMPTY_POOL
from madke.core.transcript import Stance, Turn
from madke.data import read_dataset
from madke.engine.protocol import (
    Protocol,
    Trace,
    World,
    equal_scores,
    function_of,
    help_of,
    nothing_found,
    placeholders,
    run_protocol,
    simulated_reply,
)
from madke.engine.scene import Scene
from madke.engine.settings import Debater
from madke.engine.variant import Variant
from madke.tasks import get_task


def protocol_text(variant: Variant) -> str:
    """The source, notes, settings, calls and templates of a protocol."""
    protocol = variant.protocol
    function = function_of(protocol.function)
    about = help_of(function)
    own = [
        f"{name}={setting_value(value)}: {about.get(name, '')}".rstrip(": ") for name, value in protocol.values.items()
    ]
    # The changed settings that are not the function's own.
    others = [text for text in changed_settings(protocol) if re.split(r"[.=]", text)[0] not in protocol.own_parameters]
    summary = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
    parts = [
        f"{variant.name}: {protocol.source}",
        notes(variant.folder / "protocol.yaml") if ":" not in protocol.function else "",
        f"Function {protocol.function}: {summary}".rstrip(": ") + f"\n{_indent(own)}",
        f"Other settings that differ from the defaults:\n{_indent(others)}",
        f"Calls per question: {calls_range(protocol)}",
        *trace_texts(protocol.trace),
        f"Templates in {variant.folder} (`madke protocols prompt {variant.name} STAGE` prints one):\n"
        f"{_indent([f'{stage}: {names}' for stage, names in templates(variant).items()])}",
    ]
    return printable("\n\n".join(filter(None, parts)))


def trace_texts(trace: Trace) -> list[str]:
    """Two simulated debates, round by round: who is called for what, and whose stances each turn reads."""
    longest = f"If no answers are ever the same, {count_of(len(trace.differ.calls), 'call')}:"
    if trace.agree.calls == trace.differ.calls:
        return [f"Each debate, {count_of(len(trace.differ.calls), 'call')}:\n{_indent(_world(trace.differ))}"]
    shortest = f"If all answers are always the same, {count_of(len(trace.agree.calls), 'call')}:"
    return [f"{longest}\n{_indent(_world(trace.differ))}", f"{shortest}\n{_indent(_world(trace.agree))}"]


def _world(world: World) -> list[str]:
    lines, shown = list[str](), 0
    for call in world.calls:
        if call.round > shown:
            shown = call.round
            lines.append(f"round {shown}")
        reads = f", reads {', '.join(dict.fromkeys(call.reads))}" if call.reads else ""
        lines.append(f"  {call.agent}: {call.stage}{reads}")
    return [*lines, f"ends: {world.stop_reason}; answer by {world.by}"]


def _indent(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines or ["none"])


def notes(file: Path) -> str:
    """The comment at the head of a ``protocol.yaml``."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines[:end])


def changed_settings(protocol: Protocol) -> list[str]:
    """The settings in which a protocol differs from the defaults, each in the form of ``--set``."""
    return list(_changed_settings(protocol, type(protocol)(function=protocol.function)))


def _changed_settings(model: BaseModel, usual: BaseModel, path: str = "") -> Iterator[str]:
    for name in type(model).model_fields:
        value, default = getattr(model, name), getattr(usual, name)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed_settings(value, default, f"{path}{name}.")
        elif value != default and name != "source":
            yield f"{path}{name}={setting_value(value)}"


def setting_value(value: Any) -> str:
    """A setting's value as text."""
    if isinstance(value, tuple) and all(isinstance(one, Debater) for one in value):
        return f"[{', '.join(debater.name for debater in value)}]"
    value = value.model_dump(exclude_none=True, exclude_defaults=True) if isinstance(value, BaseModel) else value
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)


def calls_range(protocol: Protocol) -> str:
    """The fewest and the most calls of a question, such as ``6-16``."""
    fewest, most = protocol.trace.calls
    return str(most) if fewest == most else f"{fewest}-{most}"


def templates(variant: Variant) -> dict[str, str]:
    """Stage -> the names of its templates, those of debaters with their own included."""
    prompts = sorted({debater.prompt for debater in variant.protocol.cast}, key=str)
    return {
        stage: ", ".join(dict.fromkeys(variant.template(stage, prompt) for prompt in prompts))
        for stage in variant.protocol.trace.stages
    }


# Prompts


def sample_prompt(variant: Variant, stage: str) -> ChatRequest:
    """The first request of a stage in a debate about the first sample question, of which no round agrees.

    Passages and replies are placeholders. UserError if the protocol has no such stage.
    """
    if stage not in variant.protocol.trace.stages:
        raise unknown(f"stage of {variant.name}", stage, variant.protocol.trace.stages)
    protocol, question = variant.protocol, read_dataset(asset("eval", "samples", "questions.jsonl"), limit=1)[0]
    model = _Recorder()
    scene = Scene(
        question,
        protocol,
        dict.fromkeys(protocol.roles, model),
        placeholders(protocol.knowledge, "A title", "of the pool.") if protocol.knowledge else EMPTY_POOL,
        task=get_task(question.task),
        prompts=variant,
        first_round=_first_round(protocol) if protocol.first_round_given else (),
        retrieve=nothing_found,
        score_answers=equal_scores,
        simulate=_simulated_reply,
    )
    asyncio.run(run_protocol(scene))
    first = next((request for request in model.requests if request.purpose.stage == stage), None)
    if first is None:
        raise UserError(f"{variant.name}: with these settings a debate never reaches the stage {stage!r}")
    return first


class _Recorder:
    """A model that records its requests."""

    name = "placeholder"

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        return Completion(text=f"These are the words of {request.purpose.agent} in round {request.purpose.round}.")


def _simulated_reply(stage: str, agent: str, round_n: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a reply says: debaters never agree, and the judge never settles."""
    answer = {"answer": f"{agent}'s answer in round {round_n}"} if stage in ("speak", "reply") else {}
    return simulated_reply(False, stage, agent, round_n, values) | answer


def _first_round(protocol: Protocol) -> Sequence[Turn]:
    names = [each.name for each in protocol.cast]
    if not any(call.reads for call in protocol.trace.differ.calls):
        names += [f"Stranger {n}" for n in range(1, len(names))]
    return [Turn(agent=each, stance=Stance(text=f"The answer is {each}'s.", answer=f"{each}'s")) for each in names]
