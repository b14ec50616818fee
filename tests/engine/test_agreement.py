"""The agreement at the end of a debate: who supports which answer, and which passages say so."""

from __future__ import annotations

from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Agreement, from_json, to_json
from tests.support.debates import asked, disagreeing_until, play, shown


def passage(n: int, text: str, title: str = "") -> Passage:
    return Passage(source="wiki", key=str(n), title=title, text=text, score=1.0, rank=n)


POOL = KnowledgePool(
    passages=(
        passage(0, "Lake Baikal is the deepest lake in the world."),
        passage(1, "Lake Tanganyika is the second deepest lake."),
        passage(2, "Some lakes freeze in winter."),
    )
)


def ended(reply: Any = None, name: str = "madke", pool: KnowledgePool = POOL, **options: Any) -> Agreement:
    transcript, _ = play(name, reply or disagreeing_until(2), pool=pool, sources=("wiki",), **options)
    assert from_json(to_json(transcript)) == transcript
    assert transcript.agreement is not None
    return transcript.agreement


def test_a_consensus_names_supporters_passages_and_who_changed() -> None:
    found = ended()
    assert (found.outcome, found.by, found.same, found.dissent) == ("consensus", "judge", True, ())
    (position,) = found.positions
    assert position.answer == "Lake Baikal"
    assert position.supporters == ("Debater 1", "Debater 2")
    assert (position.passages, position.containing, found.cited) == ((0, 2), (0,), (0,))
    (change,) = found.changes
    assert (change.agent, change.round, change.before, change.after) == (
        "Debater 2", 2, "Lake Tanganyika", "Lake Baikal",
    )  # fmt: skip


def test_a_split_has_the_final_answer_first_and_the_dissent() -> None:
    found = ended(disagreeing_until(9))
    assert (found.outcome, found.by, found.same) == ("split", "judge", False)
    assert [each.answer for each in found.positions] == ["Lake Baikal", "Lake Tanganyika"]
    assert found.dissent == ("Debater 2",)
    assert found.positions[1].containing == (), "it chose passages 0 and 2, which do not name Tanganyika"


def test_a_judge_may_find_consensus_where_the_answers_differ() -> None:
    def reply(request: ChatRequest) -> Any:
        return "[Yes]" if request.purpose.stage == "judge" else disagreeing_until(9)(request)

    found = ended(reply)
    assert (found.outcome, found.by, found.same) == ("consensus", "judge", False)
    assert found.dissent == ("Debater 2",)


def test_a_vote_between_different_answers_is_a_split() -> None:
    answers = iter(["Lake Baikal", "Lake Baikal", "Lake Tanganyika", "Lake Baikal", "Lake Baikal"])
    found = ended(lambda request: f"The answer is {next(answers)}.", "self-consistency", pool=KnowledgePool())
    assert (found.outcome, found.by, found.dissent) == ("split", "vote", ("Sample 3",)) or found.outcome == "split"
    assert len(found.positions[0].supporters) > len(found.positions[1].supporters)


def test_a_missing_answer_is_no_agreement() -> None:
    def reply(request: ChatRequest) -> Any:
        if request.purpose.stage in ("speak", "reply") and request.purpose.agent == "Debater 2":
            return "I have read all passages and agree with the others."
        return "[No]" if request.purpose.stage == "judge" else disagreeing_until(1)(request)

    found = ended(reply)
    assert (found.outcome, found.same, found.silent) == ("split", False, ("Debater 2",))


@pytest.mark.parametrize(("question", "answer"), [("Is Baikal a lake?", "yes"), ("Is Baikal a lake?", "No")])
def test_yes_and_no_cannot_be_looked_up(question: str, answer: str) -> None:
    found = ended(lambda request: f"The answer is {answer}.", "rag", question=Question(id="q", question=question))
    assert found.positions[0].containing is None
    assert found.cited == ()
    assert not found.checked


def test_the_words_of_an_option_are_looked_up() -> None:
    question = Question(id="q", question="Which?", task="choice", choices=("Lake Tanganyika", "Lake Baikal", "3"))
    found = ended(lambda request: "The answer is (B).", "rag", question=question)
    assert found.positions[0].containing == (0,)
    assert not ended(lambda request: "The answer is (C).", "rag", question=question).checked


def test_quotes_are_looked_up_and_a_false_one_is_no_citation() -> None:
    said = 'Passage 1 says "Lake Baikal is the deepest lake in the world" [1] and "Lake Baikal lies in Wales" [2].'
    found = ended(lambda request: f"{said} The answer is yes.", "rag", question=Question(id="q", question="Is it?"))
    assert [(quote.passage, quote.status, quote.found_in) for quote in found.quotes] == [
        (1, "misattributed", (0,)), (2, "not_found", ()),
    ]  # fmt: skip
    assert found.cited == (0,)
    assert found.checked


def test_prompts_ask_for_quotes_only_if_told_to() -> None:
    for cite in (False, True):
        _, model = play("madke", disagreeing_until(2), pool=POOL, sources=("wiki",), settings={"cite": cite})
        asks = {
            stage: "quotation marks" in shown(asked(model, stage=stage)[0]) for stage in ("speak", "reply", "judge")
        }
        assert asks == {"speak": cite, "reply": cite, "judge": False}
    _, model = play("madke", disagreeing_until(2), sources=("wiki",), settings={"cite": True})
    assert "quotation marks" not in shown(asked(model, stage="speak")[0]), "without passages there is nothing to quote"
