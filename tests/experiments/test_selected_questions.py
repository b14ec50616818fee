"""Arms whose questions, or whose first rounds, follow from the results of another arm."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from madke import Question, ablate
from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.data.first_round import Draw
from madke.experiments.recipe import Recipe
from madke.models.scripted import ScriptedChat
from madke.runs.directory import read_transcripts
from madke.runs.record import read_run

QUESTIONS = [Question(id=f"q{n}", question=f"What is lake number {n}?", answers=("Baikal",)) for n in range(4)]


def recipe(*arms: dict[str, Any], **fields: Any) -> Recipe:
    return Recipe.model_validate({"title": "T", "source": "a test", "arms": arms, **fields})


FIRST = {"name": "first", "protocol": "standard"}
AGAIN = {"name": "again", "protocol": "cot", "wrong_in": "first"}


def right_for(*right: int) -> Any:
    """A model that knows the answers to some questions."""

    def reply(messages: Any) -> str:
        text = messages[-1]["content"]
        return f"[{'Baikal' if any(f'number {n}?' in text for n in right) else 'Como'}]"

    return reply


def ids(folder: Path, arm: str) -> set[str]:
    return {transcript.id for transcript in read_transcripts(folder / "arms" / arm)}


def test_an_arm_gets_only_the_questions_that_another_answered_wrongly(tmp_path: Path) -> None:
    made = ablate(recipe(FIRST, AGAIN), QUESTIONS[:3], out=tmp_path / "out", model=right_for(1))
    assert made.unfinished == {}
    assert ids(tmp_path / "out", "first") == {"q0", "q1", "q2"}
    assert (
        ids(tmp_path / "out", "again") == set(read_run(tmp_path / "out" / "arms" / "again").questions) == {"q0", "q2"}
    )
    # The same command finds nothing to do; more questions are selected in the same way.
    again = ablate(recipe(FIRST, AGAIN), QUESTIONS[:3], out=tmp_path / "out", model=right_for(1))
    assert sum(meter.done for meter in again.meters.values()) == 0
    more = ablate(recipe(FIRST, AGAIN), QUESTIONS, out=tmp_path / "out", model=right_for(1))
    assert (more.unfinished, ids(tmp_path / "out", "again")) == ({}, {"q0", "q2", "q3"})


def test_an_arm_that_gets_no_question_says_so(tmp_path: Path) -> None:
    made = ablate(recipe(FIRST, AGAIN), QUESTIONS, out=tmp_path / "out", model=right_for(0, 1, 2, 3))
    assert made.unfinished == {"again": "arm first leaves it no question"}
    assert [*made.arms] == ["first"]


def test_first_rounds_are_drawn_from_all_repeats_in_three_orders(tmp_path: Path) -> None:
    said: Counter[str] = Counter()

    def reply(request: ChatRequest) -> str:
        text = request.messages[-1].content
        number = next(n for n in range(4) if f"number {n}?" in text)
        said[f"q{number}"] += 1
        # Half of the samples are right, except for question 3, which is always answered rightly.
        return f"Try {said[f'q{number}']}: [{'Baikal' if number == 3 or said[f'q{number}'] % 2 else 'Como'}]"

    orders = {"correct_first": "RRW", "incorrect_first": "WWR", "alternating": "RWR"}
    arms = [
        {"name": order, "first_round": {"arm": "stances", "draw": {"each": 2, "order": order, "read": 3}}}
        for order in orders
    ]
    stances = {
        "name": "stances",
        "protocol": "cot",
        "set": {"function": "mad", "rounds": 1, "debaters": 1},
        "repeats": 8,
    }
    base = {"protocol": "madc", "set": {"debaters": 3, "reads.own": "none", "order": "fixed", "marker": "brackets"}}
    found = recipe(stances, *arms, base=base, repeats=2)
    made = ablate(found, QUESTIONS, out=tmp_path / "out", model=ScriptedChat(reply))
    assert made.unfinished == {}
    drawn: dict[str, dict[tuple[str, int], list[str]]] = {}
    for order, expected in orders.items():
        held = [*read_transcripts(tmp_path / "out" / "arms" / order)]
        draw = read_run(tmp_path / "out" / "arms" / order).first_round_draw
        assert draw == Draw.model_validate({"each": 2, "order": order, "read": 3})
        assert {(t.id, t.repeat) for t in held} == {(f"q{n}", repeat) for n in range(3) for repeat in range(2)}
        for transcript in held:
            given, replies = transcript.rounds
            answers = [turn.stance.answer for turn in given.turns]
            assert "".join("R" if answer == "Baikal" else "W" for answer in answers) == expected
            assert [turn.agent for turn in given.turns] == ["Agent 1", "Agent 2", "Agent 3"]
            assert len(replies.turns) == 3
            texts = drawn.setdefault(order, {})
            texts[transcript.id, transcript.repeat] = [turn.stance.text for turn in given.turns]
    # The same command finds nothing to do.
    again = ablate(found, QUESTIONS, out=tmp_path / "out", model=ScriptedChat(reply))
    assert sum(meter.done for meter in again.meters.values()) == 0
    # One draw has the same stances in every order, and another draw has others.
    assert all(drawn["correct_first"][key][0] == drawn["alternating"][key][0] for key in drawn["alternating"])
    assert len({json.dumps(texts) for texts in drawn["correct_first"].values()}) > 3


def test_a_started_arm_cannot_select_in_another_way(tmp_path: Path) -> None:
    ablate(recipe(FIRST, AGAIN), QUESTIONS, out=tmp_path / "out", model=right_for(1))
    every = {key: value for key, value in AGAIN.items() if key != "wrong_in"}
    with pytest.raises(UserError, match=r"arm 'again' has already started with another setting \(wrong_in\)"):
        ablate(recipe(FIRST, every), QUESTIONS, out=tmp_path / "out", model=right_for(1))
