"""``mad`` against Du et al.: simultaneous rounds, each reads the others' of the round before, the majority answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from tests.support.debates import asked, own_and_others, play, shown

NAMES = ["Debater 1", "Debater 2", "Debater 3"]


def holding(*answers: str) -> Callable[..., Any]:
    def reply(request: ChatRequest) -> str:
        agent, n = request.purpose.agent, request.purpose.round
        return f"{agent} in round {n}: the answer is [{answers[NAMES.index(agent)]}]."

    return reply


@pytest.mark.parametrize(("debaters", "rounds", "calls"), [(3, 2, 6), (2, 3, 6), (3, 1, 3), (1, 2, 2)])
def test_a_question_takes_n_times_r_calls_even_where_all_agree(debaters: int, rounds: int, calls: int) -> None:
    settings = {"debaters": debaters, "rounds": rounds}
    transcript, model = play("mad", holding("x", "x", "x"), settings=settings)
    assert model.calls == calls
    assert (transcript.stop_reason, len(transcript.rounds)) == ("rounds", rounds)


def test_everybody_reads_the_others_of_the_round_before_and_its_own_answer() -> None:
    transcript, model = play("mad", holding("Rome", "Oslo", "Bern"), settings={"rounds": 3})
    for entry in transcript.rounds:
        for turn in entry.turns:
            others = tuple(name for name in NAMES if name != turn.agent)
            assert turn.reads == (others if entry.n > 1 else ())
            (request,) = asked(model, agent=turn.agent, round=entry.n)
            own, theirs = own_and_others(request)
            for n in (1, 2, 3):
                before = n == entry.n - 1
                assert (f"{turn.agent} in round {n}" in own) == before
                assert all((f"{other} in round {n}" in theirs) == before for other in others)
    assert [turn.stance.stage for turn in transcript.rounds[1].turns] == ["reply"] * 3


@pytest.mark.parametrize(
    ("sources", "numbers"),
    [((), ()), (("wiki",), (0, 1)), (("google",), (0,)), (("wiki", "google"), (0, 1, 2))],
    ids=["w/o", "w wiki", "w google", "w all"],
)
def test_the_rows_with_and_without_knowledge_differ_in_the_sources_alone(
    pool: KnowledgePool, sources: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    kept = tuple(passage for passage in pool.passages if passage.source in sources)
    transcript, model = play("mad", holding("x", "x", "x"), sources=sources, pool=replace(pool, passages=kept))
    assert model.calls == 6
    assert tuple(entry.n for entry in transcript.pool) == numbers
    for request in model.requests:
        prompt = shown(request)
        assert ("Passages from a search." in prompt) == bool(sources)
        lines = [line for line in prompt.splitlines() if line.startswith("Passage ")]
        assert lines == [f"Passage {n} ({passage.title}): {passage.text}" for n, passage in enumerate(kept)]
