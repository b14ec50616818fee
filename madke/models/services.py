"""Scorers of answers and passages as chat models, so that resume and replay need no network and no program.

Searches have the same form: :class:`madke.retrieval.pools.building.LiveSearch`.
"""

import asyncio
import json
import math
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from madke._util.assets import require
from madke._util.child_process import CommandScorer, ScorerItem
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, Usage
from madke.core.errors import CallError, UserError
from madke.core.question import Question
from madke.engine.scene import ScoreAnswers
from madke.models.batching import Batching
from madke.models.encoders import loading, revision_of
from madke.models.endpoint import ModelEntries
from madke.models.model_names import ADDRESS
from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import parsed, read_refusal
from madke.models.prices import estimated_usage, searches_for
from madke.models.refusals import field

SERVICE_STAGES = ("search", "score")
"""Stages whose calls go to a service, not to a model, and cost nothing."""

_BATCH = 32
"""Pairs that a cross-encoder scores at once."""


class AnswerScorer(Batching):
    """An external command that scores candidate answers, as a model. Under ``replay`` it need not be installed."""

    def __init__(self, command: str, *, replay: bool = False) -> None:
        super().__init__(f"answer scorer {command}")
        self._scorer = CommandScorer(command)
        program = shlex.split(command)[0]
        if not replay and shutil.which(program) is None:
            raise UserError(f"--answer-scorer {command!r}: there is no program {program!r}")

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, candidate.content) for r in requests for candidate in r.messages[1:]]
        try:
            scores = iter(
                await self._scorer.ascores([ScorerItem(source=asked, candidate=text) for asked, text in pairs])
            )
        except UserError as error:
            return [failed_call(str(error)) for _ in requests]
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]


class CrossEncoderReranker(Batching):
    """A cross-encoder of sentence-transformers: a question and passages in, a JSON list of their scores out.

    The pairs of all waiting questions are scored together, in one thread. Code that comes with a model is never run.
    UserError if the model cannot be loaded, or gives more than one score for a pair.
    """

    def __init__(self, model: str) -> None:
        self._model = _loaded(model)
        super().__init__(" ".join(filter(None, (f"hf/{model}", revision_of(model)))))

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, passage.content) for r in requests for passage in r.messages[1:]]
        found = await asyncio.to_thread(self._model.predict, pairs, batch_size=_BATCH, show_progress_bar=False)
        scores = map(float, found)
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]


def _loaded(model: str) -> Any:
    require(f"hf/{model} needs", "dense", "sentence_transformers")
    from sentence_transformers import CrossEncoder

    with loading(f"the reranker hf/{model}", "a cross-encoder, as a folder or a name on the Hub"):
        loaded = CrossEncoder(model, trust_remote_code=False)
    if loaded.num_labels != 1:
        raise UserError(f"hf/{model} gives {loaded.num_labels} scores for a pair; expected a reranker with one")
    return loaded


def answer_scoring(model: ChatModel) -> ScoreAnswers:
    """The ``score_answers`` of a debate, from an :class:`AnswerScorer`; repeats share calls. UserError if one fails."""

    async def score_answers(question: Question, candidates: Sequence[str]) -> list[float]:
        purpose = Purpose(question=question.id, stage="score", agent="answer_scorer", round=1)
        completion = await model.complete(service_request(purpose, question.question, *candidates))
        if completion.outcome != "ok":
            raise UserError(completion.error or "it gave no reason")
        scores: list[float] = json.loads(completion.text)
        return scores

    return score_answers


def service_request(purpose: Purpose, *texts: str) -> ChatRequest:
    """A request to a service: a query, or texts to score."""
    messages = tuple(Message(role="user", content=text) for text in texts)
    return ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=0)


def failed_call(reason: str) -> Completion:
    """A call that a service could not answer."""
    return Completion(outcome="failed", error=reason, finish_reason="error")


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
