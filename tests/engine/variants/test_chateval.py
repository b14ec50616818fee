"""``chateval`` against Chan et al.: three ways of talking, full and sparse connection."""

from collections.abc import Callable
from typing import Any

from madke.core.chat import ChatRequest
from madke.core.transcript import Transcript
from tests.support.debates import asked, play, shown

NAMES = ["General Public", "Critic", "News Author"]
SUMMARIZED = {"talk": "simultaneous", "summarized": True}


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
