"""In which order debaters read each other (Zhang et al.), read off the prompts of whole debates."""

from itertools import permutations
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from tests.support.debates import asked, own_and_others
from tests.support.debates import play as play_variant
from tests.support.plain import given_turn, play, read_by, signed

SUM = Question(id="m1", question="How many handshakes are there in total?", answers=("342",), task="math")


def cast(names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def handshakes(answers: list[str], **settings: Any) -> tuple[dict[str, list[str]], Transcript]:
    """The variant ``madc`` with these first answers; the answers that each agent read, and the transcript."""
    first = {f"Debater {n}": answer for n, answer in enumerate(answers, start=1)}
    transcript, model = play_variant(
        "madc",
        lambda r: f"Step 1: {r.purpose.agent} multiplies. The answer is: ({first[r.purpose.agent]}).",
        question=SUM,
        settings={"debaters": len(answers), **settings},
    )
    read = {turn.agent: [first[peer] for peer in turn.reads] for turn in transcript.rounds[1].turns}
    for agent in first:
        (request,) = asked(model, agent=agent, round=2)
        _, said = own_and_others(request)
        assert [line.split("(")[1].split(")")[0] for line in said.splitlines() if "multiplies" in line] == read[agent]
    return read, transcript


APPENDIX = ["324", "306", "306", "162", "162", "162"]
"""The solutions of other agents in the example of appendix A.4, as the reader, who holds 306, gets them."""


def test_the_example_of_the_appendix() -> None:
    _, transcript = handshakes(["162", "306", "324", "162", "306", "162"])
    first = {turn.agent: turn.stance.answer for turn in transcript.rounds[0].turns}
    second = transcript.rounds[1]
    assert [(first[agent], second.scores[agent]) for agent in second.order] == list(
        zip(APPENDIX, (0, 1, 1, 2, 2, 2), strict=True)
    )


@pytest.mark.parametrize("score", ["global", "per_reader"])
def test_the_example_of_the_appendix_as_its_reader_saw_it(score: str) -> None:
    # With the reader's own 306 there are three of each, and the earlier group stands first; without it, two and three.
    read, _ = handshakes(["306", "162", "306", "324", "162", "162", "306"], **{"order.score": score})
    assert read["Debater 1"] == APPENDIX


@pytest.mark.parametrize(
    ("answers", "order"),
    [
        (["x", "y", "x", "y"], "ACBD"),
        (["y", "x", "x", "y", "z"], "EADBC"),
        (["x", "y", "y", "z", "z", "z"], "ABCDEF"),
    ],
)
def test_ties_go_by_answer_group_and_then_by_the_agents_number(answers: list[str], order: str) -> None:
    names = "ABCDEF"[: len(answers)]
    replies = signed(dict(zip(names, answers, strict=True)))
    transcript, _ = play(replies, debaters=cast(names), order="madc")
    assert "".join(transcript.rounds[-1].order) == order


def test_a_random_order_is_drawn_anew_in_every_round_and_can_be_repeated() -> None:
    debaters = cast("ABCDEFGH")

    def orders(**options: Any) -> list[str]:
        transcript, _ = play(debaters=debaters, order="random", rounds=5, **options)
        return ["".join(entry.order) for entry in transcript.rounds]

    once = orders(seed=7)
    assert all(sorted(order) == list("ABCDEFGH") for order in once)
    assert len(set(once)) == 5
    assert orders(seed=7) == once
    other = Question(id="q2", question="Which?", answers=("x",))
    assert once not in (orders(seed=8), orders(seed=7, repeat=1), orders(seed=7, question=other))


def test_an_order_that_reads_the_golds_refuses_a_question_without_them() -> None:
    with pytest.raises(UserError, match="question 'q9' has none"):
        play(order="truth_last", question=Question(id="q9", question="Which?", answers=()))


def test_power_decay_halves_the_score_of_who_stood_last_before() -> None:
    transcript, _ = play(
        signed({"A": "x", "B": "y", "C": "y", "D": "y"}),
        debaters=cast("ABCD"),
        order={"by": "madc", "decay": 0.5},
        rounds=5,
    )
    assert ["".join(entry.order) for entry in transcript.rounds[1:]] == ["ABCD", "ADBC", "ACDB", "ABCD"]
    assert [entry.scores["D"] for entry in transcript.rounds[1:]] == [2, 1, 1, 1]
    assert transcript.rounds[4].scores == {"A": 0, "B": 1, "C": 1, "D": 1}


VAGUE = ["July 1969", "July 20, 1969", "July 11, 1969"]


@pytest.mark.parametrize("answers", list(permutations(VAGUE)))
def test_a_vague_answer_makes_no_agreement_between_those_that_contradict_each_other(answers: tuple[str, ...]) -> None:
    replies = signed(dict(zip("ABC", answers, strict=True)))
    transcript, _ = play(replies, early_stop="agreement", order="madc")
    assert transcript.stop_reason == "rounds"
    assert transcript.agreement is not None
    assert len(transcript.agreement.positions) == 3
    scores = transcript.rounds[1].scores
    assert {answer: scores[agent] for agent, answer in zip("ABC", answers, strict=True)} == dict(
        zip(VAGUE, (2, 1, 1), strict=True)
    )


def test_given_stances_without_answers_or_with_failures_count_for_nobody() -> None:
    failed = Turn(agent="X", stance=Stance(status="failed", error="the server is gone"))
    turns = (failed, given_turn("Y", None), given_turn("Z", "Lake Baikal"))
    transcript, model = play(first_round_given=True, turns=turns, order="madc")
    assert read_by(model, "A", 2) == ["Y@1", "Z@1"]
    assert transcript.rounds[1].scores == {"X": 0, "Y": 0, "Z": 0}
    nobody, model = play(first_round_given=True, turns=(failed,))
    assert (nobody.status, nobody.stop_reason, nobody.answer, model.calls) == ("failed", "all_failed", None, 0)
