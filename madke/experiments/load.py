"""Calls and tokens of planned runs, and of the query stages and rerankers of their pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from madke.core.chat import Message, Usage
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.knowledge.stages import messages
from madke.llm.prices import Price, Prices, cost, estimated_usage, price_of
from madke.runs.pool_stages import LLM, LOCAL

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


def load_of(usage: Usage, price: Price | None, times: float, paid: float) -> Load:
    """A call that is made ``times`` times, and paid ``paid`` times."""
    return Load(
        calls=times,
        all_tokens=(usage.prompt_tokens + usage.completion_tokens) * times,
        paid=paid,
        prompt_tokens=usage.prompt_tokens * paid,
        completion_tokens=usage.completion_tokens * paid,
        cost=cost(usage, price) * paid if price else 0,
    )


def stage_load(
    wanted: Sequence[Knowledge], questions: Sequence[Question], retriever: str | None, prices: Prices, reply_tokens: int
) -> Load:
    """The calls for a pool of each question, by the models that cost money."""
    calls = (call for question in questions for call in _calls(wanted, question, retriever or "", reply_tokens))
    return sum((load_of(usage, price_of(model, prices), 1, 1) for model, usage in calls), Load())


def _calls(
    wanted: Sequence[Knowledge], question: Question, retriever: str, reply_tokens: int
) -> Iterator[tuple[str, Usage]]:
    """The model and the usage of each call; equal stages of several settings are one call."""
    for stage in dict.fromkeys(each.query for each in wanted if each.query != "none"):
        yield retriever, _usage(messages(stage, question.question), reply_tokens)
    listed = {(each.sources, each.query, each.rerank.candidates, each.rerank.model) for each in wanted if each.rerank}
    for sources, _, candidates, model in sorted(listed):
        if model.startswith(LOCAL):
            continue
        count = candidates * len(sources)
        if model == LLM:
            passages = [Passage(source="", key="", title="", text=PASSAGE, score=0, rank=n) for n in range(count)]
            yield retriever, _usage(messages("rerank", question.question, passages), reply_tokens)
        else:
            pairs = [Message(role="user", content=question.question + PASSAGE)] * count
            yield model.partition("@")[0], _usage(pairs, 0)


def _usage(prompt: Sequence[Message], reply_tokens: int) -> Usage:
    tokens = estimated_usage(prompt, "").prompt_tokens
    return Usage(prompt_tokens=tokens, completion_tokens=reply_tokens, estimated=True)
