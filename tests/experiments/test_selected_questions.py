"""Arms whose first rounds, and so their questions, follow from the results of another arm."""

import json
from collections import Counter
from pathlib import Path

from madke import Question, ablate
from madke.core.chat import ChatRequest
from madke.data.first_round import Draw
from madke.experiments.recipe import Recipe
from madke.models.scripted import ScriptedChat
from madke.runs.directory import read_run, read_transcripts

QUESTIONS = [Question(id=f"q{n}", question=f"What is lake number {n}?", answers=("Baikal",)) for n in range(4)]


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
    alone = {"function": "mad", "rounds": 1, "debaters": 1}
    stances = {"name": "stances", "protocol": "cot", "set": alone, "repeats": 8}
    base = {"protocol": "madc", "set": {"debaters": 3, "reads.own": "none", "order": "fixed", "marker": "brackets"}}
    recipe = {"title": "T", "source": "a test", "base": base, "repeats": 2, "arms": [stances, *arms]}
    found = Recipe.model_validate(recipe)
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
