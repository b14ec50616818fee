"""Rerankers behind an address: one request with a question and passages, one score for each."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from typing import Any

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.endpoint import ModelEntries
from madke.models.model_names import ADDRESS
from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import parsed, read_refusal
from madke.models.prices import estimated_usage, searches_for
from madke.models.refusals import field

_TEI_BATCH = 32


class RerankEndpoint(OpenAIChat):
    """The ``/rerank`` of vLLM, Jina and Cohere: messages of a question and passages in, a JSON list of scores out.

    A server that asks for ``texts`` is TEI: its requests are then sent in that form, in batches of 32.
    """

    _path = "/rerank"
    _texts = False

    async def _attempt(self, request: ChatRequest) -> Completion:
        import openai

        query, *passages = [message.content for message in request.messages]
        started = time.monotonic()
        scores: list[float] = []
        searches = 0
        tokens: int | None = 0
        while len(scores) < len(passages):
            size = _TEI_BATCH if self._texts else len(passages)
            part = passages[len(scores) : len(scores) + size]
            sent: dict[str, Any] = {"texts": part, "truncate": True}
            if not self._texts:
                sent = {"model": self._model, "documents": part}
            try:
                body = await self._post({"query": query, **sent, **self.endpoint.entry.extra_body}, request)
            except openai.APIStatusError as error:
                refusal = self._refusal(error)
                if not self._texts and refusal.status in (400, 422) and "texts" in refusal.message:
                    self._texts = True
                    continue
                return read_refusal(refusal, error.response, attempts=1)
            found, used = read_scores(body, len(part))
            scores += found
            searches += billed_searches(body, len(part))
            tokens = None if tokens is None or used is None else tokens + used
        # A cross-encoder reads the question with every passage.
        pairs = [text for passage in request.messages[1:] for text in (request.messages[0], passage)]
        usage = Usage(prompt_tokens=tokens) if tokens else estimated_usage(pairs, "")
        usage = replace(usage, searches=searches)
        return Completion(text=json.dumps(scores), usage=usage, seconds=time.monotonic() - started)


def read_scores(body: bytes, count: int) -> tuple[list[float], int | None]:
    """The score of each of ``count`` passages, and the tokens that the server reports; CallError for another reply."""
    try:
        reply = parsed(body)
        results = reply["results"] if isinstance(reply, dict) else reply
        scores = {each["index"]: float(each.get("relevance_score", each.get("score"))) for each in results}
        listed = [scores[n] for n in range(count)]
    except (CallError, ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise CallError(f"the reply is no reranking of {count} passages", retryable=False) from None
    if not all(map(math.isfinite, listed)):
        raise CallError("the reply holds a score that is not finite", retryable=False)
    usage = reply.get("usage") if isinstance(reply, dict) else None
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return listed, tokens if isinstance(tokens, int) and tokens > 0 else None


def billed_searches(body: bytes, count: int) -> int:
    """The searches that a reply bills: Cohere says how many; else one for each hundred passages."""
    stated = field(parsed(body), "meta", "billed_units", "search_units")
    return stated if isinstance(stated, int) and 0 < stated <= count else searches_for(count)


def open_rerank_endpoint(name: str, models: ModelEntries) -> RerankEndpoint:
    """Open ``NAME@URL``, or an entry of ``models.yaml`` with a ``base_url``; UserError for any other name."""
    if found := ADDRESS.fullmatch(name):
        return RerankEndpoint(found[1], name=found[1], at=found[2])
    entry = models.entry(name)
    if entry is None or entry.base_url is None:
        expected = "llm, hf/NAME_OR_PATH, NAME@URL, or an entry with a base_url in models.yaml"
        raise UserError(f"unknown reranker {name!r}; expected {expected}")
    return RerankEndpoint(entry.model or name, name=name, entry=entry, named=models.named)
