"""What a protocol may say, and what contradicts itself and is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.plain import protocol

ONE = [{"name": "A"}]
POOL = {"sources": ["wiki", "google"]}


def refused(said: str, **settings: Any) -> Any:
    return pytest.param(settings, said, id=said[:60])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        refused("peers = latest needs talk.first or talk.later", sees={"peers": "latest"}),
        refused(
            "talk.first = sequential needs sees.peers = latest or history",
            talk={"first": "sequential"},
            sees={"peers": "last_round"},
        ),
        refused("form = chat needs sees.peers and sees.own = history", sees={"form": "chat"}),
        refused(
            "sees.anonymous",
            sees={"anonymous": True},
            talk={"later": "simultaneous_with_summary"},
        ),
        refused(
            "matrix needs a fixed number of debaters",
            debaters=2,
            knowledge={"sources": ["wiki"], "per_source": 2, "select": "one_each"},
            sees={"topology": [[0, 1], [1, 0]]},
        ),
        refused("sees.topology: 'tree' is not a topology for 3 debaters", sees={"topology": "tree"}),
        refused("sees.topology: .* is not a topology for 3 debaters", sees={"topology": [[0, 1], [1, 0]]}),
        refused("finish = only needs exactly one debater, found 3", finish="only"),
        refused("finish = judge_pick needs at least two debaters", finish="judge_pick", debaters=ONE),
        refused("stop = judge needs at least two debaters", stop="judge", debaters=1),
        refused("stop = budget and token_budget must be set together", stop="budget"),
        refused("extract = always needs finish = judge_extract", extract="always"),
        refused("order.decay needs order.by = madc", order={"by": "fixed", "decay": 0.5}),
        refused("order.score needs order.by = madc", order={"by": "random", "score": "per_reader"}),
        refused("order.decay needs order.score = global", order={"by": "madc", "score": "per_reader", "decay": 0.5}),
        refused("order.rotate_personas needs debaters with personas", order={"rotate_personas": True}),
        refused("first_round_given needs rounds >= 2: the given stances are round 1", first_round_given=True, rounds=1),
        refused(
            "select = one_each needs a debater for each of up to 10 passages, found 3",
            knowledge={**POOL, "select": "one_each"},
        ),
        refused(
            "per_debater_sources: there is no debater 'Z'", knowledge={**POOL, "per_debater_sources": {"Z": ["wiki"]}}
        ),
        refused(
            "per_debater_sources: 'arxiv' is not among the sources",
            knowledge={**POOL, "per_debater_sources": {"A": ["wiki", "arxiv"]}},
        ),
        refused(
            "knowledge.per_source has no number for source 'google'", knowledge={**POOL, "per_source": {"wiki": 3}}
        ),
        refused("knowledge.weights needs knowledge.fusion", knowledge={**POOL, "weights": {"wiki": 2}}),
        refused(
            "knowledge.weights: 'arxiv' is not among the sources",
            knowledge={**POOL, "fusion": "rrf", "weights": {"wiki": 2, "arxiv": 1}},
        ),
        refused(
            "allow_search needs knowledge.select = adaptive", knowledge={**POOL, "allow_search": True, "select": "all"}
        ),
        refused("'judge' is the name of a built-in stage", debaters=[{"name": "A", "prepare": ["judge"]}]),
        refused("a list of 1 to 200 debaters", debaters=[]),
        refused("must have distinct names", debaters=[{"name": "Debater 1"}, {"name": "debater-1"}]),
        refused("name must be one line", debaters=[{"name": "A\nDebater 9"}]),
        refused("reserved name 'you'", debaters=[{"name": "You"}]),
        refused("names a source twice", knowledge={**POOL, "sources": ["wiki", "wiki"]}),
        refused("has no effect", order="truth_last", rounds=1),
        refused(
            "each debater has one passage",
            debaters=10,
            knowledge={**POOL, "select": "one_each", "per_debater_sources": {"Debater 1": ["wiki"]}},
        ),
        refused("a debater cannot have the reserved name 'judge'", debaters=[{"name": "Judge"}]),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        protocol(**settings)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"depth": 3}, "depth"),
        ({"talk": {"middle": "sequential"}}, "talk.middle"),
        ({"sees": {"everything": True}}, "sees.everything"),
        ({"knowledge": {"pages": 3}}, "knowledge.pages"),
        ({"order": {"kind": "madc"}}, "order.kind"),
        ({"debaters": [{"name": "A", "age": 3}]}, "debaters.*.age"),
        ({"debaters": 0}, "debaters"),
        ({"rounds": 0}, "rounds"),
        ({"temperature": -0.1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"token_budget": 0}, "token_budget"),
        ({"level": 4}, "level"),
        ({"order": "loudest"}, "order.by"),
        ({"order": {"by": "madc", "decay": 0}}, "order.decay"),
        ({"order": {"by": "madc", "decay": 1.5}}, "order.decay"),
        ({"knowledge": {"per_source": 0}}, "knowledge.per_source"),
        ({"knowledge": {"per_source": {"wiki": 0, "google": 1}}}, "knowledge.per_source"),
        ({"knowledge": {"max_selected": 0}}, "knowledge.max_selected"),
        ({"knowledge": {"fusion": "sum"}}, "knowledge.fusion"),
        ({"knowledge": {"fusion": "rrf", "max_passages": 0}}, "knowledge.max_passages"),
        ({"knowledge": {"fusion": "rrf", "weights": {"wiki": 0}}}, "knowledge.weights.wiki"),
        ({"knowledge": {"fusion": "rrf", "weights": {"wiki": "much"}}}, "knowledge.weights.wiki"),
        ({"debaters": [{"name": "A", "prompt": "../x"}]}, "debaters.*.prompt"),
        ({"debaters": [{"name": "A", "temperature": -1}]}, "debaters.*.temperature"),
        ({"stop": "tired"}, "stop"),
        ({"finish": "coin"}, "finish"),
        ({"marker": "stars"}, "marker"),
        ({"overflow": "ignore"}, "overflow"),
    ],
)
def test_unknown_keys_and_impossible_values_are_refused_where_they_stand(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        protocol(**settings)
    places = [".".join(str(part) for part in error["loc"]) for error in refusal.value.errors()]
    first, _, last = field.partition(".*.")
    assert any(place.startswith(first) and place.endswith(last) for place in places)


def test_knowledge_none_and_an_orders_name_are_shorthands() -> None:
    assert protocol(knowledge="none").knowledge is None
    assert protocol(order="madc") == protocol(order={"by": "madc"})
    counts = protocol(knowledge={**POOL, "per_source": {"wiki": 10, "google": 5}}).knowledge
    assert (counts.count("wiki"), counts.count("google"), counts.pool_limit) == (10, 5, 15)


@pytest.mark.parametrize(
    ("settings", "roles", "stages"),
    [
        ({}, "", "speak reply"),
        ({"rounds": 1}, "", "speak"),
        ({"rounds": 1, "talk": {"first": "sequential"}, "sees": {"peers": "latest"}}, "", "speak reply"),
        ({"knowledge": POOL}, "", "select speak reply"),
        ({"knowledge": {**POOL, "select": "all"}}, "", "speak reply"),
        ({"stop": "judge", "finish": "summarizer"}, "judge summarizer", "speak reply judge summarize"),
        ({"stop": "agreement_then_judge"}, "judge", "speak reply judge"),
        ({"stop": "satisfied"}, "", "speak reply reflect"),
        ({"finish": "judge_extract"}, "judge", "speak reply extract"),
        ({"finish": "judge_pick"}, "judge", "speak reply pick"),
        ({"finish": "agreed_or_summarizer"}, "summarizer", "speak reply summarize"),
        ({"talk": {"later": "simultaneous_with_summary"}}, "summarizer", "speak reply digest"),
        (
            {"debaters": [{"name": "A", "prepare": ["plan", "check"]}, {"name": "B", "prepare": ["plan"]}]},
            "",
            "plan check speak reply",
        ),
    ],
)
def test_a_protocol_says_who_may_be_called_and_which_templates_it_needs(
    settings: dict[str, Any], roles: str, stages: str
) -> None:
    rules = protocol(**settings)
    names = tuple(debater.name for debater in rules.cast)
    assert rules.roles == (*names, *roles.split())
    assert rules.stages == tuple(stages.split())
