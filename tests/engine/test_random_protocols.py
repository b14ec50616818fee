"""Random protocols: what is foretold of a debate is what happens."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Stance, Turn
from madke.data import FirstRounds
from madke.engine.cost import calls, pool_calls, possible_rounds, stage_calls
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import STAGES
from madke.experiments.plan import Planner
from madke.runs.job import job_of, with_first_rounds
from madke.runs.request import RunRequest
from tests.conftest import passage
from tests.engine.test_cost import WAYS, debating
from tests.support.any_variant import play_any
from tests.support.debates import QUESTION, Reply
from tests.support.random_protocols import protocols, variant_of

OUTSIDERS = ("Eve", "Flo")
"""Agents outside of every cast, who may have given the first stances."""
BOTH = "all agree and the judge settles"

pytestmark = pytest.mark.timeout(1200)  # Two to five minutes on a busy machine.

any_protocol = settings(
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a failing protocol simpler takes minutes
    database=None,
)


def given_rounds(protocol: Protocol) -> list[list[Turn]]:
    """First rounds that are given: by the debaters or others, who agree or not."""
    if not protocol.first_round_given:
        return [[]]
    cast = [debater.name for debater in protocol.cast]
    return [
        [Turn(agent=name, stance=Stance(text="It is", answer="Lake Baikal" if agree else name)) for name in agents]
        for agents in (cast, OUTSIDERS, (cast[0], *OUTSIDERS))
        for agree in (True, False)
    ]


def replying(protocol: Protocol, way: str, end: int) -> Reply:
    """Replies of a debate that ends so, if it can. No debater only repeats the words of another."""
    reply = debating(protocol, "all agree" if way == BOTH else way, end)
    judging = debating(protocol, "the judge settles", end) if way == BOTH else reply

    def counting(request: ChatRequest) -> Completion:
        purpose = request.purpose
        text = (judging if purpose.stage == "judge" else reply)(request)
        own = " ".join(f"{purpose.agent}{purpose.round}w{number}" for number in range(8))
        answer, _, confidence = text.partition("\n")
        if stage_of(purpose.stage) == "prepare":
            # Without an answer: a stance that repeats a sentence of its prompt says nothing of its own.
            text = f"{confidence}\n{own}."
        elif purpose.stage in ("speak", "reply") and protocol.marker != "text":
            text = f"{confidence}\n{own}.\n{answer}"
        return Completion(text=text, usage=Usage(prompt_tokens=1))

    return counting


def counted(protocol: Protocol) -> dict[int, list[Counter[str]]]:
    """Number of rounds -> calls of each stage, of debates that end in all ways and rounds. A call takes one token."""
    found: dict[int, list[Counter[str]]] = defaultdict(list)
    spent = calls(protocol, protocol.rounds)[1] + len(pool_calls(protocol))
    budgets = range(1, spent + 2) if protocol.stop == "budget" else [None]
    for way, end, first, budget in product(
        (*WAYS, BOTH), range(1, protocol.rounds + 2), given_rounds(protocol), budgets
    ):
        variant = variant_of(protocol.model_copy(update={"token_budget": budget}))
        transcript, model = play_any(variant, replying(protocol, way, end), first_round=first)
        assert not transcript.degraded
        found[len(transcript.rounds)].append(Counter(stage_of(request.purpose.stage) for request in model.requests))
    return found


def stage_of(stage: str) -> str:
    """The name of a stage in formulas."""
    return {"reply": "speak"}.get(stage, stage if stage in STAGES else "prepare")


@any_protocol
@given(protocols())
def test_debates_take_the_calls_that_their_protocol_says(protocol: Protocol) -> None:
    found = counted(protocol)
    assert found.keys() == set(possible_rounds(protocol))
    for rounds, debates in found.items():
        stages = stage_calls(protocol, rounds)
        cheapest = Counter({stage.stage: stage.fewest for stage in stages})
        dearest = Counter({stage.stage: stage.most for stage in stages})
        assert cheapest in debates
        assert dearest in debates
        totals = [spent.total() for spent in debates]
        assert (min(totals), max(totals)) == calls(protocol, rounds) == (cheapest.total(), dearest.total())
        assert all(spent.keys() <= dearest.keys() and spent <= dearest for spent in debates)


@any_protocol
@given(protocols())
def test_a_plan_foretells_the_same_calls(protocol: Protocol) -> None:
    question = replace(QUESTION, id="planned")
    request = RunRequest(questions=[question], protocol=variant_of(protocol))
    job = job_of(request, [question], data="", dataset=None, task=None)
    if protocol.first_round_given:
        job = with_first_rounds(job, FirstRounds(rounds={question.id: {0: tuple(given_rounds(protocol)[1])}}))
    names = [debater.name for debater in protocol.cast]
    pool = KnowledgePool(passages=tuple(passage("wiki", name, "T", f"text of {name}") for name in names))
    plan = Planner(prices={}).plan("a run", job, (lambda asked: pool) if protocol.knowledge else None)
    before, possible = len(pool_calls(protocol)), possible_rounds(protocol)
    assert plan.most.calls == before + calls(protocol, possible[-1])[1]
    assert plan.least.calls == pytest.approx(before + calls(protocol, possible[0])[0])
