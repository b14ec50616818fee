"""Whether a reply says anything. This is decided once, before a call is counted and stored."""

from __future__ import annotations

from dataclasses import replace

from madke.core.chat import Completion
from madke.engine.parse import without_reasoning

CUT = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a reply that was cut off at ``max_tokens``: OpenAI and most others, Cohere, Mistral."""


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
