"""What every grammar returns, and how much of a text it reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

from madke.core.chat import Completion
from madke.core.transcript import ParseStatus

T = TypeVar("T")
P = ParamSpec("P")

WINDOW = 200_000
"""Characters that are read, from the end of a text: its answer stands there."""
_TAG = re.compile(r"(?<![`\"'])<(/?)think(?:ing)?>(?!\s{0,3}(?:tags?|blocks?|tokens?)\b)", re.IGNORECASE)
_OPENING_PLACE = re.compile(r"(?:\A|[\n.!?:>…])\s{0,9}\Z")
CUT = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a reply that was cut off at ``max_tokens``: OpenAI and most others, Cohere, Mistral."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed(Generic[T]):
    """What a grammar read from a text."""

    value: T
    status: ParseStatus
    """``ok``, or ``abstained`` where the text holds no value of this grammar."""
    rule: str
    """Which rule fired, for the parse-rate tables."""
    span: tuple[int, int] | None = None
    """Where in the text the value stands (of a selection: its last marker)."""


def found(value: T, rule: str, span: tuple[int, int]) -> Parsed[T]:
    """A value and its place."""
    return Parsed(value=value, status="ok", rule=rule, span=span)


def abstained(value: T, rule: str = "none") -> Parsed[T]:
    """No value; ``value`` is the grammar's way to say so."""
    return Parsed(value=value, status="abstained", rule=rule)


def windowed(parse: Callable[Concatenate[str, P], Parsed[T]]) -> Callable[Concatenate[str, P], Parsed[T]]:
    """A grammar that reads only the last :data:`WINDOW` characters; spans refer to the whole text."""

    @wraps(parse)
    def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Parsed[T]:
        cut = max(0, len(text) - WINDOW)
        parsed = parse(text[cut:], *args, **kwargs)
        return replace(parsed, span=(parsed.span[0] + cut, parsed.span[1] + cut)) if parsed.span and cut else parsed

    return read


def without_reasoning(text: str) -> str:
    """The text that counts as said: reasoning blocks, closed, cut off or opened by the server, are left out.

    A tag that the text only talks about, in quotes or as "the <think> tag", is an ordinary word, and so is an opening
    tag in the middle of a sentence that is never closed.
    """
    if "<" not in text:
        return text.strip()
    tags = list(_TAG.finditer(text))
    last_close = max((tag.start() for tag in tags if tag[1]), default=-1)
    said: list[str] = []
    inside, at = False, 0
    for tag in tags:
        if tag[1]:
            said, inside, at = said if inside else [], False, tag.end()
        elif not inside and (
            tag.start() < last_close or _OPENING_PLACE.search(text, max(0, tag.start() - 10), tag.start())
        ):
            said.append(text[at : tag.start()])
            inside = True
    return "".join(said if inside else [*said, text[at:]]).strip()


def checked(completion: Completion, max_tokens: int) -> Completion:
    """The completion, with outcome ``empty`` where an ``ok`` one has no visible text.

    Hidden reasoning is no visible text: a text of reasoning blocks only is kept as ``reasoning``. In a run this holds
    for every marker: where the whole reply is the answer, a reply without text is a failed call, no empty answer.

    Args:
        completion: What the model returned.
        max_tokens: The request's bound on completion tokens; the error names it where the reply was cut off there.
    """
    if completion.outcome != "ok" or without_reasoning(completion.text):
        return completion
    reasoning = completion.reasoning + completion.text.strip()
    error = "the reply holds hidden reasoning and nothing else" if reasoning else "the reply is empty"
    if completion.finish_reason.casefold() in CUT:
        error += f"; it was cut off at max_tokens = {max_tokens}, so raise that: --set max_tokens=N"
    else:
        error += f" (finish reason {completion.finish_reason!r})"
    return replace(completion, text="", reasoning=reasoning, outcome="empty", error=error)
