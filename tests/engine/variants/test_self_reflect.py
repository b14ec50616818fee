"""Self-reflection, a baseline of Liang et al., 2023, section 4.1: refine until satisfied."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.variants import load_variant
from tests.support.debates import asked, failing, play, shown


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


def test_an_unreadable_review_does_not_end_the_debate_and_is_shown() -> None:
    base = satisfied_with()
    transcript, model = play("self-reflect", lambda r: "Hm, perhaps." if r.purpose.stage == "reflect" else base(r))
    assert [entry.turns[0].reflection.satisfied for entry in transcript.rounds[:2]] == [None, None]
    assert "Your review of your answer:\n> Hm, perhaps.\n" in shown(asked(model, stage="reply", round=2)[0])


def test_after_a_failed_review_the_answer_is_refined_without_one() -> None:
    transcript, model = play("self-reflect", failing(satisfied_with(2), stage="reflect", round=1))
    assert (transcript.degraded, transcript.stop_reason) == (True, "satisfied")
    prompt = shown(asked(model, stage="reply", round=2)[0])
    assert "Attempt 1:" in prompt
    assert "Your review" not in prompt
    assert "the server is gone" not in prompt


def test_a_failed_attempt_fails_the_question() -> None:
    transcript, _ = play("self-reflect", failing(satisfied_with(), stage="reply"))
    assert (transcript.status, transcript.answer, transcript.stop_reason) == ("failed", None, "all_failed")


def test_with_a_pool_answers_and_reviews_see_it(pool: KnowledgePool) -> None:
    _, model = play("self-reflect", satisfied_with(), sources=("wiki", "google"), pool=pool)
    assert model.calls == 5
    assert all("Passage 2 (Deep lakes):" in shown(request) for request in model.requests)


def test_another_number_of_attempts_can_be_allowed() -> None:
    _, model = play("self-reflect", satisfied_with(), settings={"rounds": 5})
    assert model.calls == 2 * 5 - 1
    assert load_variant("self-reflect").protocol.rounds == 3
