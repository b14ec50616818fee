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


def test_its_prompts_are_those_of_mad_but_for_the_texts() -> None:
    _, noise = play("mad-noise", reply, first_round=GIVEN.reordered("other_question").of("hills", 0))
    same = tuple(turn for turn in first_round("hills"))
    _, mad = play("mad", reply, first_round=same, settings={"first_round_given": True})
    for one, other in zip(noise.requests, mad.requests, strict=True):
        assert one.purpose == other.purpose
        said = [m.content.replace("rivers", "hills") for m in one.messages], [m.content for m in other.messages]
        assert [
            sorted(text.replace("Debater 2", "Debater 1").replace("Debater 3", "Debater 1")) for text in said[0]
        ] == [sorted(text.replace("Debater 2", "Debater 1").replace("Debater 3", "Debater 1")) for text in said[1]]


def test_strangers_have_no_vote() -> None:
    def split(request: ChatRequest) -> str:
        return f"The answer is {'hills' if request.purpose.agent == 'Debater 1' else 'lakes'}."

    transcript, _ = play("mad-noise", split, first_round=GIVEN.reordered("other_question").of("hills", 0))
    assert (transcript.answer, transcript.final.tie) == ("lakes", False)
    assert [turn.agent for turn in transcript.rounds[1].turns] == [*NAMES]


def test_without_a_first_round_it_says_what_is_missing() -> None:
    with pytest.raises(UserError, match="--first-round"):
        play("mad-noise", reply, first_round=())
