"""``chateval`` against Chan et al.: three ways of talking, full and sparse connection."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript
from tests.support.debates import asked, failing, play, shown

NAMES = ["General Public", "Critic", "News Author"]
ONE_BY_ONE: dict[str, str] = {}
SIMULTANEOUS = {"talk.first": "simultaneous", "talk.later": "simultaneous"}
SUMMARIZED = {"talk.first": "simultaneous", "talk.later": "simultaneous_with_summary"}


def holding(*answers: str) -> Callable[..., Any]:
    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        if purpose.stage == "digest":
            return f"Minutes of round {purpose.round}."
        return f"{said(purpose.agent, purpose.round)} the answer is [{answers[NAMES.index(purpose.agent)]}]."

    return reply


def said(agent: str, n: int) -> str:
    return f"{agent} speaks in round {n}:"


def reads(transcript: Transcript) -> list[Any]:
    return [[turn.reads for turn in entry.turns] for entry in transcript.rounds]


def heard(request: ChatRequest) -> list[tuple[str, int]]:
    """Whose turns of which rounds a prompt shows, in the order in which they stand."""
    text = shown(request)
    all_turns = [(agent, n) for n in (1, 2, 3) for agent in NAMES]
    return sorted((turn for turn in all_turns if said(*turn) in text), key=lambda turn: text.index(said(*turn)))


@pytest.mark.parametrize(
    ("talk", "rounds", "calls"),
    [(ONE_BY_ONE, 2, 6), (ONE_BY_ONE, 3, 9), (SIMULTANEOUS, 2, 6), (SUMMARIZED, 2, 7), (SUMMARIZED, 3, 11)],
)
def test_calls_per_question(talk: dict[str, Any], rounds: int, calls: int) -> None:
    transcript, model = play("chateval", holding("x", "x", "x"), settings={**talk, "rounds": rounds})
    assert model.calls == calls
    assert (transcript.stop_reason, transcript.final.by) == ("rounds", "majority")


def test_one_by_one_each_reads_all_that_was_said_before_it() -> None:
    transcript, model = play("chateval", holding("x", "y", "z"))
    turns = [(agent, n) for n in (1, 2) for agent in NAMES]
    assert [(r.purpose.agent, r.purpose.round) for r in model.requests] == turns
    assert [heard(request) for request in model.requests] == [turns[:n] for n in range(6)]
    public, critic, author = NAMES
    assert reads(transcript) == [
        [(), (public,), (public, critic)],
        [(critic, author), (public, author, public), (public, critic, public, critic)],
    ]


def test_the_first_speaker_is_not_asked_to_take_anything_up() -> None:
    transcript, _ = play("chateval", holding("x", "y", "z"))
    assert [[turn.stance.stage for turn in entry.turns] for entry in transcript.rounds] == [
        ["speak", "reply", "reply"],
        ["reply", "reply", "reply"],
    ]


def test_its_own_turns_stand_under_its_name_which_it_is_told() -> None:
    _, model = play("chateval", holding("x", "y", "z"))
    (request,) = asked(model, agent="Critic", round=2)
    assert "You are Critic." in shown(request)
    assert [line for line in shown(request).splitlines() if " wrote in round " in line] == [
        "General Public wrote in round 1:",
        "Critic wrote in round 1:",
        "News Author wrote in round 1:",
        "General Public wrote in round 2:",
    ]


def test_simultaneous_turns_see_the_rounds_before_and_nothing_of_their_own_round() -> None:
    transcript, model = play("chateval", holding("x", "y", "z"), settings={**SIMULTANEOUS, "rounds": 3})
    for request in model.requests:
        n = request.purpose.round
        assert heard(request) == [(agent, before) for before in range(1, n) for agent in NAMES]
    public, critic, author = NAMES
    assert reads(transcript)[:2] == [[(), (), ()], [(critic, author), (public, author), (public, critic)]]


def test_with_a_summarizer_each_reads_the_summary_and_its_own_turns() -> None:
    transcript, model = play("chateval", holding("x", "y", "z"), settings={**SUMMARIZED, "rounds": 3})
    for request in (r for r in model.requests if r.purpose.stage != "digest"):
        agent, n = request.purpose.agent, request.purpose.round
        assert heard(request) == [(agent, before) for before in range(1, n)]
        assert [f"Minutes of round {before}." in shown(request) for before in (1, 2)] == [n == 2, n == 3]
    first, second = asked(model, stage="digest")
    assert heard(first) == [(agent, 1) for agent in NAMES]
    assert heard(second) == [(agent, 2) for agent in NAMES]
    assert "Minutes" not in shown(first)
    assert "Minutes of round 1." in shown(second)
    assert reads(transcript) == [[(), (), ()]] * 3
    assert [entry.digest and entry.digest.text for entry in transcript.rounds][2] is None


def test_without_a_summary_the_debate_goes_on_with_everybodys_own_turns() -> None:
    replies = failing(holding("x", "y", "x"), stage="digest")
    transcript, model = play("chateval", replies, settings=SUMMARIZED)
    assert (transcript.answer, transcript.degraded) == ("x", True)
    for request in asked(model, round=2, stage="reply"):
        assert heard(request) == [(request.purpose.agent, 1)]
        assert "gone" not in shown(request)


@pytest.mark.parametrize(
    ("topology", "second"),
    [
        ("full", [("Critic", "News Author"), ("General Public", "News Author"), ("General Public", "Critic")]),
        ("star", [("Critic", "News Author"), ("General Public",), ("General Public",)]),
        ("sparse(1)", [("Critic",), ("News Author",), ("General Public",)]),
        ([[0, 0, 0], [1, 0, 0], [1, 1, 0]], [(), ("General Public",), ("General Public", "Critic")]),
    ],
)
def test_full_and_sparse_connection(topology: list[list[int]] | str, second: list[tuple[str, ...]]) -> None:
    transcript, _ = play("chateval", holding("x", "y", "z"), settings={**SIMULTANEOUS, "sees.topology": topology})
    assert reads(transcript)[1] == second


def test_the_roles_stand_in_the_system_texts_and_nowhere_else() -> None:
    _, model = play("chateval", holding("x", "y", "z"), settings=SIMULTANEOUS)
    systems = {r.purpose.agent: r.messages[0].content for r in asked(model, round=1)}
    assert len(set(systems.values())) == 3
    assert "You are the critic" in systems["Critic"]
    assert len({r.messages[1].content for r in asked(model, round=1)}) == 1


def test_agents_can_be_alike() -> None:
    transcript, model = play("chateval", lambda r: "It is [x].", settings={"debaters": 4})
    assert model.calls == 8
    assert len({r.messages[0].content for r in model.requests}) == 1
    assert transcript.answer == "x"


def test_the_majority_of_the_last_round_answers_and_ties_are_recorded() -> None:
    transcript, _ = play("chateval", holding("y", "x", "x"))
    assert (transcript.answer, transcript.final.tie) == ("x", False)
    transcript, _ = play("chateval", holding("y", "x", "z"))
    assert (transcript.answer, transcript.final.tie) == ("y", True)


def test_a_failed_turn_is_not_heard() -> None:
    _, model = play("chateval", failing(holding("x", "y", "z"), agent="General Public", round=1))
    assert not any(said("General Public", 1) in shown(request) for request in model.requests)
    assert [r.purpose.stage for r in asked(model, round=1)] == ["speak", "speak", "reply"]


def test_a_pool_can_be_given(pool: KnowledgePool) -> None:
    _, model = play("chateval", holding("x", "y", "z"), sources=("wiki", "google"), pool=pool)
    assert all("Passage 2 (Deep lakes):" in shown(request) for request in model.requests)
