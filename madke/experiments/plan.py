"""What runs will take, found out by playing their debates once with a model that only counts.

Each debate is played to its last round with the real prompts, pools and call keys; what would end it earlier is asked
of the same debate. So calls are exact for a debate of a length and pools that are there, unless calls fail. Tokens are
estimates: four characters for one, and replies of a length that is assumed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from madke.core.chat import ChatRequest, Completion, Purpose, Usage
from madke.core.knowledge import EMPTY_POOL, Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Turn
from madke.data import FirstRounds
from madke.engine.cost import possible_rounds, stage_calls
from madke.engine.debate import debate
from madke.engine.ending import FINISHES
from madke.engine.parse import marked
from madke.engine.protocol import MAX_DEBATERS, Knowledge, Protocol
from madke.engine.scene import Scene
from madke.experiments.experiment_spec import ExperimentSpec, debaters_at_cost
from madke.experiments.recipe import Arm
from madke.knowledge.pool_file import merge_pools, read_pools
from madke.llm.prices import Price, Prices, cost, estimated_usage, price_of
from madke.llm.store import call_key
from madke.runs.job import Job, with_first_rounds
from madke.runs.run_pools import pool_of
from madke.tasks import get_task
from madke.tasks.choice import lettered

REPLY_TOKENS = 150
"""Tokens that a reply is taken to have, where nothing else is said."""

_PLAYED = 50
"""Questions of a run that are played, evenly spread; the others are taken to be like them."""

_PASSAGE = "word " * 100
"""A passage of a pool that is not there yet: Wikipedia's have a hundred words."""

_ANSWERING = ("speak", "reply", "summarize", "extract")
"""Stages whose replies hold an answer."""

PoolOf = Callable[[Question], KnowledgePool]
"""A question's pool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    paid: float = 0
    """Calls that no earlier run of the same experiment makes, or may make where this is the least. Tokens and cost are
    theirs."""
    prompt_tokens: float = 0
    completion_tokens: float = 0
    cost: float = 0
    """Where their models have a price."""
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
    assumed_passages: bool = False
    """Whether it has knowledge, and no pool file holds all of it yet: then passages are made up."""
    debaters: tuple[int, int] | None = None
    """The fewest and the most, where their number follows from what other runs will have cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """A call of a debate, in the first repeat."""

    purpose: Purpose
    key: str
    surely: str
    """The key and the order rule. The order in which debaters read may depend on replies, which the plan does not know.
    So only arms with the same rule surely share the call."""
    usage: Usage
    price: Price | None

    def load(self, times: float, repeats: int, known: int) -> Load:
        """The load of ``times`` calls over all repeats; in ``known`` repeats an earlier arm paid for the call."""
        paid = times * (1 - min(known, repeats) / repeats)
        usage = self.usage
        return Load(
            calls=times,
            all_tokens=(usage.prompt_tokens + usage.completion_tokens) * times,
            paid=paid,
            prompt_tokens=usage.prompt_tokens * paid,
            completion_tokens=usage.completion_tokens * paid,
            cost=cost(usage, self.price) * paid if self.price else 0,
        )


@dataclass(kw_only=True, slots=True)
class _Counting:
    """A model that notes what it is asked, and replies with words that settle nothing: no two answers are alike."""

    name: str
    protocol: Protocol
    reply_tokens: int
    price: Price | None
    question: Question
    calls: list[_Call]

    async def complete(self, request: ChatRequest) -> Completion:
        """Note a request, and reply to it."""
        usage = Usage(
            prompt_tokens=estimated_usage(request.messages, "").prompt_tokens,
            completion_tokens=min(self.reply_tokens, request.max_tokens),
            estimated=True,
        )
        purpose, key = request.purpose, call_key(self.name, request)
        surely = f"{key} {self.protocol.order.by}" if purpose.round > 1 else key
        self.calls.append(_Call(purpose=purpose, key=key, surely=surely, usage=usage, price=self.price))
        # Other prompts have other replies, so that what follows from them is not taken for shared.
        text = f"{self._text(purpose, key)} {key[:16]} "
        return Completion(text=text.ljust(4 * usage.completion_tokens, "."), usage=usage)

    def _text(self, purpose: Purpose, key: str) -> str:
        """As many passages as a debater may choose, at random, or, where there are enough, another answer each turn."""
        knowledge = self.protocol.knowledge
        if purpose.stage == "select" and knowledge is not None:
            count = min(knowledge.max_selected, knowledge.pool_limit)
            return "".join(f"[{n}]" for n in Random(key).sample(range(knowledge.pool_limit), count))
        if purpose.stage not in _ANSWERING:
            return ""
        names = [debater.name for debater in self.protocol.cast]
        turn = purpose.round * len(names) + (names.index(purpose.agent) if purpose.agent in names else 0)
        options = get_task(self.question.task).choices or [letter for letter, _ in lettered(self.question.choices)]
        answer = options[turn % len(options)] if options else str(turn)
        return f"The answer is {marked(answer, self.protocol.marker)}"


@dataclass(kw_only=True, slots=True)
class _Simulated:
    """The calls of a run's debates, which never settle."""

    questions: int
    calls: list[_Call] = field(default_factory=list)
    endings: list[_Call] = field(default_factory=list)
    """With which they would end after fewer rounds than they have."""
    first_rounds: dict[str, dict[int, tuple[Turn, ...]]] = field(default_factory=dict)

    def shortest(self, protocol: Protocol) -> Iterator[tuple[_Call, float]]:
        """The calls of debates that end as early as they can, and how much of each is made.

        ``protocol`` is the run's; it may have fewer debaters.
        """
        rounds, roles = possible_rounds(protocol)[0], protocol.roles
        by_stage: dict[str, list[_Call]] = defaultdict(list)
        endings = [call for call in self.endings if call.purpose.round == rounds]
        for call in [call for call in self.calls if call.purpose.round <= rounds] + endings:
            if call.purpose.agent in roles:
                by_stage[call.purpose.stage].append(call)
        fewest = {stage.stage: stage.fewest for stage in stage_calls(protocol, rounds)}
        for stage, calls in by_stage.items():
            share = min(1.0, fewest.get(stage, len(calls)) * self.questions / len(calls))
            yield from ((call, share) for call in calls)


@dataclass(kw_only=True, slots=True)
class Planner:
    """Plans runs one after the other; a later one does not pay for the calls of an earlier one."""

    prices: Prices
    reply_tokens: int = REPLY_TOKENS
    """What a reply is taken to have, if the protocol allows as many."""
    first_rounds: dict[str, FirstRounds] = field(default_factory=dict)
    """Name of a planned run -> the first round of its debates, for runs that take it over."""
    _known: dict[str, int] = field(default_factory=dict)
    """``surely`` of a call -> in how many repeats earlier runs make it, if no debate settles."""
    _possible: dict[str, int] = field(default_factory=dict)
    """``key`` of a call -> in how many repeats earlier runs may make it, whenever their debates end."""

    def plan(self, name: str, job: Job, pool_of: PoolOf | None, *, fewest: int | None = None) -> Planned:
        """What a run takes.

        Args:
            name: How the plan calls it.
            job: The run.
            pool_of: None where its pools are not there yet, or there is no knowledge.
            fewest: How few debaters it may have, where ``job`` has the most.
        """
        questions = spread(job.questions)
        simulated = _Simulated(questions=len(questions))
        for question in questions:
            asyncio.run(self._simulate(question, job, pool_of, simulated))
        self.first_rounds[name] = FirstRounds(rounds=simulated.first_rounds)
        protocol, repeats = job.protocol, job.spec.repeats
        fewer = protocol if fewest is None else protocol.model_copy(update={"debaters": fewest})
        debates = len(job.questions) * repeats
        scale = debates / len(questions)
        least, most = Load(), Load()
        for call, share in simulated.shortest(fewer):
            least += call.load(share * scale, repeats, self._possible.get(call.key, 0))
        for call in simulated.calls:
            most += call.load(scale, repeats, self._known.get(call.surely, 0))
        _note(self._known, [call.surely for call in simulated.calls if call.purpose.agent in fewer.roles], repeats)
        _note(self._possible, [call.key for call in simulated.calls + simulated.endings], repeats)
        models = set(job.spec.models.values())
        return Planned(
            name=name,
            debates=debates,
            least=least,
            most=most,
            unpriced=tuple(sorted(model for model in models if price_of(model, self.prices) is None)),
            assumed_passages=protocol.knowledge is not None and pool_of is None,
            debaters=None if fewest is None else (fewest, len(protocol.cast)),
        )

    async def _simulate(self, question: Question, job: Job, pool_of: PoolOf | None, simulated: _Simulated) -> None:
        """Note the calls of a debate that never settles, and the ends of it after fewer rounds."""
        protocol, calls = job.protocol, list[_Call]()
        cast = {
            role: _Counting(
                name=model,
                protocol=protocol,
                reply_tokens=self.reply_tokens,
                price=price_of(model, self.prices),
                question=question,
                calls=calls,
            )
            for role, model in job.spec.models.items()
        }
        same: Any = {"task": get_task(question.task), "prompts": job.variant, "seed": job.spec.seed}
        same["score_answers"] = _all_alike
        pool = _pool(question, protocol.knowledge, pool_of)
        given = job.first_round.of(question.id, 0) if job.first_round is not None else ()
        transcript = await debate(question, protocol, cast, pool, first_round=given, retrieve=_nothing_found, **same)
        simulated.calls += calls
        simulated.first_rounds[question.id] = {0: transcript.rounds[0].turns}
        calls.clear()
        scene = Scene(question=question, protocol=protocol, cast=cast, pool=pool, clock=lambda: 0.0, **same)
        for rounds in possible_rounds(protocol):
            if rounds < len(transcript.rounds):
                await FINISHES[protocol.finish](scene, transcript.rounds[:rounds])
        simulated.endings += calls


def _note(known: dict[str, int], keys: Sequence[str], repeats: int) -> None:
    known.update((key, max(repeats, known.get(key, 0))) for key in keys)


def _pool(question: Question, knowledge: Knowledge | None, pool_of: PoolOf | None) -> KnowledgePool:
    if knowledge is None:
        return EMPTY_POOL
    if pool_of is not None:
        return pool_of(question)
    kept = [(source, n) for source in knowledge.sources for n in range(knowledge.count(source))]
    passages = [
        Passage(source=source, key=f"{source}-{n}", title="A title", text=f"{source} {n} {_PASSAGE}", score=0, rank=n)
        for source, n in kept[: knowledge.pool_limit]
    ]
    return KnowledgePool(passages=tuple(passages))


async def _nothing_found(*_: object) -> Hits:
    return Hits()


async def _all_alike(question: Question, candidates: Sequence[str]) -> Sequence[float]:
    return [0.0] * len(candidates)


def planned(
    experiment_spec: ExperimentSpec,
    planner: Planner,
    pools: Path | None = None,
    *,
    debaters: Callable[[Arm], int | None] = lambda arm: None,
) -> list[Planned]:
    """What each arm takes, calls that arms share counted for the first of them alone.

    Args:
        experiment_spec: The experiment.
        planner: Knows prices.
        pools: The pools of all arms, where they are frozen; None: what the pool files of the setting hold.
        debaters: How many an arm has whose number follows from what others cost, where these have run.
    """
    plans: dict[str, Planned] = {}
    with _pool_file(experiment_spec, pools) as (file, held):
        ids = {question.id for question in spread(experiment_spec.questions)}
        records = read_pools(file, only=ids) if file is not None else {}
        for arm in experiment_spec.arms:
            known = debaters(arm)
            few, many = (known, known) if known is not None else _debaters(arm, plans)
            job = experiment_spec.job(arm, debaters=many)
            if arm.first_round:
                job = with_first_rounds(job, planner.first_rounds[arm.first_round.arm].reordered(arm.first_round.order))
            knowledge = job.protocol.knowledge

            def pool(question: Question, knowledge: Knowledge | None = knowledge) -> KnowledgePool:
                return pool_of(records[question.id], knowledge) if knowledge is not None else EMPTY_POOL

            there = file is not None and knowledge is not None and held.issuperset(knowledge.sources)
            fewest = few if few != many else None
            plans[arm.name] = planner.plan(arm.name, job, pool if there else None, fewest=fewest)
    return list(plans.values())


@contextmanager
def _pool_file(experiment_spec: ExperimentSpec, frozen: Path | None) -> Iterator[tuple[Path | None, set[str]]]:
    """A file with the pools that are there already, and the sources that it holds for every question."""
    if frozen is not None:
        yield frozen, set(experiment_spec.all_specs)
        return
    held = set(experiment_spec.held.intersection(experiment_spec.all_specs))
    if not held:
        yield None, held
        return
    with TemporaryDirectory(prefix="madke-plan-") as folder:
        file = Path(folder) / "pools.jsonl"
        merge_pools(experiment_spec.pools, experiment_spec.questions, file, sources=sorted(held))
        yield file, held


def _debaters(arm: Arm, plans: Mapping[str, Planned]) -> tuple[int, int] | tuple[None, None]:
    """The fewest and the most debaters of an arm whose number follows from what others will have cost."""
    match = arm.match_cost
    if match is None:
        return None, None
    what = "calls" if match.by == "calls" else "all_tokens"
    target, unit = plans[match.arm], plans[match.unit]
    few = debaters_at_cost(getattr(target.least, what) / target.debates, getattr(unit.most, what) / unit.debates)
    many = debaters_at_cost(getattr(target.most, what) / target.debates, getattr(unit.least, what) / unit.debates)
    return few, max(few, min(many, MAX_DEBATERS))


def spread(questions: Sequence[Question]) -> list[Question]:
    """Those that are played, from the first to the last dataset: questions stand dataset by dataset."""
    count = min(_PLAYED, len(questions))
    return [questions[n * len(questions) // count] for n in range(count)]
