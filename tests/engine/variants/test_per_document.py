"""``per-document``, after Wang et al., 2025: a debater a passage, until no answer changes; then an aggregator."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.variants import load_variant
from tests.conftest import passage
from tests.support.debates import asked, failing, play, shown

TEXTS = ["Lake Baikal is 1,642 metres deep.", "Lake Tanganyika is 1,470 metres deep.", "Baikal is the deepest lake"]


def changing_until(
    last: int, answers: tuple[str, ...] = ("Lake Baikal", "Lake Tanganyika", "Lake Baikal")
) -> Callable[..., Any]:
    """Debaters give their ``answers`` from round ``last`` on, and another one in each round before."""

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        if purpose.stage == "summarize":
            return "The answer is [Lake Baikal]."
        place = int(purpose.agent.split()[-1]) - 1
        answer = answers[place % 3] if purpose.round >= last else f"guess {purpose.round}"
        return f"{purpose.agent} in round {purpose.round}: the answer is [{answer}]."

    return reply


@pytest.mark.parametrize(("last", "rounds", "reason"), [(1, 2, "stability"), (2, 3, "stability"), (3, 3, "rounds")])
def test_a_question_takes_p_times_r_calls_and_one(pool: KnowledgePool, last: int, rounds: int, reason: str) -> None:
    transcript, model = play("per-document", changing_until(last), pool=pool)
    assert (len(transcript.rounds), model.calls) == (rounds, 3 * rounds + 1)
    assert (transcript.stop_reason, transcript.final.by, transcript.answer) == (reason, "summarizer", "Lake Baikal")


def test_each_debater_has_one_passage_in_every_round_and_nobody_elses(pool: KnowledgePool) -> None:
    transcript, model = play("per-document", changing_until(3), pool=pool)
    assert [turn.agent for turn in transcript.rounds[0].turns] == ["Debater 1", "Debater 2", "Debater 3"]
    for place, turn in enumerate(transcript.rounds[0].turns):
        for n in (1, 2, 3):
            (request,) = asked(model, agent=turn.agent, round=n)
            assert [text in shown(request) for text in TEXTS] == [other == place for other in range(3)]
            assert f"\nPassage {place} (" in shown(request)
        assert turn.selection is None


def test_ten_passages_have_ten_debaters() -> None:
    many = KnowledgePool(passages=tuple(passage("wiki", f"k{n}", f"Title {n}", "Text.") for n in range(10)))
    transcript, model = play("per-document", changing_until(1), pool=many)
    assert len(transcript.rounds[0].turns) == 10
    assert model.calls == 10 * 2 + 1
    assert [f"Passage {n} (Title {n}):" in shown(r) for n, r in enumerate(asked(model, round=1))] == [True] * 10


def test_without_a_passage_one_debater_answers_alone() -> None:
    transcript, model = play("per-document", changing_until(1))
    assert model.calls == 1 + 1
    assert "passage" not in shown(model.requests[0]).casefold()
    assert transcript.answer == "Lake Baikal"


def test_who_is_alone_is_told_of_no_others_and_aggregated_like_any_debate() -> None:
    one = KnowledgePool(passages=(passage("wiki", "k", "Title", "Text."),))
    transcript, model = play("per-document", changing_until(1), pool=one)
    speak, summarize = map(shown, model.requests)
    assert "You have one passage. It may be wrong" in speak
    assert "debater" not in speak
    assert "every debater read a different passage" not in summarize
    assert "You add no answer of your own" in summarize
    assert transcript.answer == "Lake Baikal"


def test_later_rounds_read_everyones_answer_of_the_round_before(pool: KnowledgePool) -> None:
    transcript, model = play("per-document", changing_until(3), pool=pool)
    names = [f"Debater {n}" for n in (1, 2, 3)]
    for entry in transcript.rounds:
        for turn in entry.turns:
            assert turn.reads == (tuple(name for name in names if name != turn.agent) if entry.n > 1 else ())
            (request,) = asked(model, agent=turn.agent, round=entry.n)
            for n in (1, 2, 3):
                assert all((f"{name} in round {n}:" in shown(request)) == (n == entry.n - 1) for name in names)


def test_the_aggregator_reads_the_last_round_and_no_passage(pool: KnowledgePool) -> None:
    _, model = play("per-document", changing_until(2), pool=pool)
    (request,) = asked(model, agent="summarizer")
    prompt = shown(request)
    assert all(f"Debater {n} in round 3:" in prompt for n in (1, 2, 3))
    assert "in round 2" not in prompt
    assert not any(text in prompt for text in TEXTS)


def test_another_wording_of_an_answer_is_no_change(pool: KnowledgePool) -> None:
    base = changing_until(1)

    def reply(request: ChatRequest) -> str:
        return (
            base(request).replace("[Lake Baikal]", "[the lake baikal]") if request.purpose.round == 2 else base(request)
        )

    assert play("per-document", reply, pool=pool)[0].stop_reason == "stability"


def test_an_unreadable_answer_is_never_stable(pool: KnowledgePool) -> None:
    base = changing_until(1)
    transcript, _ = play("per-document", lambda r: "No idea." if r.purpose.agent == "Debater 2" else base(r), pool=pool)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("rounds", 3)


def test_a_failed_turn_is_left_out_and_who_comes_back_is_no_stability(pool: KnowledgePool) -> None:
    transcript, model = play("per-document", failing(changing_until(1), agent="Debater 2", round=1), pool=pool)
    assert transcript.degraded
    assert transcript.rounds[1].turns[0].reads == ("Debater 3",)
    assert (transcript.stop_reason, len(transcript.rounds)) == ("stability", 3)
    assert model.calls == 10


def test_a_failed_aggregation_fails_the_question(pool: KnowledgePool) -> None:
    transcript, _ = play("per-document", failing(changing_until(1), stage="summarize"), pool=pool)
    assert (transcript.status, transcript.answer) == ("failed", None)


def test_more_passages_than_debaters_are_refused() -> None:
    with pytest.raises(UserError, match="a debater for each of up to 20 passages, found 10"):
        load_variant("per-document").with_settings({"knowledge.per_source": 10})
    variant = load_variant("per-document").with_settings({"knowledge.per_source": 10, "debaters": 20})
    assert len(variant.protocol.cast) == 20
