"""Scorers of answers as chat models, so that resume and replay need no network and no program.

Searches have the same form: :class:`madke.retrieval.pools.building.LiveSearch`.
"""

import json
import shlex
import shutil
from collections.abc import Sequence

from madke._util.child_process import CommandScorer, ScorerItem
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.scene import ScoreAnswers
from madke.models.batching import Batching


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
