"""``mad-noise``: the second round of ``mad``, with peers who speak about another question."""

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.transcript import Stance, Turn
from madke.data import FirstRounds
from tests.support.debates import own_and_others, play

NAMES = ("Debater 1", "Debater 2", "Debater 3")


def first_round(about: str) -> tuple[Turn, ...]:
    return tuple(
        Turn(agent=name, stance=Stance(text=f"{name} on {about}. The answer is {about}.", answer=about))
        for name in NAMES
    )


GIVEN = FirstRounds(rounds={name: {0: first_round(name)} for name in ("lakes", "rivers", "hills")})


def reply(request: ChatRequest) -> str:
    return "The answer is Lake Baikal."


def test_strangers_bring_the_stances_of_the_question_before() -> None:
    mixed = GIVEN.reordered("other_question")
    for question, other in (("lakes", "rivers"), ("rivers", "lakes"), ("hills", "rivers")):
        turns = mixed.of(question, 0)
        assert turns[:3] == first_round(question)
        assert [(turn.agent, turn.stance.answer) for turn in turns[3:]] == [
            ("Stranger 1", other),
            ("Stranger 2", other),
        ]


def test_a_further_question_changes_no_first_round() -> None:
    fewer = FirstRounds(rounds={name: GIVEN.rounds[name] for name in ("lakes", "rivers")}).reordered("other_question")
    assert fewer.hashes.items() <= GIVEN.reordered("other_question").hashes.items()


def test_a_single_question_has_no_other_one() -> None:
    with pytest.raises(UserError, match="at least two questions"):
        FirstRounds(rounds={"lakes": GIVEN.rounds["lakes"]}).reordered("other_question")


def test_each_reads_its_own_stance_and_two_about_the_other_question() -> None:
    transcript, model = play("mad-noise", reply, first_round=GIVEN.reordered("other_question").of("hills", 0))
    assert (model.calls, transcript.answer, transcript.final.by) == (3, "Lake Baikal", "majority")
    for name, request in zip(NAMES, model.requests, strict=True):
        own, others = own_and_others(request)
        assert f"{name} on hills" in own
        assert "hills" not in others
        assert others.count("on rivers") == 2


def test_without_a_first_round_it_says_what_is_missing() -> None:
    with pytest.raises(UserError, match="--first-round"):
        play("mad-noise", reply, first_round=())
