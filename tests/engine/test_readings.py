"""The status of every reading in a transcript: what was read, or why nothing could be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.transcript import Final, Stance, Transcript, Verdict, from_json, reading, to_json
from madke.scoring.scores import scores_of
from tests.support.plain import play, signed


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
