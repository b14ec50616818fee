"""Which arms differ in one setting alone, so that a figure can show what that setting does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from madke.report.figures.arms import DrawnArm
from madke.report.figures.style import one_line
from madke.runs.spec import RunSpec

Facts = Mapping[str, str]
"""Path of a setting, dots between its parts -> its value as text."""

_NO_SETTING = {"prompts_sha256", "sources", "source_specs", "pools", "searched", "repeats"}
"""What follows from other settings, or makes no other experiment."""

_UNREADABLE = ("questions", "given_sha256", "protocol.source")
"""Tells arms apart, and says nothing to people."""


def facts(config: RunSpec) -> dict[str, str]:
    """Every setting of an arm that two arms of one comparison share."""
    found = dict(_flat("", config.model_dump(mode="json", exclude=_NO_SETTING | {"models"})))
    # More debaters have more models, though all the same.
    names = {debater.name for debater in config.protocol.cast}
    for role, model in config.models.items():
        found.setdefault("models.debaters" if role in names else f"models.{role}", model)
    several = sorted({model for role, model in config.models.items() if role in names})
    if several:
        found["models.debaters"] = " + ".join(several)
    return found


def _flat(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, each in value.items() for pair in _flat(f"{path}.{key}" if path else key, each)]
    return [(path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def groups(arms: Sequence[DrawnArm], apart: Callable[[str], bool]) -> list[tuple[Facts, list[DrawnArm]]]:
    """Arms that share every setting but those that may differ: of each group what it shares, and its arms.

    Args:
        arms: Those without a configuration are in no group.
        apart: Whether a setting, given its path, may differ within a group.
    """
    found: dict[tuple[tuple[str, str], ...], list[DrawnArm]] = {}
    for arm in arms:
        if arm.results.config is not None:
            shared = {path: value for path, value in facts(arm.results.config).items() if not apart(path)}
            found.setdefault(tuple(sorted(shared.items())), []).append(arm)
    return [(dict(shared), members) for shared, members in found.items()]


def headings(settings: Sequence[Facts]) -> list[str]:
    """What tells several lists of settings apart, on one line each; empty where nothing does."""
    paths = dict.fromkeys(path for one in settings for path in one if not path.startswith(_UNREADABLE))
    varied = [path for path in paths if len({one[path] for one in settings if path in one}) > 1]
    if any(_KNOWLEDGE in one for one in settings) and any(_SOURCES in one for one in settings):
        varied = [*(path for path in varied if path != _SOURCES), _SOURCES, _KNOWLEDGE]
    # One model for all roles is said once.
    told = [", ".join(dict.fromkeys(_told(path, one[path]) for path in varied if path in one)) for one in settings]
    return [one_line(text, 72) if text else "" for text in told]


_KNOWLEDGE, _SOURCES = "protocol.knowledge", "protocol.knowledge.sources"
"""The first is there where a debate has no knowledge, the second where it has some."""


def _told(path: str, value: str) -> str:
    if path in ("data", "variant", "task") or path.startswith("models."):
        return value.removesuffix(".jsonl")
    if path == _KNOWLEDGE:
        return "no knowledge"
    if path == _SOURCES:
        return " + ".join(json.loads(value))
    if path == "protocol.debaters":
        return f"{value if value.isdecimal() else len(json.loads(value))} debaters"
    name = path.removeprefix("protocol.").removeprefix("knowledge.").replace(".", " ").replace("_", " ")
    return f"{value} {name}" if name == "rounds" else f"{name} {value}"
