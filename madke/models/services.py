"""Chat models that answer requests in batches; scorers of answers as such models, so that replay needs no program.

Searches have the same form: :class:`madke.retrieval.pools.LiveSearch`.
"""

import asyncio
import json
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from madke._util.child_process import CommandScorer, ScorerItem
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.scene import ScoreAnswers


class Batching(ABC):
    """Answers one batch at a time, in one event loop. Requests that arrive meanwhile form the next batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._waiting: list[tuple[ChatRequest, asyncio.Future[Completion]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, in a batch with others."""
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        results: Sequence[Completion | Exception]
        while self._waiting:
            # Yield to the loop as long as each step adds a request, so that imminent requests join the batch.
            before = 0
            while before < len(self._waiting):
                before = len(self._waiting)
                await asyncio.sleep(0)
            batch = [(request, answer) for request, answer in self._waiting if not answer.done()]
            self._waiting = []
            started = time.monotonic()
            try:
                results = await self._answer([request for request, _ in batch])
            except Exception as error:  # noqa: BLE001
                results = [error] * len(batch)
            seconds = time.monotonic() - started
            for (_, answer), result in zip(batch, results, strict=True):
                if answer.done():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(replace(result, seconds=seconds))

    @abstractmethod
    async def _answer(self, requests: Sequence[ChatRequest]) -> Sequence[Completion | Exception]:
        """A completion for each request, or the exception that its call raises."""


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
                await self._scorer.ascores([ScorerItem(source=question, candidate=text) for question, text in pairs])
            )
        except UserError as error:
            return [failed_call(str(error)) for _ in requests]
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]


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
