"""What a protocol may say, and what contradicts itself and is refused."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from madke.core.chat import ChatRequest, Completion
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import Protocol
from tests.support.plain import play, protocol, signed, tokens

PAIR = [{"name": "A"}, {"name": "B"}]
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
        refused(
            "talk.first = sequential needs sees.peers = latest or history",
            talk={"first": "sequential"},
            sees={"peers": "answers"},
        ),
        refused("form = chat needs sees.peers and sees.own = history", sees={"form": "chat"}),
        refused("form = chat needs sees.peers and sees.own = history", sees={"form": "chat", "peers": "history"}),
        refused("form = chat needs sees.peers and sees.own = history", sees={"form": "chat", "own": "history"}),
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
        refused(r"sees.topology: 'sparse\(-1\)' is not a topology", sees={"topology": "sparse(-1)"}),
        refused(r"sees.topology: 'sparse\(1\)x' is not a topology", sees={"topology": "sparse(1)x"}),
        refused("sees.topology: .* is not a topology for 3 debaters", sees={"topology": [[0, 1], [1, 0]]}),
        refused(
            "sees.topology: .* is not a topology for 3 debaters", sees={"topology": [[0, 1, 1], [1, 0, 1], [1, 0]]}
        ),
        refused("finish = only needs exactly one debater, found 3", finish="only"),
        refused("finish = judge_pick needs at least two debaters", finish="judge_pick", debaters=ONE),
        refused("stop = judge needs at least two debaters", stop="judge", debaters=1),
        refused("stop = agreement needs at least two debaters", stop="agreement", debaters=1),
        refused("stop = agreement_then_judge needs at least two", stop="agreement_then_judge", debaters=1),
        refused("stop = budget and token_budget must be set together", stop="budget"),
        refused("stop = budget and token_budget must be set together", token_budget=100),
        refused("extract = always needs finish = judge_extract", extract="always"),
        refused("extract = each_round needs finish = judge_extract", extract="each_round"),
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
        refused("knowledge.max_passages needs knowledge.fusion", knowledge={**POOL, "max_passages": 5}),
        refused(
            "knowledge.weights: 'arxiv' is not among the sources",
            knowledge={**POOL, "fusion": "rrf", "weights": {"wiki": 2, "arxiv": 1}},
        ),
        refused(
            "select = one_each needs a debater for each of up to 4 passages, found 3",
            knowledge={**POOL, "select": "one_each", "fusion": "rrf", "max_passages": 4},
        ),
        refused(
            "allow_search needs knowledge.select = adaptive", knowledge={**POOL, "allow_search": True, "select": "all"}
        ),
        refused("'judge' is the name of a built-in stage", debaters=[{"name": "A", "prepare": ["judge"]}]),
        refused("a list of 1 to 200 debaters", debaters=[]),
        refused("must have distinct names", debaters=[*PAIR, {"name": "A"}]),
        refused("must have distinct names", debaters=[{"name": "Debater 1"}, {"name": "debater-1"}]),
        refused("name must be one line", debaters=[{"name": "A\nDebater 9"}]),
        refused("name must be one line", debaters=[{"name": ""}]),
        refused("reserved name 'you'", debaters=[{"name": "You"}]),
        refused("reserved name 'anotheragent'", debaters=[{"name": "Another agent"}]),
        refused("names a source twice", knowledge={**POOL, "sources": ["wiki", "wiki"]}),
        refused("has no effect", order="truth_last", rounds=1),
        refused("has no effect", order="madc", sees={"peers": "none"}),
        refused(r"'sparse\(0\)' is not a topology", sees={"topology": "sparse(0)"}),
        refused(
            "each debater has one passage",
            debaters=10,
            knowledge={**POOL, "select": "one_each", "per_debater_sources": {"Debater 1": ["wiki"]}},
        ),
        refused("a debater cannot have the reserved name 'judge'", debaters=[{"name": "Judge"}]),
        refused("a debater cannot have the reserved name 'summarizer'", debaters=[{"name": "summarizer"}]),
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


def test_a_protocol_cannot_be_changed() -> None:
    rules = protocol()
    with pytest.raises(ValidationError, match="frozen"):
        rules.rounds = 5  # type: ignore[misc]


def test_the_defaults_are_madkes_reference_settings() -> None:
    rules = Protocol(source="x")
    assert [debater.name for debater in rules.cast] == ["Debater 1", "Debater 2"]
    assert (rules.rounds, rules.temperature, rules.stop, rules.finish) == (3, 0.5, "judge", "summarizer")
    assert (rules.knowledge.select, rules.knowledge.count("wiki"), rules.knowledge.max_selected) == ("adaptive", 5, 3)
    assert (rules.sees.peers, rules.sees.own, rules.sees.topology) == ("last_round", "last", "full")
    assert rules.level == 2


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


def literals(model: type[Any], path: str = "") -> dict[str, Any]:
    """Dotted path -> values, for every field of a protocol that takes one of a fixed set."""
    found = {}
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if get_origin(kind) is Literal:
                found[path + name] = set(get_args(kind))
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= literals(kind, f"{path}{name}.")
    return found


def one_by_one(agent: str, round_n: int) -> str:
    """Debaters all of whose answers differ in rounds 1 and 2, and agree from round 3 on."""
    return "Oslo" if round_n > 2 else f"{agent} town"


async def by_last_letter(question: Question, candidates: list[str]) -> list[int]:
    return [ord(candidate[-1]) for candidate in candidates]


FIVE = [{"name": name, "persona": f"You are {name}."} for name in "ABCDE"]
MIXED = dict(zip("ABCDE", ("Oslo", "Rome", "Lake Baikal", "Oslo", "Lake Baikal"), strict=True))
HISTORY = {"peers": "history", "own": "history"}
WORDS = {
    "A": "[Oslo] surely",
    "B": "perhaps [Oslo]",
    "C": "[Bern]\nConfidence: 1.0",
    "D": "this is it, it is [Ulmz]",
    "E": "this is it, surely, perhaps [Rome]",
}


def worded(**stages: Any) -> Callable[..., Any]:
    said = signed(**stages)
    return lambda request: WORDS.get(request.purpose.agent) if request.purpose.stage == "speak" else said(request)


def narrow(request: ChatRequest) -> str | Completion:
    """A model whose window holds two stances."""
    fits = len(tokens(request.messages[-1].content)) <= 2
    return signed()(request) if fits else Completion(outcome="too_long")


ENDING = signed(
    one_by_one,
    judge=lambda purpose: "[Yes]" if purpose.round == 4 else "[No]",
    reflect=lambda purpose: "[Yes]" if purpose.round == 5 else "[No]",
)
CLOSING = {"judge": "[No]", "extract": "[Kyiv]", "pick": "[A]", "summarize": "[Bonn]"}

SHOWN: dict[str, tuple[dict[str, Any], Any]] = {
    "knowledge.select": ({"rounds": 1}, [signed(select="Knowledge [1]")]),
    "talk.first": ({"talk": {"later": "sequential"}, "sees": {"peers": "latest"}}, [signed()]),
    "talk.later": ({"sees": {"peers": "history"}}, [signed(digest="sum")]),
    "sees.peers": ({"rounds": 3, "talk": {"later": "sequential"}}, [signed()]),
    "sees.own": ({"rounds": 3}, [signed()]),
    "sees.form": ({"sees": HISTORY}, [signed()]),
    "order.by": ({"debaters": FIVE, "seed": 5}, [signed(MIXED)]),
    "order.score": ({"debaters": FIVE, "order": {"by": "madc"}}, [signed(MIXED)]),
    "marker": (
        {"debaters": 1, "rounds": 1},
        [
            lambda _, said=said: said
            for said in ("It is [Oslo].", "It was (1981).", r"It is \boxed{Rome}.", "The answer is a clear sky.")
        ],
    ),
    "level": ({}, [signed()]),
    "overflow": ({}, [narrow]),
    "stop": ({"rounds": 6}, [ENDING]),
    "judge_sees": ({"stop": "judge"}, [signed(judge="[No]")]),
    "extract": (
        {"finish": "judge_extract", "stop": "judge"},
        [signed(judge='{"settled": true, "answer": "Oslo"}', extract="[Oslo]"), signed(judge="[No]", extract="[Oslo]")],
    ),
    "finish": ({"debaters": FIVE, "rounds": 1}, [worded(**CLOSING), signed(**CLOSING)]),
}
"""Field -> the rest of a protocol, and replies, under which each of its values makes another debate."""

NEEDS: dict[tuple[str, Any], dict[str, Any]] = {
    ("knowledge.select", "one_each"): {"knowledge.per_source": 1},
    ("stop", "budget"): {"token_budget": 1},
    ("finish", "only"): {"debaters": 1},
}
"""What a value needs besides."""


def test_every_field_with_a_fixed_set_of_values_is_shown_below() -> None:
    # The debate gets a pool, however it was made: these are shown where pools are built and loaded. What schemas change
    # is shown in test_bound_stages.
    assert set(literals(Protocol)) - {"knowledge.fusion", "knowledge.query", "structured"} == set(SHOWN)


@pytest.mark.parametrize("field", sorted(SHOWN))
def test_every_value_of_a_field_makes_another_debate(field: str, pool: KnowledgePool) -> None:
    traces = {value: trace(field, value, pool) for value in literals(Protocol)[field]}
    same = [pair for pair in combinations(traces, 2) if traces[pair[0]] == traces[pair[1]]]
    assert same == []


def trace(field: str, value: int | str, pool: KnowledgePool) -> list[Any]:
    """Everything that a value of a field can change: who was asked what, why it ended, and the answer."""
    settings, scenarios = SHOWN[field]
    said = []
    for replies in scenarios:
        chosen = set_in(settings, {field: value, **NEEDS.get((field, value), {})})
        known = pool if "knowledge" in chosen else EMPTY_POOL
        transcript, model = play(replies, pool=known, score_answers=by_last_letter, **chosen)
        asked = [(r.purpose.stage, r.purpose.agent, r.purpose.round, r.messages) for r in model.requests]
        said.append((asked, transcript.stop_reason, transcript.answer))
    return said


def set_in(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The settings with values set at dotted paths."""
    for path, value in changes.items():
        outer, dot, inner = path.partition(".")
        old = settings.get(outer, {})
        settings = {**settings, outer: set_in(old if isinstance(old, dict) else {}, {inner: value}) if dot else value}
    return settings
