"""What a protocol says that a debate costs is what the engine spends."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.engine.cost import calls, possible_rounds, stage_calls
from madke.engine.protocol import Protocol
from madke.variants import load_variant, variant_folders
from madke.variants.load import Variant
from tests.support.any_variant import play_any, stating

WAYS = ("all agree", "the judge settles", "the judge settles and answers", "values differ")


def debating(protocol: Protocol, way: str, end: int) -> Callable[..., Any]:
    """Replies of a debate that ends in round ``end`` in one of the :data:`WAYS`, if its protocol lets it end so."""
    names = [debater.name for debater in protocol.cast]

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        settled = purpose.round >= end
        if protocol.samples and purpose.agent in names:
            # One call whatever the round: one answer that differs delays the end by a group, two by two.
            settled = names.index(purpose.agent) >= end - 1
        match purpose.stage:
            case "select":
                return "[0]"
            case "reflect":
                return "[Yes]" if settled else "[No]"
            case "judge" if way == "the judge settles and answers" and settled:
                return json.dumps({"settled": True, "side": names[0], "reason": "", "answer": "Lake Baikal"})
            case "judge":
                return "[Yes]" if settled and way == "the judge settles" else "[No]"
            case "pick":
                return f"[{names[0]}]"
        if purpose.agent not in names or (settled and way in ("all agree", "values differ")):
            return stating(protocol, "Lake Baikal")
        if way == "values differ":
            return stating(protocol, str(100 * purpose.round + names.index(purpose.agent)))
        return stating(protocol, f"Lake {'ABCDEFGHIJ'[names.index(purpose.agent)]}{'klmn'[purpose.round - 1]}")

    return reply


def spent(variant: Variant, way: str, end: int) -> tuple[int, ...]:
    """Rounds and model calls of such a debate."""
    transcript, model = play_any(variant, debating(variant.protocol, way, end))
    assert not transcript.degraded
    return len(transcript.rounds), model.calls


def check(variant: Variant) -> None:
    """Every debate costs what is foretold; the cheapest and the dearest that are foretold happen."""
    protocol = variant.protocol
    found = {spent(variant, way, end) for way in WAYS for end in range(1, protocol.rounds + 2)}
    possible = possible_rounds(protocol)
    assert {rounds for rounds, _ in found} == set(possible)
    for rounds in possible:
        counts = {count for taken, count in found if taken == rounds}
        assert (min(counts), max(counts)) == calls(protocol, rounds), rounds


@pytest.mark.parametrize("name", variant_folders())
def test_every_shipped_variant_takes_the_calls_that_its_protocol_says(name: str) -> None:
    check(load_variant(name))


@pytest.mark.parametrize(
    "settings",
    [
        {"knowledge.select": "all"},
        {"knowledge": None, "stop": "agreement_then_judge", "finish": "agreed_or_summarizer"},
        {"stop": "agreement", "finish": "agreed_or_summarizer"},
        {"stop": "stability", "finish": "majority"},
        {"first_round_given": True, "judge_asked": "always"},
        {"debaters": 4, "rounds": 2, "talk.later": "sequential", "sees.peers": "latest"},
    ],
)
def test_settings_change_the_calls_as_they_change_the_debate(settings: dict[str, Any]) -> None:
    check(load_variant("madke").with_settings(settings))


def test_an_answer_extracted_after_every_round_costs_a_call_a_round() -> None:
    check(load_variant("liang").with_settings({"extract": "each_round"}))


def test_madke_takes_2nr_plus_r_plus_1_calls() -> None:
    protocol = Protocol(source="", debaters=5, rounds=4)
    for rounds in possible_rounds(protocol):
        assert calls(protocol, rounds) == (2 * 5 * rounds + rounds + 1,) * 2
    assert [stage.formula for stage in stage_calls(protocol, 1)] == ["n r", "n r", "r", "1"]
