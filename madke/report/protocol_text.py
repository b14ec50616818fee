"""A protocol as text: the notes of its file, its settings, its calls and its templates."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from madke._util.terminal import printable
from madke.core.errors import count_of
from madke.engine.protocol import Protocol, function_of, help_of
from madke.engine.settings import Debater
from madke.engine.simulate import Trace, World
from madke.engine.variant import Variant


def protocol_text(variant: Variant) -> str:
    """The source, notes, settings, calls and templates of a protocol."""
    protocol = variant.protocol
    function = function_of(protocol.function)
    about = help_of(function)
    own = [
        f"{name}={setting_value(value)}: {about.get(name, '')}".rstrip(": ") for name, value in protocol.values.items()
    ]
    parts = [
        f"{variant.name}: {protocol.source}",
        notes(variant.folder / "protocol.yaml"),
        f"Function {protocol.function}: {inspect.cleandoc(function.__doc__ or '').splitlines()[0]}\n{_indented(own)}",
        f"Other settings that differ from the defaults:\n{_indented(_others(protocol))}",
        f"Calls per question: {calls_range(protocol)}",
        *trace_texts(protocol.trace),
        f"Templates in {variant.folder} (`madke protocols prompt {variant.name} STAGE` prints one):\n"
        f"{_indented([f'{stage}: {names}' for stage, names in templates(variant).items()])}",
    ]
    return printable("\n\n".join(filter(None, parts)))


def trace_texts(trace: Trace) -> list[str]:
    """Two simulated debates, round by round: who is called for what, and whose stances each turn reads."""
    longest = f"If no answers are ever the same, {count_of(len(trace.differ.calls), 'call')}:"
    if trace.agree.calls == trace.differ.calls:
        return [f"Each debate, {count_of(len(trace.differ.calls), 'call')}:\n{_indented(_world(trace.differ))}"]
    shortest = f"If all answers are always the same, {count_of(len(trace.agree.calls), 'call')}:"
    return [f"{longest}\n{_indented(_world(trace.differ))}", f"{shortest}\n{_indented(_world(trace.agree))}"]


def _world(world: World) -> list[str]:
    lines, shown = list[str](), 0
    for call in world.calls:
        if call.round > shown:
            shown = call.round
            lines.append(f"round {shown}")
        reads = f", reads {', '.join(dict.fromkeys(call.reads))}" if call.reads else ""
        lines.append(f"  {call.agent}: {call.stage}{reads}")
    return [*lines, f"ends: {world.stop_reason}; answer by {world.by}"]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines or ["none"])


def notes(file: Path) -> str:
    """The comment at the head of a ``protocol.yaml``."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines[:end])


def _others(protocol: Protocol) -> list[str]:
    """The changed settings that are not the function's own."""
    return [text for text in changed_settings(protocol) if re.split(r"[.=]", text)[0] not in protocol.own_parameters]


def changed_settings(protocol: Protocol) -> list[str]:
    """The settings in which a protocol differs from the defaults, each in the form of ``--set``."""
    return list(_changed(protocol, type(protocol)(function=protocol.function)))


def _changed(model: BaseModel, usual: BaseModel, path: str = "") -> Iterator[str]:
    for name in type(model).model_fields:
        value, default = getattr(model, name), getattr(usual, name)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed(value, default, f"{path}{name}.")
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
        for stage in variant.protocol.stages
    }
