"""A protocol as text: the notes of its file, its settings, its calls and its templates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from madke._util.terminal import printable
from madke.engine.cost import calls_per_question
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Debater
from madke.variants import Variant


def protocol_text(variant: Variant) -> str:
    """The source, notes, settings, calls and templates of a protocol."""
    protocol = variant.protocol
    parts = [
        f"{variant.name}: {protocol.source}",
        notes(variant.folder / "protocol.yaml"),
        f"Settings that differ from the defaults:\n{_indented(changed_settings(protocol))}",
        f"Calls per question: {calls_range(protocol)}",
        f"Templates in {variant.folder} (`madke prompts show {variant.name} STAGE` prints one):\n"
        f"{_indented([f'{stage}: {names}' for stage, names in templates(variant).items()])}",
    ]
    return printable("\n\n".join(filter(None, parts)))


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines or ["none"])


def notes(file: Path) -> str:
    """The comment at the head of a ``protocol.yaml``."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in lines[:end])


def changed_settings(protocol: Protocol) -> list[str]:
    """The settings in which a protocol differs from the defaults, each in the form of ``--set``."""
    return list(_changed(protocol, Protocol(source="")))


def _changed(model: BaseModel, usual: BaseModel, path: str = "") -> Iterator[str]:
    for name in type(model).model_fields:
        value, default = getattr(model, name), getattr(usual, name)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed(value, default, f"{path}{name}.")
        elif value != default and name != "source":
            yield f"{path}{name}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(one, Debater) for one in value):
        return f"[{', '.join(debater.name for debater in value)}]"
    value = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)


def calls_range(protocol: Protocol) -> str:
    """The fewest and the most calls of a question, such as ``6-16``."""
    fewest, most = calls_per_question(protocol)
    return str(most) if fewest == most else f"{fewest}-{most}"


def templates(variant: Variant) -> dict[str, str]:
    """Stage -> the names of its templates, those of debaters with their own included."""
    prompts = sorted({debater.prompt for debater in variant.protocol.cast}, key=str)
    return {
        stage: ", ".join(dict.fromkeys(variant.template(stage, prompt) for prompt in prompts))
        for stage in variant.protocol.stages
    }
