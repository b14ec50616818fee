"""What a role reads from its reply: what it was shown decides what a number in brackets is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Final, Stance, Transcript, Verdict, from_json, reading, to_json
from madke.scoring.scores import scores_of
from tests.conftest import passage
from tests.support.plain import QUESTION, play, signed

POOL = KnowledgePool(passages=tuple(passage("wiki", str(n), f"Lake {n}", "deep", rank=n) for n in range(5)))
SHOWN = {"pool": POOL, "sources": ["wiki"], "rounds": 1}
CHOSEN = {"pool": POOL, "sources": ["wiki"], "select": "adaptive", "rounds": 1}
MATH = replace(QUESTION, task="math", answers=("3",))


def stances(said: Callable[..., Any], **settings: Any) -> list[Stance]:
    transcript, _ = play(said, **settings)
    return [turn.stance for turn in transcript.rounds[0].turns]


def says(text: str, selected: str = "Selected: [1]") -> Callable[..., Any]:
    return lambda request: selected if request.purpose.stage == "select" else text


@pytest.mark.parametrize(
    ("settings", "answer"),
    [({}, "3"), (SHOWN, "The lakes are deep"), (CHOSEN, "3"), ({**SHOWN, "question": MATH}, None)],
    ids=["no pool", "shown", "another was chosen", "mathematics"],
)
def test_only_a_number_that_the_debater_was_shown_is_a_citation(settings: dict[str, Any], answer: str | None) -> None:
    assert {stance.answer for stance in stances(says("The lakes are deep [3]."), **settings)} == {answer}


@pytest.mark.parametrize(("settings", "answer"), [(SHOWN, "All of them cite"), ({}, "3")])
def test_the_summarizer_may_cite_what_the_debaters_were_shown(settings: dict[str, Any], answer: str | None) -> None:
    said = signed(summarize="All of them cite [3].")
    transcript, _ = play(said, function="per_document", **{**settings, "rounds": 2})
    assert transcript.final.answer == answer


@pytest.mark.parametrize(("line", "side"), [("Side: B", "B"), ("", None)])
def test_an_extraction_keeps_the_side_that_it_names(line: str, side: str | None) -> None:
    said = signed(judge="Verdict: [DIFFERENT]", extract=f"{line}\nThe answer is [Lake Baikal].")
    transcript, _ = play(said, function="liang")
    assert (transcript.final.agent, transcript.final.answer) == (side, "Lake Baikal")


# The status of every reading in a transcript: what was read, or why nothing could be.


def speaking(text: str) -> Callable[[ChatRequest], str]:
    others = signed()
    return lambda request: text if request.purpose.stage in ("speak", "reply") else others(request)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("The answer is [Lake Baikal].", "ok"),
        ("I do not know.", "abstained"),
        ("I agree with the others.", "unmarked"),
        ("The answer is Lake Baikal. The answer is Lake Tanganyika.", "contradictory"),
        ("The answer is [answer].", "echoed"),
    ],
)
def test_a_stance_and_the_answer_from_it_have_a_status(text: str, status: str) -> None:
    played, _ = play(speaking(text), rounds=1)
    assert {turn.stance.status for turn in played.rounds[0].turns} == {status}
    assert played.final.status == status
    assert played.status == ("ok" if status == "ok" else "abstained")
    assert played.reading == status
    assert from_json(to_json(played)) == played


@pytest.mark.parametrize(
    ("rule", "status"),
    [("declined", "abstained"), ("given", "abstained"), ("none", "unmarked"), ("undecided", "unmarked")],
)
def test_transcripts_of_older_versions_are_counted_by_their_rule(rule: str, status: str) -> None:
    assert reading(Stance(text="...", status="abstained", rule=rule)) == status
    assert reading(Verdict(consensus=None, rule=rule)) == "unmarked"
    assert reading(Verdict(consensus=True, rule="marker")) == "ok"
    assert reading(Final(by="summarizer", status="failed", error="gone")) == "failed"


def played_with(status: Any) -> Transcript:
    played, _ = play(speaking("I do not know."), rounds=1)
    turns = tuple(
        replace(turn, stance=replace(turn.stance, status=status, rule="none")) for turn in played.rounds[0].turns
    )
    final = replace(played.final, status=status, rule="none")
    return replace(played, rounds=(replace(played.rounds[0], turns=turns),), final=final)


def test_only_unread_replies_are_failures() -> None:
    declined, _ = play(speaking("I do not know."), rounds=1)
    kinds = [declined, *(replace(played_with(kind), id=kind) for kind in ("unmarked", "echoed", "cut"))]
    scores = scores_of(kinds)
    assert scores.parse_failures["speak"].value == 0.75
    assert (scores.abstained, scores.unread) == (1, {"unmarked": 1, "echoed": 1, "cut": 1})
