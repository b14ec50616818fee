"""No field of a protocol is missing from its picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Debater, Knowledge, Rerank
from madke.report.diagram import diagram
from tests.engine.test_cost import WAYS
from tests.engine.test_random_protocols import any_protocol, replying
from tests.support.any_variant import play_any
from tests.support.random_protocols import protocols, valid, variant_of

TWO = [{"name": "Ada"}, {"name": "Bo"}]
WIKI = {"wiki": 1.0, "google": 1.0}


def ada(**fields: Any) -> dict[str, Any]:
    return {"debaters": [{"name": "Ada", **fields}, {"name": "Bo"}]}


def pool(**fields: Any) -> dict[str, Any]:
    return {"knowledge": fields}


PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "source": ({}, {"source": "another"}),
    "debaters": ({}, {"debaters": 3}),
    "debaters.name": (ada(), {"debaters": [{"name": "Al"}, {"name": "Bo"}]}),
    "debaters.prompt": (ada(), ada(prompt="own")),
    "debaters.persona": (ada(), ada(persona="You doubt.")),
    "debaters.model": (ada(), ada(model="m")),
    "debaters.temperature": (ada(), ada(temperature=0.1)),
    "debaters.prepare": (ada(), ada(prepare=["notes"])),
    "knowledge": ({}, {"knowledge": None}),
    "knowledge.sources": ({}, pool(sources=["wiki"])),
    "knowledge.per_source": ({}, pool(per_source=7)),
    "knowledge.query": ({}, pool(query="rewrite")),
    "knowledge.rerank": ({}, pool(rerank="llm")),
    "knowledge.rerank.model": (pool(rerank="llm"), pool(rerank="hf/x")),
    "knowledge.rerank.candidates": (pool(rerank="llm"), pool(rerank={"model": "llm", "from": 20})),
    "knowledge.rerank.keep": (pool(rerank="llm"), pool(rerank={"model": "llm", "keep": 3})),
    "knowledge.fusion": (pool(fusion="rrf"), pool(fusion="weighted")),
    "knowledge.weights": (pool(fusion="weighted", weights=WIKI), pool(fusion="weighted", weights={**WIKI, "wiki": 2})),
    "knowledge.max_passages": (pool(fusion="rrf"), pool(fusion="rrf", max_passages=4)),
    "knowledge.select": ({}, pool(select="all")),
    "knowledge.max_selected": ({}, pool(max_selected=2)),
    "knowledge.per_debater_sources": ({}, pool(per_debater_sources={"Debater 1": ["wiki"]})),
    "knowledge.allow_search": ({}, pool(allow_search=True)),
    "rounds": ({}, {"rounds": 2}),
    "talk.first": ({"sees": {"peers": "history"}}, {"sees": {"peers": "history"}, "talk": {"first": "sequential"}}),
    "talk.later": ({}, {"talk": {"later": "sequential"}}),
    "talk.groups": (
        {"debaters": 4, "rounds": 2, "talk": {"groups": [2, 2]}},
        {"debaters": 4, "rounds": 2, "talk": {"groups": [3, 1]}},
    ),
    "sees.peers": ({}, {"sees": {"peers": "history"}}),
    "sees.own": ({}, {"sees": {"own": "none"}}),
    "sees.topology": ({"debaters": 4}, {"debaters": 4, "sees": {"topology": "star"}}),
    "sees.anonymous": ({}, {"sees": {"anonymous": True}}),
    "sees.grouped": ({}, {"sees": {"grouped": True}}),
    "sees.form": (
        {"sees": {"peers": "history", "own": "history"}},
        {"sees": {"peers": "history", "own": "history", "form": "chat"}},
    ),
    "order.by": ({}, {"order": {"by": "madc"}}),
    "order.score": ({"order": {"by": "madc"}}, {"order": {"by": "madc", "score": "per_reader"}}),
    "order.decay": ({"order": {"by": "madc"}}, {"order": {"by": "madc", "decay": 0.5}}),
    "order.rotate_personas": (
        ada(persona="You doubt."),
        {**ada(persona="You doubt."), "order": {"rotate_personas": True}},
    ),
    "marker": ({}, {"marker": "brackets"}),
    "examples": ({}, {"examples": 2}),
    "cite": ({}, {"cite": True}),
    "level": ({}, {"level": 3}),
    "temperature": ({}, {"temperature": 0}),
    "max_tokens": ({}, {"max_tokens": 10}),
    "stop_strings": ({}, {"stop_strings": ["END"]}),
    "structured": ({}, {"structured": "off"}),
    "overflow": ({}, {"overflow": "drop"}),
    "first_round_given": ({}, {"first_round_given": True}),
    "stop": ({}, {"stop": "never"}),
    "agreement_share": ({"stop": "agreement"}, {"stop": "agreement", "agreement_share": 0.6}),
    "token_budget": ({"stop": "budget", "token_budget": 1000}, {"stop": "budget", "token_budget": 2000}),
    "judge_sees": ({}, {"judge_sees": "history"}),
    "extract": ({"finish": "judge_extract"}, {"finish": "judge_extract", "extract": "always"}),
    "finish": ({}, {"finish": "majority"}),
}
"""Field -> settings of two protocols that differ in it only."""


def fields_of(model: type[BaseModel], path: str = "") -> Iterator[str]:
    parts = {"debaters": Debater, "knowledge": Knowledge, "rerank": Rerank}
    for name, field in model.model_fields.items():
        part: Any = parts.get(name, field.annotation)
        is_part = isinstance(part, type) and issubclass(part, BaseModel)
        if name in parts or not is_part:
            yield path + name
        if is_part:
            yield from fields_of(part, f"{path}{name}.")


def picture(protocol: Protocol) -> str:
    """The diagram without the line that lists changed settings by their names."""
    lines, listed = [], False
    for line in diagram("x", protocol).splitlines():
        listed = line.startswith("settings") or (listed and line.startswith(" "))
        lines += [] if listed else [line]
    return "\n".join(lines)


def test_every_field_has_a_pair() -> None:
    assert set(PAIRS) == set(fields_of(Protocol))


@pytest.mark.parametrize("field", PAIRS)
def test_a_field_changes_the_picture(field: str) -> None:
    one, other = (picture(Protocol(**{"source": "a test", **settings})) for settings in PAIRS[field])
    assert one != other


@pytest.mark.timeout(1200)  # Minutes on a busy machine.
@any_protocol
@given(protocols(), protocols(), st.sampled_from(sorted(Protocol.model_fields)))
def test_debates_that_differ_have_pictures_that_differ(one: Protocol, drawn: Protocol, field: str) -> None:
    assume(getattr(one, field) != getattr(drawn, field))
    # Who reads nobody else reads its own stance either way; the picture does not say at which place of the prompt.
    reads_itself = len(one.cast) == 1 or one.sees.peers == drawn.sees.peers == "none"
    assume(field != "sees" or not reads_itself)
    other = valid({name: getattr(drawn if name == field else one, name) for name in Protocol.model_fields})
    if picture(one) != picture(other):
        return
    for way, end in product(WAYS, range(1, one.rounds + 1)):
        debates = [play_any(variant_of(p), replying(p, way, end)) for p in (one, other)]
        assert debates[0][0] == debates[1][0]
        assert debates[0][1].requests == debates[1][1].requests
