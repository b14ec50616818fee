"""``per-document``, after Wang et al., 2025: a debater a passage, until no answer changes; then an aggregator."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.engine.variant import load_variant
from tests.support.debates import asked, play, shown

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


def test_more_passages_than_debaters_are_refused() -> None:
    with pytest.raises(UserError, match="a debater for each of up to 20 passages, found 10"):
        load_variant("per-document").with_settings({"per_source": 10})
    variant = load_variant("per-document").with_settings({"per_source": 10, "debaters": 20})
    assert len(variant.protocol.cast) == 20
