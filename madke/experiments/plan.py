"""Estimate the calls, tokens and cost of runs by simulating their debates with a model that only counts.

Each debate is simulated with the real prompts, pools and call keys in two worlds: all debaters always agree, or they
never do. The number of calls is exact for both and for existing pools, unless calls fail. Tokens are estimates: four
characters per token, and replies of an assumed length. Costs are those of a server that keeps no prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.data import FirstRounds
from madke.data.first_round import planned_first_rounds
from madke.engine.protocol import Protocol, equal_scores, nothing_found, placeholders, run_protocol, simulated_reply
from madke.engine.settings import MAX_DEBATERS, Knowledge
from madke.experiments.experiment_spec import ExperimentSpec, debaters_at_cost
from madke.experiments.recipe import Arm
from madke.models.model_names import has_endpoint
from madke.models.prices import Price, Prices, cost, estimated_usage, price_of
from madke.models.store import call_key
from madke.retrieval.pools import PoolRecord, merged_pools, pool_of, read_pools
from madke.runs.spec import RunSpec

PASSAGE = "word " * 100
"""A placeholder for passages of a missing pool: Wikipedia passages have a hundred words."""

REPLY_TOKENS = 150
"""Assumed tokens per reply, at most the protocol's maximum."""

_MAX_SIMULATED = 30
"""Simulated questions of a run, evenly spread; the others are assumed to be similar."""

PoolOf = Callable[[Question], KnowledgePool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    all_tokens: float = 0
    """Tokens of all calls, paid or not."""
    paid: float = 0
    """Calls that no earlier run makes in the same world; the tokens and cost below are for these."""
    prompt_tokens: float = 0
    completion_tokens: float = 0
    cost: float = 0

    def __add__(self, other: Load) -> Load:
        return Load(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Load)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The estimate for one run."""

    name: str
    debates: int
    """Questions times repeats."""
    least: Load
    """If every debate ends as early as possible."""
    most: Load
    """If every debate plays all rounds."""
    models: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    assumed_passages: bool = False
    """Whether placeholders replace passages, because no pool file contains all of the run's knowledge yet."""
    debaters: tuple[int, int] | None = None
    """Minimum and maximum number of debaters, if it depends on the cost of other runs."""


def planned_range(least: float, most: float, *, digits: int = 0) -> str:
    """A range of figures, or one figure if both ends are printed the same."""
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return low if low == high else f"{low} to {high}"


class _Call(NamedTuple):
    """A call of a debate, in the first repeat."""

    key: str
    usage: Usage
    price: Price | None


@dataclass(kw_only=True, slots=True)
class _Counting:
    """A model that records its requests. What it replies is not read (``Scene.simulate``)."""

    name: str
    price: Price | None
    calls: list[_Call]
    takes_schemas: bool = False
    """Arms that differ in ``structured`` share no bound call."""

    async def complete(self, request: ChatRequest) -> Completion:
        completion_tokens = min(REPLY_TOKENS, request.max_tokens)
        usage = replace(estimated_usage(request.messages, ""), completion_tokens=completion_tokens)
        key = call_key(self.name, request)
        self.calls.append(_Call(key, usage, self.price))
        # Distinct replies to distinct prompts, so that later calls do not look shared.
        text = f"The answer is {key[:16]} "
        return Completion(text=text.ljust(4 * completion_tokens, "."), usage=usage)


@dataclass(kw_only=True, slots=True)
class Planner:
    """Plans runs in order; a run does not pay for calls of earlier runs."""

    prices: Prices
    first_rounds: dict[str, FirstRounds] = field(default_factory=dict)
    """Name of a planned run -> its simulated first rounds, for runs that reuse them."""
    _known: dict[tuple[bool, str], int] = field(default_factory=dict)
    """World, and key of a call -> number of repeats in which earlier runs make it there."""

    def plan(self, name: str, spec: RunSpec, pool_of: PoolOf | None, *, fewest: int | None = None) -> Planned:
        """Estimate a run, under this name in the plan.

        ``pool_of`` is None if its pools do not exist yet, or it has no knowledge. ``fewest`` is the minimum number of
        debaters, if ``spec`` has the maximum.
        """
        questions = _spread(spec.questions)
        protocol, repeats = spec.protocol, spec.record.repeats
        fewer = protocol if fewest is None else spec.variant.with_settings({"debaters": fewest}).protocol
        debates = len(spec.questions) * repeats
        scale = debates / len(questions)

        async def simulate_debates(protocol: Protocol, *, agree: bool) -> tuple[Load, FirstRounds]:
            """The calls of debates in which all always agree, or never; and the first rounds."""
            calls: list[_Call] = []
            cast = {
                role: _Counting(
                    name=model, price=price_of(model, self.prices), calls=calls, takes_schemas=has_endpoint(model)
                )
                for role, model in spec.record.models.items()
            }
            knowledge, first_stances, reply = protocol.knowledge, {}, partial(simulated_reply, agree)
            for question in questions:
                longest = placeholders(knowledge, "A title", PASSAGE) if knowledge is not None else EMPTY_POOL
                pool = pool_of(question) if knowledge is not None and pool_of else longest
                scene = spec.scene(question, cast, pool, retrieve=nothing_found, score_answers=equal_scores)
                debate, _ = await run_protocol(replace(scene, protocol=protocol, simulate=reply))
                first_stances[question.id] = {0: debate.past[0].turns}
            known = [min(self._known.get((agree, call.key), 0), repeats) for call in calls]
            self._known |= {(agree, call.key): max(repeats, self._known.get((agree, call.key), 0)) for call in calls}
            paid = [(call, scale * (1 - before / repeats)) for call, before in zip(calls, known, strict=True)]
            load = Load(
                calls=scale * len(calls),
                all_tokens=scale * sum(call.usage.prompt_tokens + call.usage.completion_tokens for call in calls),
                paid=sum(times for _, times in paid),
                prompt_tokens=sum(call.usage.prompt_tokens * times for call, times in paid),
                completion_tokens=sum(call.usage.completion_tokens * times for call, times in paid),
                cost=sum(cost(call.usage, call.price) * times for call, times in paid if call.price),
            )
            return load, FirstRounds(rounds=first_stances)

        async def worlds() -> tuple[Load, Load]:
            most, self.first_rounds[name] = await simulate_debates(protocol, agree=False)
            least, _ = await simulate_debates(fewer, agree=True)
            return least, most

        least, most = asyncio.run(worlds())
        models = sorted(set(spec.record.models.values()))
        return Planned(
            name=name,
            debates=debates,
            least=least,
            most=most,
            models=tuple(models),
            unpriced=tuple(model for model in models if price_of(model, self.prices) is None),
            assumed_passages=protocol.knowledge is not None and pool_of is None,
            debaters=None if fewest is None else (fewest, len(protocol.cast)),
        )


def plan_arms(
    experiment_spec: ExperimentSpec,
    planner: Planner,
    pools: Path | None = None,
    *,
    debaters: Callable[[Arm], int | None] = lambda arm: None,
) -> list[Planned]:
    """Estimate every arm; calls that arms share count for the first of them only.

    ``pools`` are the frozen pools of all arms; None: the given pool files. ``debaters`` returns the number of debaters
    of an arm with ``match_cost`` if it is known already.
    """
    plans: dict[str, Planned] = {}
    records, covered = _existing_pools(experiment_spec, pools)
    for arm in experiment_spec.arms:
        known = debaters(arm)
        few, many = (known, known) if known is not None else _debaters(arm, plans)
        spec = experiment_spec.spec(arm, debaters=many)
        if arm.first_round:
            rounds, draw = planner.first_rounds[arm.first_round.arm], arm.first_round.draw
            first_rounds = planned_first_rounds(rounds, draw) if draw else rounds.reorder(arm.first_round.order)
            spec = replace(spec, first_round=first_rounds)
        knowledge = spec.protocol.knowledge

        def pool(question: Question, knowledge: Knowledge | None = knowledge) -> KnowledgePool:
            return pool_of(records[question.id], knowledge) if knowledge is not None else EMPTY_POOL

        has_pools = knowledge is not None and covered.issuperset(knowledge.sources)
        plan = planner.plan(arm.name, spec, pool if has_pools else None, fewest=few if few != many else None)
        # The stances of another arm decide which questions can be drawn for.
        plans[arm.name] = replace(plan, least=Load()) if arm.first_round and arm.first_round.draw else plan
    return list(plans.values())


def _existing_pools(experiment_spec: ExperimentSpec, frozen: Path | None) -> tuple[Mapping[str, PoolRecord], set[str]]:
    """Question id -> existing pool, and the sources that all of them hold."""
    if frozen is not None:
        ids = {question.id for question in _spread(experiment_spec.questions)}
        return read_pools(frozen, only=ids), set(experiment_spec.all_specs)
    covered = experiment_spec.pool_sources.keys() & experiment_spec.all_specs.keys()
    merged = merged_pools(experiment_spec.pools, experiment_spec.questions, sources=sorted(covered)) if covered else []
    return {record.id: record for record in merged}, covered


def _debaters(arm: Arm, plans: Mapping[str, Planned]) -> tuple[int, int] | tuple[None, None]:
    """The minimum and maximum number of debaters of an arm with ``match_cost``, by the plans of other arms."""
    match = arm.match_cost
    if match is None:
        return None, None
    what = "calls" if match.by == "calls" else "all_tokens"
    target, unit = plans[match.arm], plans[match.unit]
    # The shortest debates of an arm whose questions depend on others' results are none.
    cheapest = getattr(unit.least, what) or getattr(unit.most, what)
    few = debaters_at_cost(getattr(target.least, what) / target.debates, getattr(unit.most, what) / unit.debates)
    many = debaters_at_cost(getattr(target.most, what) / target.debates, cheapest / unit.debates)
    return few, max(few, min(many, MAX_DEBATERS))


def _spread(questions: Sequence[Question]) -> list[Question]:
    """The questions to simulate, evenly spread over all datasets."""
    count = min(_MAX_SIMULATED, len(questions))
    return [questions[n * len(questions) // count] for n in range(count)]
