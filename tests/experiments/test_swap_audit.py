"""The swap audit: the same stances, as own and as the other's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from madke import Question, ablate
from madke.core.chat import ChatRequest
from madke.core.stage import Stage
from madke.experiments.recipe import read_recipe
from madke.models.scripted import ScriptedChat
from madke.runs.directory import read_transcripts

QUESTIONS = [Question(id=f"q{n}", question=f"What is lake number {n}?", answers=("Baikal",)) for n in range(3)]
ARMS = ("stances", "mad-given", "mad-exchanged")

Followed = Callable[[Stage], str]


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


def test_stances_are_exchanged_and_nothing_else(tmp_path: Path) -> None:
    given, exchanged = audited(tmp_path, lambda stage: str(stage.own))
    for one, other in zip(read_transcripts(given), read_transcripts(exchanged), strict=True):
        was, now = ([(turn.agent, turn.stance.answer) for turn in each.rounds[0].turns] for each in (one, other))
        assert was == [("Debater 1", "Baikal"), ("Debater 2", "Como")]
        assert now == [("Debater 1", "Como"), ("Debater 2", "Baikal")]
