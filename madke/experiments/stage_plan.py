"""Estimate the calls that query stages and rerankers of pools make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from madke.core.chat import Message, Usage
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.engine.protocol import Knowledge
from madke.experiments.load import PASSAGE, Load
from madke.knowledge.stages import messages
from madke.llm.prices import Prices, cost, estimated_usage, price_of
from madke.runs.pool_stages import LOCAL


def stage_load(
    wanted: Sequence[Knowledge],
    questions: Sequence[Question],
    retriever: str | None,
    prices: Prices,
    *,
    reply_tokens: int,
    paid: bool = True,
) -> Load:
    """The calls for a pool of each question, by the models that cost money; ``paid``: whether they are still to pay."""
    total = Load()
    for question in questions:
        for model, usage in _calls(wanted, question, retriever or "", reply_tokens):
            price = price_of(model, prices)
            tokens = usage.prompt_tokens + usage.completion_tokens
            total += Load(calls=1, all_tokens=tokens)
            if paid:
                charged = cost(usage, price) if price else 0
                total += Load(
                    paid=1, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens, cost=charged
                )
    return total


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
        if model == "llm":
            passages = [Passage(source="", key="", title="", text=PASSAGE, score=0, rank=n) for n in range(count)]
            yield retriever, _usage(messages("rerank", question.question, passages), reply_tokens)
        else:
            pairs = [Message(role="user", content=question.question + PASSAGE)] * count
            yield model.partition("@")[0], _usage(pairs, 0)


def _usage(prompt: Sequence[Message], reply_tokens: int) -> Usage:
    tokens = estimated_usage(prompt, "").prompt_tokens
    return Usage(prompt_tokens=tokens, completion_tokens=reply_tokens, estimated=True)
