"""MAPS, a baseline of Liang et al., 2023, section 4.1: analyse, then make candidates, let an answer scorer pick."""

from madke.core.chat import ChatRequest
from madke.core.question import Question
from tests.support.debates import SENTENCE, asked, play, shown

NOTES = {"Keywords": "keywords", "Topics": "topics", "Example": "example"}
ANSWERS = {
    "Plain": "He lets go",
    "Keywords": "He never shows",
    "Topics": "He is never there at all",
    "Example": "He",
}


def reply(request: ChatRequest) -> str:
    purpose = request.purpose
    if purpose.stage != "speak":
        return f"Notes of {purpose.agent}."
    return f"So [{ANSWERS[purpose.agent]}]"


async def longest(question: Question, candidates: list[str]) -> list[float]:
    return [float(len(candidate)) for candidate in candidates]


def test_three_prepare_once_and_four_make_candidates() -> None:
    transcript, model = play("maps", reply, question=SENTENCE, score_answers=longest)
    assert model.calls == 3 + 4
    assert {stage: used.calls for stage, used in transcript.usage.items()} == {
        "keywords": 1,
        "topics": 1,
        "example": 1,
        "speak": 4,
    }
    assert (transcript.stop_reason, transcript.final.by) == ("rounds", "rerank")
    assert (transcript.answer, transcript.final.agent) == ("He is never there at all", "Topics")
    assert transcript.rounds[0].order == ("Plain", *NOTES)
    assert list(transcript.final.scores) == list(ANSWERS)


def test_each_sees_its_own_notes_alone() -> None:
    transcript, model = play("maps", reply, question=SENTENCE, score_answers=longest)
    assert transcript.prepared == {agent: {stage: f"Notes of {agent}."} for agent, stage in NOTES.items()}
    for request in asked(model, stage="speak"):
        for agent in NOTES:
            assert (f"Notes of {agent}." in shown(request)) == (agent == request.purpose.agent)
    assert [turn.reads for turn in transcript.rounds[0].turns] == [()] * 4
    for agent, stage in NOTES.items():
        (request,) = asked(model, stage=stage)
        assert request.purpose.agent == agent
        assert "Notes of" not in shown(request)
