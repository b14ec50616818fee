"""The swap audit on models whose way to follow is known: the same stances, as own and as the other's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from madke import Question, ablate
from madke.core.chat import ChatRequest
from madke.core.stage import Stage
from madke.experiments.recipe import read_recipe
from madke.models.scripted import ScriptedChat
from madke.runs.directory import read_transcripts
from madke.scoring.arms import read_arm

QUESTIONS = [Question(id=f"q{n}", question=f"What is lake number {n}?", answers=("Baikal",)) for n in range(3)]
ARMS = ("stances", "mad-given", "mad-exchanged")

Followed = Callable[[Stage], str]
FOLLOWERS: dict[str, tuple[Followed, tuple[float, float], tuple[float, float]]] = {
    # right_to_wrong and wrong_to_right, in given and in exchanged.
    "itself": (lambda stage: str(stage.own), (0.0, 0.0), (0.0, 0.0)),
    "the other": (lambda stage: stage.newest[0].text, (1.0, 1.0), (1.0, 1.0)),
    "the text": (lambda stage: max(str(stage.own), stage.newest[0].text), (1.0, 0.0), (1.0, 0.0)),
}


def audited(folder: Path, followed: Followed) -> list[Path]:
    """The stances and the two arms of ``mad``, without knowledge, on a model that follows somebody."""

    def reply(request: ChatRequest) -> str:
        stage = request.stage
        assert stage is not None
        if stage.name == "reply":
            return followed(stage)
        return f"The answer is {'Baikal' if request.purpose.agent == 'Debater 1' else 'Como'}."

    shipped = read_recipe("swap-audit")
    base = shipped.base.model_copy(update={"sources": "none"})
    arms = tuple(arm for arm in shipped.arms if arm.name in ARMS)
    recipe = shipped.model_copy(update={"base": base, "arms": arms, "reference": "mad-given"})
    made = ablate(recipe, QUESTIONS, out=folder, model=ScriptedChat(reply))
    assert made.unfinished == {}
    return [made.arms[name] for name in ARMS[1:]]


@pytest.mark.parametrize("whom", FOLLOWERS)
def test_the_shares_say_whom_a_debater_follows(tmp_path: Path, whom: str) -> None:
    followed, *expected = FOLLOWERS[whom]
    folders = audited(tmp_path, followed)
    for folder, (to_wrong, to_right) in zip(folders, expected, strict=True):
        values = read_arm(folder.name, read_transcripts(folder))
        shares = [values.mean(name) for name in ("right_to_wrong", "wrong_to_right", "right_to_none")]
        assert [one and one.value for one in shares] == [to_wrong, to_right, 0.0]


def test_stances_are_exchanged_and_nothing_else(tmp_path: Path) -> None:
    given, exchanged = audited(tmp_path, lambda stage: str(stage.own))
    for one, other in zip(read_transcripts(given), read_transcripts(exchanged), strict=True):
        was, now = ([(turn.agent, turn.stance.answer) for turn in each.rounds[0].turns] for each in (one, other))
        assert was == [("Debater 1", "Baikal"), ("Debater 2", "Como")]
        assert now == [("Debater 1", "Como"), ("Debater 2", "Baikal")]
