"""What runs will take, found out by playing their debates with a model that only counts.

Each debate is played to its last round with the real prompts, pools and call keys, and once more for every earlier
round that it can end with. So calls are exact for a debate of a length and pools that are there, unless calls fail.
Tokens are estimates: four characters for one, and replies of a length that is assumed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from madke.core.question import Question
from madke.data import Given
from madke.engine.cost import possible_rounds, stage_calls
from madke.engine.protocol import MOST_DEBATERS
from madke.experiments.counting import Call, PoolOf, counted
from madke.experiments.recipe import Arm
from madke.experiments.setting import Setting, debaters_for
from madke.knowledge.pool_file import merge_pools
from madke.llm.prices import Prices, cost, price_of
from madke.runs.job import Job
from madke.runs.pools import RunPools

REPLY_TOKENS = 150
"""Tokens that a reply is taken to have, where nothing else is said."""

_PLAYED = 50
"""Questions of a run that are played, evenly spread; the others are taken to be like them."""

_CLOSING = ("summarize", "extract", "pick")
"""Stages of a debate's end: those of a shorter debate have other prompts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    paid: float = 0
    """Calls that no earlier run of the same experiment makes, or may make where this is the least."""
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
    assumed_passages: bool = False
    """Whether it has knowledge, and no pool file holds all of it yet: then passages are made up."""
    debaters: tuple[int, int] | None = None
    """The fewest and the most, where their number follows from what other runs will have cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Played:
    """The calls of a run, whose debates never settle."""

    job: Job
    calls: Sequence[Call]
    endings: Mapping[int, Sequence[Call]]
    """Rounds -> how a debate ends with them; for fewer rounds than there can be."""
    questions: int
    """Those that were played."""

    @property
    def scale(self) -> float:
        """Debates of the run for each one that was played."""
        return len(self.job.questions) * self.job.repeats / self.questions

    def shortest(self) -> Iterator[tuple[Call, float]]:
        """The calls of debates that end as early as they can, and how much of each is made."""
        protocol = self.job.variant.protocol
        rounds = possible_rounds(protocol)[0]
        by_stage: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.round <= rounds and call.stage not in _CLOSING:
                by_stage[call.stage].append(call)
        for call in self.endings.get(rounds, [call for call in self.calls if call.stage in _CLOSING]):
            by_stage[call.stage].append(call)
        fewest = {stage.stage: stage.fewest for stage in stage_calls(protocol, rounds)}
        for stage, calls in by_stage.items():
            share = min(1.0, fewest.get(stage, len(calls)) * self.questions / len(calls))
            yield from ((call, share) for call in calls)


@dataclass(kw_only=True, slots=True)
class Planner:
    """Plans runs one after the other; a later one does not pay for the calls of an earlier one.

    Args:
        prices: Of the models.
        reply_tokens: What a reply is taken to have, if the protocol allows as many.
    """

    prices: Prices
    reply_tokens: int = REPLY_TOKENS
    first_rounds: dict[str, Given] = field(default_factory=dict)
    """Name of a planned run -> the first round of its debates, for runs that take it over."""
    _known: dict[str, int] = field(default_factory=dict)
    """``surely`` of a call -> in how many repeats earlier runs make it, if no debate settles."""
    _possible: dict[str, int] = field(default_factory=dict)
    """``key`` of a call -> in how many repeats earlier runs may make it, whenever their debates end."""

    def plan(self, name: str, job: Job, pool_of: PoolOf | None, *, largest: Job | None = None) -> Planned:
        """What a run takes.

        Args:
            name: How the plan calls it.
            job: The run.
            pool_of: Its pools; None where they are not there yet, or there is no knowledge.
            largest: The run with the most debaters that it may have, where ``job`` has the fewest.
        """
        fewer = self._played(name, job, pool_of)
        more = fewer if largest is None else self._played(name, largest, pool_of)
        least, most = Load(), Load()
        for call, share in fewer.shortest():
            least += _load_of(call, share * fewer.scale, job.repeats, self._possible.get(call.key, 0))
        for call in more.calls:
            most += _load_of(call, more.scale, job.repeats, self._known.get(call.surely, 0))
        protocol = job.variant.protocol
        planned = Planned(
            name=name,
            debates=len(job.questions) * job.repeats,
            least=least,
            most=most,
            unpriced=tuple(sorted({model for model in job.models.values() if price_of(model, self.prices) is None})),
            assumed_passages=protocol.knowledge is not None and pool_of is None,
            debaters=None if largest is None else (len(protocol.cast), len(largest.variant.protocol.cast)),
        )
        _note(self._known, [call.surely for call in fewer.calls], job.repeats)
        for calls in (more.calls, *more.endings.values()):
            _note(self._possible, [call.key for call in calls], job.repeats)
        return planned

    def _played(self, name: str, job: Job, pool_of: PoolOf | None) -> _Played:
        questions = _spread(job.questions, _PLAYED)
        protocol = job.variant.protocol
        play = partial(
            counted, job, questions=questions, pool_of=pool_of, prices=self.prices, reply_tokens=self.reply_tokens
        )
        calls, self.first_rounds[name] = asyncio.run(play(protocol))
        endings = {}
        for rounds in possible_rounds(protocol)[:-1]:
            shorter, _ = asyncio.run(play(protocol.model_copy(update={"rounds": rounds})))
            endings[rounds] = [call for call in shorter if call.stage in _CLOSING]
        return _Played(job=job, calls=calls, endings=endings, questions=len(questions))


def _note(known: dict[str, int], keys: Sequence[str], repeats: int) -> None:
    for key in keys:
        known[key] = max(repeats, known.get(key, 0))


def _load_of(call: Call, times: float, repeats: int, known: int) -> Load:
    """A call that is made so often in all repeats together; in so many of them it is known, and not paid."""
    paid = times * (1 - min(known, repeats) / repeats)
    return Load(
        calls=times,
        all_tokens=(call.usage.prompt_tokens + call.usage.completion_tokens) * times,
        paid=paid,
        prompt_tokens=call.usage.prompt_tokens * paid,
        completion_tokens=call.usage.completion_tokens * paid,
        cost=cost(call.usage, call.price) * paid if call.price else 0,
    )


def planned(
    setting: Setting,
    planner: Planner,
    pools: Path | None = None,
    *,
    debaters: Callable[[Arm], int | None] = lambda arm: None,
) -> list[Planned]:
    """What each arm takes, calls that arms share counted for the first of them alone.

    Args:
        setting: The experiment.
        planner: Knows prices.
        pools: The pools of all arms, where they are frozen; None: what the pool files of the setting hold.
        debaters: How many an arm has whose number follows from what others cost, where these have run.

    Raises:
        UserError: An arm cannot be run, or a pool file is wrong.
    """
    plans: dict[str, Planned] = {}
    with _pool_file(setting, pools) as (file, held):
        for arm in setting.arms:
            given = planner.first_rounds[arm.given.arm].reordered(arm.given.order) if arm.given else None
            known = debaters(arm)
            few, many = (known, known) if known is not None else _debaters(arm, plans)
            job = setting.job(arm, given=given, debaters=few)
            largest = None if many == few else setting.job(arm, given=given, debaters=many)
            knowledge = job.variant.protocol.knowledge
            there = file is not None and knowledge is not None and held.issuperset(knowledge.sources)
            pool_of = RunPools(file, knowledge, setting.questions).of if there else None
            plans[arm.name] = planner.plan(arm.name, job, pool_of, largest=largest)
    return list(plans.values())


@contextmanager
def _pool_file(setting: Setting, frozen: Path | None) -> Iterator[tuple[Path | None, set[str]]]:
    """A file with the pools that are there already, and the sources that it holds for every question."""
    specs = setting.all_specs()
    if frozen is not None:
        yield frozen, set(specs)
        return
    held = set(setting.held.intersection(specs))
    if not held:
        yield None, held
        return
    with TemporaryDirectory(prefix="madke-plan-") as folder:
        file = Path(folder) / "pools.jsonl"
        merge_pools(setting.pools, setting.questions, file, sources=sorted(held))
        yield file, held


def _debaters(arm: Arm, plans: Mapping[str, Planned]) -> tuple[int, int] | tuple[None, None]:
    """The fewest and the most debaters of an arm whose number follows from what others will have cost."""
    dear = arm.debaters_for
    if dear is None:
        return None, None
    target, unit = (_of_a_debate(plans[name], dear.by) for name in (dear.arm, dear.unit))
    few, many = debaters_for(target[0], unit[1]), debaters_for(target[1], unit[0])
    return few, max(few, min(many, MOST_DEBATERS))


def _of_a_debate(plan: Planned, what: str) -> tuple[float, float]:
    """Calls or tokens of the shortest and of the longest debate."""
    least, most = (
        (load.calls if what == "calls" else load.all_tokens) / plan.debates for load in (plan.least, plan.most)
    )
    return least, most


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many, from the first to the last dataset: questions stand dataset by dataset."""
    count = min(most, len(questions))
    return [questions[n * len(questions) // count] for n in range(count)]
