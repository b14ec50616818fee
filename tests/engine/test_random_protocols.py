"""Random protocols: what is foretold of a debate is what happens."""

from collections import Counter, defaultdict
from itertools import product

from hypothesis import HealthCheck, Phase, given, settings

from madke.core.chat import Completion, Usage
from madke.core.transcript import Stance, Turn
from madke.engine.cost import calls, possible_rounds, stage_calls
from madke.engine.protocol import STAGES, Protocol
from tests.engine.test_cost import WAYS, debating
from tests.support.any_variant import play_any
from tests.support.random_protocols import protocols, variant_of

OUTSIDERS = ("Eve", "Flo")
"""Agents outside of every cast, who may have given the first stances."""

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


def counted(protocol: Protocol) -> dict[int, list[Counter[str]]]:
    """Number of rounds -> calls of each stage, of debates that end in all ways and rounds. A call takes one token."""
    found: dict[int, list[Counter[str]]] = defaultdict(list)
    budgets = range(1, calls(protocol, protocol.rounds)[1] + 2) if protocol.stop == "budget" else [None]
    for way, end, first, budget in product(WAYS, range(1, protocol.rounds + 2), given_rounds(protocol), budgets):
        variant = variant_of(protocol.model_copy(update={"token_budget": budget}))
        reply = debating(protocol, way, end)
        one = Usage(prompt_tokens=1)
        transcript, model = play_any(
            variant, lambda request, reply=reply: Completion(text=reply(request), usage=one), first_round=first
        )
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
