"""Calls and tokens of planned runs."""

from __future__ import annotations

from dataclasses import dataclass, fields

PASSAGE = "word " * 100
"""A placeholder for passages of a missing pool: Wikipedia passages have a hundred words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    paid: float = 0
    """Calls that no earlier run makes (in ``Planned.least``: can make); the tokens and cost below are for these."""
    prompt_tokens: float = 0
    completion_tokens: float = 0
    cost: float = 0
    all_tokens: float = 0
    """Tokens of all calls, paid or not."""

    def __add__(self, other: Load) -> Load:
        return Load(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Load)})

    def __mul__(self, times: float) -> Load:
        return Load(**{f.name: getattr(self, f.name) * times for f in fields(Load)})
