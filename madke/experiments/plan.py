"""What runs will take, found out by playing their debates with a model that only counts.

Each debate is played to its last round with the real prompts, pools and call keys, so calls are exact for a debate of
that length and pools that are there; the shortest possible one is a part of it. Tokens are estimates: four characters
for one, and replies of a length that is assumed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from random import Random

from madke.core.chat import ChatRequest, Completion, Purpose, Usage
from madke.core.knowledge import EMPTY_POOL, Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from madke.engine.cost import possible_rounds, stage_calls
from madke.engine.debate import debate
from madke.engine.marker import marked
from madke.engine.protocol import Knowledge, Protocol
from madke.experiments.setting import Setting, debaters_for
from madke.llm.prices import Price, Prices, cost, price_of
from madke.llm.store import call_key
from madke.llm.usage import estimated_usage
from madke.runs.job import Job
from madke.runs.pools import RunPools
from madke.tasks import get_task
from madke.tasks.choice import lettered
from madke.tasks.claim import LABELS

REPLY_TOKENS = 150
"""Tokens that a reply is taken to have, where nothing else is said."""

_PLAYED = 50
"""Questions of a run that are played, evenly spread; the others are taken to be like them."""

_PASSAGE = "word " * 100
"""A passage of a pool that is not there yet: Wikipedia's have a hundred words."""

_ANSWERING = ("speak", "reply", "summarize", "extract")
"""Stages whose replies hold an answer."""

_CLOSING = ("summarize", "extract", "pick")
"""Stages of a debate's end, which a shorter debate has too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    paid: float = 0
    """Calls that no earlier run of the same experiment makes."""
    prompt_tokens: float = 0
    """Of the paid calls."""
    completion_tokens: float = 0
    """Of the paid calls."""
    cost: float = 0
    """Of the paid calls, where their models have a price."""
    all_tokens: float = 0
    """Of all calls, paid or not."""

    def __add__(self, other: Load) -> Load:
        return Load(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Load)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """What one run takes."""

    name: str
    debates: int
    """Questions times repeats."""
    least: Load
    """If every debate ends as early as it can."""
    most: Load
    """If none does."""
    unpriced: tuple[str, ...] = ()
    """Models without a price."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    stage: str
    round: int
    key: str
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
    calls: list[_Call] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Completion:
        """Note a request, and reply to it."""
        usage = Usage(
            prompt_tokens=estimated_usage(request.messages, "").prompt_tokens,
            completion_tokens=min(self.reply_tokens, request.max_tokens),
            estimated=True,
        )
        purpose = request.purpose
        key = call_key(self.name, request)
        self.calls.append(_Call(stage=purpose.stage, round=purpose.round, key=key, usage=usage, price=self.price))
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
    match question.task:
        case "choice":
            options = [letter for letter, _ in lettered(question.choices)]
            answer = options[turn % len(options)]
        case "claim":
            answer = LABELS[turn % len(LABELS)]
        case _:
            answer = str(turn)
    return f"The answer is {marked(answer, protocol.marker)}"


PoolOf = Callable[[Question], KnowledgePool]


@dataclass(kw_only=True, slots=True)
class Planner:
    """Plans runs one after the other; a later one does not pay for the calls of an earlier one.

    Args:
        prices: Of the models.
        reply_tokens: What a reply is taken to have, if the protocol allows as many.
    """

    prices: Prices
    reply_tokens: int = REPLY_TOKENS
    _known: dict[str, int] = field(default_factory=dict)
    """Key of a call in the first repeat -> in how many repeats earlier runs make it."""

    def plan(self, name: str, job: Job, pool_of: PoolOf | None, *, given: int = 0, order: str = "") -> Planned:
        """What a run takes.

        Args:
            name: How the plan calls it.
            job: The run.
            pool_of: Its pools; None where they are not there yet, or there is no knowledge.
            given: How many first-round stances come from outside, where they are not there yet.
            order: In which order debaters read what was said, and whose first round they take over, where that is not
                known yet: what follows from it is shared only between runs with the same.
        """
        played = _spread(job.questions, _PLAYED)
        protocol = job.variant.protocol
        calls = [
            replace(call, key=f"{call.key} {order}") if call.round > 1 else call
            for call in asyncio.run(self._play(job, played, pool_of, given, order))
        ]
        scale = len(job.questions) * job.repeats / len(played)
        rounds = possible_rounds(protocol)
        planned = Planned(
            name=name,
            debates=len(job.questions) * job.repeats,
            least=self._load(calls, job, rounds[0], len(played), scale),
            most=self._load(calls, job, rounds[-1], len(played), scale),
            unpriced=tuple(sorted({model for model in job.models.values() if price_of(model, self.prices) is None})),
        )
        for call in calls:
            self._known[call.key] = max(job.repeats, self._known.get(call.key, 0))
        return planned

    async def _play(
        self,
        job: Job,
        questions: Sequence[Question],
        pool_of: PoolOf | None,
        given: int,
        order: str,
    ) -> list[_Call]:
        protocol = job.variant.protocol
        models = {
            model: _Counting(
                name=model,
                protocol=protocol,
                reply_tokens=self.reply_tokens,
                price=price_of(model, self.prices),
                questions={question.id: question for question in questions},
            )
            for model in job.models.values()
        }
        cast = {role: models[name] for role, name in job.models.items()}
        for question in questions:
            await debate(
                question,
                protocol,
                cast,
                _pool(question, protocol.knowledge, pool_of),
                task=get_task(question.task),
                prompts=job.variant,
                seed=job.seed,
                given=self._first_round(job, question, given, order) if protocol.given else (),
                retrieve=_nothing_found,
                estimate=_all_alike,
            )
        return [call for model in models.values() for call in model.calls]

    def _first_round(self, job: Job, question: Question, given: int, order: str) -> Sequence[Turn]:
        if job.given is not None:
            return job.given.of(question.id, 0)
        # Other first rounds are other texts, so that prompts with them in are not taken for shared.
        said = order.ljust(4 * self.reply_tokens, ".")
        return [
            Turn(agent=f"Debater {n}", stance=Stance(text=said, answer=str(n), rule="given"))
            for n in range(1, given + 1)
        ]

    def _load(self, calls: Sequence[_Call], job: Job, rounds: int, debates: int, scale: float) -> Load:
        """The part of the played calls that debates of so many rounds have."""
        at_most = self._at_most(job.variant.protocol, rounds)
        by_stage: dict[str, list[_Call]] = defaultdict(list)
        for call in calls:
            if call.round <= rounds or call.stage in _CLOSING:
                by_stage[call.stage].append(call)
        load = Load()
        for stage, found in by_stage.items():
            share = min(1.0, at_most.get(stage, len(found)) * debates / len(found))
            for call in found:
                load += self._load_of(call, share * scale, job.repeats)
        return load

    @staticmethod
    def _at_most(protocol: Protocol, rounds: int) -> Mapping[str, int]:
        """Calls of the stages that the shortest debate may do without."""
        if rounds == protocol.rounds:
            return {}
        return {stage.stage: stage.fewest for stage in stage_calls(protocol, rounds) if stage.fewest < stage.most}

    def _load_of(self, call: _Call, times: float, repeats: int) -> Load:
        paid = times * (1 - min(self._known.get(call.key, 0), repeats) / repeats)
        return Load(
            calls=times,
            all_tokens=(call.usage.prompt_tokens + call.usage.completion_tokens) * times,
            paid=paid,
            prompt_tokens=call.usage.prompt_tokens * paid,
            completion_tokens=call.usage.completion_tokens * paid,
            cost=cost(call.usage, call.price) * paid if call.price else 0,
        )


def planned(setting: Setting, planner: Planner, pools: Path | None) -> list[Planned]:
    """What each arm takes, calls that arms share counted for the first of them alone.

    Args:
        setting: The experiment.
        planner: Knows prices.
        pools: The pool file, if it is there.

    Raises:
        UserError: An arm cannot be run.
    """
    plans: dict[str, Planned] = {}
    debaters_of: dict[str, int] = {}
    for arm in setting.arms:
        debaters = None
        if arm.debaters_for is not None:
            target, unit = (plans[name] for name in (arm.debaters_for.arm, arm.debaters_for.unit))
            debaters = debaters_for(_middle(target, arm.debaters_for.by), _middle(unit, arm.debaters_for.by))
        job = setting.job(arm, debaters=debaters)
        protocol = job.variant.protocol
        debaters_of[arm.name] = len(protocol.cast)
        pool_of = RunPools(pools, protocol.knowledge, setting.questions).of if pools and protocol.knowledge else None
        given = debaters_of[arm.given.arm] if arm.given else 0
        order = f"{protocol.order.by} {arm.given.arm} {arm.given.order}" if arm.given else protocol.order.by
        plans[arm.name] = planner.plan(arm.name, job, pool_of, given=given, order=order)
    return list(plans.values())


def _middle(plan: Planned, what: str) -> float:
    """Calls or tokens of a debate, half way between the shortest and the longest."""
    loads = (plan.least, plan.most)
    if what == "calls":
        return sum(load.calls for load in loads) / 2 / plan.debates
    return sum(load.all_tokens for load in loads) / 2 / plan.debates


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many, from the first to the last dataset: questions stand dataset by dataset."""
    count = min(most, len(questions))
    return [questions[n * len(questions) // count] for n in range(count)]


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
