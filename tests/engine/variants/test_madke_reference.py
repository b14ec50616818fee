"""``madke-reference`` against the released code of Wang et al.; what it shares with ``madke`` is tested there."""

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.engine.variant import load_variant
from tests.support.debates import asked, disagreeing_until, play, shown


def seen(request: ChatRequest) -> list[tuple[int, ...]]:
    """The stances that a prompt shows."""
    turns = [(d, n) for n in (1, 2, 3) for d in (1, 2)]
    return [(d, n) for d, n in turns if f"Debater {d} in round {n}:" in shown(request)]


def test_it_differs_from_madke_in_the_sources_and_the_later_rounds_alone() -> None:
    here, there = (load_variant(name).protocol.model_dump() for name in ("madke-reference", "madke"))
    differing = {name for name in here if here[name] != there.get(name)}
    assert differing == {"source", "per_source", "talk", "reads", "judge_asked", "marker", "examples", "structured"}
    assert here["per_source"] == {"wiki": 10, "google": 5}
    assert here["talk"] == "sequential_later"
    assert here["reads"] == {**there["reads"], "peers": "latest"}


def test_the_first_round_is_independent_and_later_ones_read_the_newest_answer(pool: KnowledgePool) -> None:
    transcript, model = play("madke-reference", disagreeing_until(9), pool=pool)
    expected: dict[tuple[int, int], list[tuple[int, int]]] = {(1, 1): [], (2, 1): []}
    expected |= {(1, n): [(1, n - 1), (2, n - 1)] for n in (2, 3)}
    expected |= {(2, n): [(2, n - 1), (1, n)] for n in (2, 3)}
    for (debater, n), stances in expected.items():
        (request,) = asked(model, agent=f"Debater {debater}", round=n, stage="speak" if n == 1 else "reply")
        assert seen(request) == stances
    assert [[turn.reads for turn in entry.turns] for entry in transcript.rounds] == [
        [(), ()],
        [("Debater 2",), ("Debater 1",)],
        [("Debater 2",), ("Debater 1",)],
    ]


def test_the_judge_is_also_asked_whether_the_answers_are_correct(pool: KnowledgePool) -> None:
    (judge,), (plain,) = (
        asked(play(name, disagreeing_until(2), pool=pool)[1], stage="judge", round=1)
        for name in ("madke-reference", "madke")
    )
    assert "correct" in judge.messages[0].content
    assert '"Verdict: [Yes]" if all answers are the same and correct' in judge.messages[1].content
    assert ["is it correct" in shown(judge), "is it correct" in shown(plain)] == [True, False]
