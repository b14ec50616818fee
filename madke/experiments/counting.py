"""Debates played with a model that only counts what it is asked, and replies with words that settle nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from madke.core.chat import ChatRequest, Completion, Purpose, Usage
from madke.core.knowledge import EMPTY_POOL, Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.data import Given
from madke.engine.debate import debate
from madke.engine.marker import marked
from madke.engine.protocol import Knowledge, Protocol
from madke.llm.prices import Price, Prices, estimated_usage, price_of
from madke.llm.store import call_key
from madke.runs.job import Job
from madke.tasks import get_task
from madke.tasks.choice import lettered

_PASSAGE = "word " * 100
"""A passage of a pool that is not there yet: Wikipedia's have a hundred words."""

_ANSWERING = ("speak", "reply", "summarize", "extract")
"""Stages whose replies hold an answer."""

PoolOf = Callable[[Question], KnowledgePool]
"""A question's pool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of a debate, in the first repeat."""

    stage: str
    round: int
    key: str
    """Calls of one key are asked once, whoever makes them."""
    surely: str
    """The same, but another one for each way of ordering what debaters read: how they order it hangs on what was said,
    so orders that look alike here may not be so in the end."""
    usage: Usage
    price: Price | None


@dataclass(kw_only=True, slots=True)
class _Counting:
    """A model that notes what it is asked, and replies with words that settle nothing: no two answers are alike."""

    name: str
    protocol: Protocol
    reply_tokens: int
    price: Price | None
    questions: Mapping[str, Question]
    calls: list[Call] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Completion:
        """Note a request, and reply to it."""
        usage = Usage(
            prompt_tokens=estimated_usage(request.messages, "").prompt_tokens,
            completion_tokens=min(self.reply_tokens, request.max_tokens),
            estimated=True,
        )
        purpose = request.purpose
        key = call_key(self.name, request)
        surely = f"{key} {self.protocol.order.by}" if purpose.round > 1 else key
        self.calls.append(
            Call(stage=purpose.stage, round=purpose.round, key=key, surely=surely, usage=usage, price=self.price)
        )
        # Other prompts have other replies, so that what follows from them is not taken for shared.
        text = f"{self._text(purpose, key)} {key[:16]} "
        return Completion(text=text.ljust(4 * usage.completion_tokens, "."), usage=usage)

    def _text(self, purpose: Purpose, key: str) -> str:
        """An answer, or as many passages as a debater may choose, drawn at random."""
        knowledge = self.protocol.knowledge
        if purpose.stage == "select" and knowledge is not None:
            count = min(knowledge.max_selected, knowledge.most_passages)
            return "".join(f"[{n}]" for n in Random(key).sample(range(knowledge.most_passages), count))
        if purpose.stage in _ANSWERING:
            return _answer(self.questions[purpose.question], self.protocol, purpose.agent, purpose.round)
        return ""


def _answer(question: Question, protocol: Protocol, agent: str, round_n: int) -> str:
    """An answer that its task reads, where there are enough of them another one for each debater and round."""
    names = [debater.name for debater in protocol.cast]
    turn = round_n * len(names) + (names.index(agent) if agent in names else 0)
    options = get_task(question.task).choices or [letter for letter, _ in lettered(question.choices)]
    answer = options[turn % len(options)] if options else str(turn)
    return f"The answer is {marked(answer, protocol.marker)}"


async def counted(
    job: Job,
    protocol: Protocol,
    questions: Sequence[Question],
    pool_of: PoolOf | None,
    *,
    prices: Prices,
    reply_tokens: int,
) -> tuple[list[Call], Given]:
    """The calls of debates that never settle, and their first rounds.

    Args:
        job: The run; its first repeat is played.
        protocol: Its own, or one of fewer rounds.
        questions: Those of its questions that are played.
        pool_of: Their pools; None where they are not there yet.
        prices: Of the models.
        reply_tokens: What a reply is taken to have, if the protocol allows as many.
    """
    models = {
        model: _Counting(
            name=model,
            protocol=protocol,
            reply_tokens=reply_tokens,
            price=price_of(model, prices),
            questions={question.id: question for question in questions},
        )
        for model in job.models.values()
    }
    cast = {role: models[name] for role, name in job.models.items()}
    first = {}
    for question in questions:
        played = await debate(
            question,
            protocol,
            cast,
            _pool(question, protocol.knowledge, pool_of),
            task=get_task(question.task),
            prompts=job.variant,
            seed=job.seed,
            given=job.given.of(question.id, 0) if job.given is not None else (),
            retrieve=_nothing_found,
            estimate=_all_alike,
        )
        first[question.id] = {0: played.rounds[0].turns}
    calls = [call for model in models.values() for call in model.calls]
    return calls, Given(rounds=first)


def _pool(question: Question, knowledge: Knowledge | None, pool_of: PoolOf | None) -> KnowledgePool:
    if knowledge is None:
        return EMPTY_POOL
    if pool_of is not None:
        return pool_of(question)
    kept = [(source, n) for source in knowledge.sources for n in range(knowledge.count(source))]
    passages = [
        Passage(source=source, key=f"{source}-{n}", title="A title", text=f"{source} {n} {_PASSAGE}", score=0, rank=n)
        for source, n in kept[: knowledge.most_passages]
    ]
    return KnowledgePool(passages=tuple(passages))


async def _nothing_found(*_: object) -> Hits:
    return Hits()


async def _all_alike(question: Question, candidates: Sequence[str]) -> Sequence[float]:
    return [0.0] * len(candidates)
