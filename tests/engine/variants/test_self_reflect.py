"""Self-reflection, a baseline of Liang et al., 2023, section 4.1: refine until satisfied."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from tests.support.debates import play, shown


def satisfied_with(attempt: int | None = None) -> Callable[..., Any]:
    """Reviews that are content with one attempt (None: with none)."""

    def reply(request: ChatRequest) -> str:
        n = request.purpose.round
        if request.purpose.stage == "reflect":
            return f"Review {n}: " + (
                "it holds. Verdict: [KEEP]" if n == attempt else "the depth is not checked. Verdict: [REVISE]"
            )
        return f"Attempt {n}: the answer is [Lake {n}]."

    return reply


@pytest.mark.parametrize(("attempt", "calls"), [(1, 2), (2, 4), (None, 5)])
def test_every_attempt_but_the_last_is_reviewed(attempt: int | None, calls: int) -> None:
    transcript, model = play("self-reflect", satisfied_with(attempt))
    attempts = attempt or 3
    assert (len(transcript.rounds), model.calls) == (attempts, calls)
    assert transcript.stop_reason == ("satisfied" if attempt else "rounds")
    assert (transcript.answer, transcript.final.by) == (f"Lake {attempts}", "only")
    assert [entry.turns[0].reflection is not None for entry in transcript.rounds] == [
        n < 3 for n in range(1, attempts + 1)
    ]


def test_a_review_sees_its_attempt_and_the_next_attempt_sees_both() -> None:
    _, model = play("self-reflect", satisfied_with())
    texts = [f"{kind} {n}:" for n in (1, 2, 3) for kind in ("Attempt", "Review")]
    seen = {(r.purpose.stage, r.purpose.round): [text for text in texts if text in shown(r)] for r in model.requests}
    assert seen == {
        ("speak", 1): [],
        ("reflect", 1): ["Attempt 1:"],
        ("reply", 2): ["Attempt 1:", "Review 1:"],
        ("reflect", 2): ["Attempt 2:"],
        ("reply", 3): ["Attempt 2:", "Review 2:"],
    }
