"""The map of a disagreement: positions, what stands behind them, contradictions and changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from madke.core.transcript import PoolEntry, Selection, Stance, Transcript, Turn
from madke.engine.agreement import ConflictMap, conflicts_of
from madke.tasks import get_task
from tests.scoring.hand_made import FAILED, OTHER, RIGHT, WRONG, debate

TEXTS = {
    0: "Lake Baikal\nLake Baikal is the deepest lake on Earth, at 1,642 metres.",
    1: "Lake Tanganyika\nLake Tanganyika is the deepest lake of Africa, at 1,470 metres.",
    2: "Lists\nThe deepest lakes are Lake Baikal and Lake Tanganyika.",
    3: "Rivers\nThe Amazon is a river.",
}
POOL = tuple(PoolEntry(n=n, source="web" if n == 2 else "wiki", key=str(n), title="") for n in TEXTS)


def mapped(transcript: Transcript, texts: Any = TEXTS) -> ConflictMap:
    found = conflicts_of(transcript, get_task(transcript.task), texts)
    assert found is not None
    return found


def with_turn(transcript: Transcript, n: int, agent: str, **changes: Any) -> Transcript:
    """The debate with other fields in a debater's turn of round ``n``."""

    def changed(turn: Turn) -> Turn:
        return replace(turn, **changes) if turn.agent == agent else turn

    rounds = tuple(
        replace(entry, turns=tuple(map(changed, entry.turns))) if entry.n == n else entry for entry in transcript.rounds
    )
    return replace(transcript, rounds=rounds)


def test_positions_are_the_answers_of_all_rounds_with_their_holders_and_passages() -> None:
    found = mapped(debate([WRONG, RIGHT, None], ["Baikal", RIGHT, FAILED], pool=POOL))
    first, second = found.positions
    assert (first.answer, first.final, second.answer, second.final) == (RIGHT, True, WRONG, False)
    assert first.held == {"A": (2,), "B": (1, 2)}
    assert second.held == {"A": (1,)}
    assert first.containing == (0, 2)


def test_answers_contradict_each_other_if_both_stand_in_passages() -> None:
    ((one, other),) = mapped(debate([WRONG, RIGHT, OTHER], pool=POOL)).contradictions
    assert (one.answer, other.answer) == (RIGHT, WRONG)
    assert (one.containing, other.containing) == ((0, 2), (1, 2))
    assert mapped(debate([RIGHT, RIGHT], pool=POOL)).contradictions == ()


def test_what_a_debater_had_read_stands_next_to_its_change() -> None:
    held = debate([WRONG, RIGHT, RIGHT], [RIGHT, RIGHT, RIGHT], selected=[[(1,), (), ()], [(0, 1), (), ()]], pool=POOL)
    (change,) = mapped(with_turn(held, 2, "A", reads=("B", "A"))).changes
    assert (change.change.agent, change.change.before, change.change.after) == ("A", WRONG, RIGHT)
    assert (change.read, change.passages) == (("B",), (0,))
    (alone,) = mapped(with_turn(held, 2, "A", selection=Selection(ids=(1, 3)))).changes
    assert (alone.read, alone.passages) == ((), ())


def test_quotes_of_all_rounds_are_looked_up() -> None:
    quote = 'It says "Lake Tanganyika is the deepest lake of Africa" [1]. The answer is Lake Tanganyika.'
    held = debate([WRONG, RIGHT], [RIGHT, RIGHT], selected=[[(), (0,)], [(), (0,)]], pool=POOL)
    held = with_turn(held, 1, "A", stance=Stance(text=quote, answer=WRONG), selection=None)
    found = mapped(held)
    (looked_up,) = found.positions[1].quotes
    assert (looked_up.status, looked_up.found_in) == ("found", (1,))


def test_without_passages_only_the_answers_are_known() -> None:
    found = mapped(debate([WRONG, RIGHT], pool=POOL), texts=None)
    assert [each.containing for each in found.positions] == [None, None]
    assert found.contradictions == ()


def test_silence_and_prose_have_no_map() -> None:
    silent = debate([None, None], answer=None)
    assert conflicts_of(silent, get_task(silent.task), TEXTS) is None
    prose = debate(["Baikal [0].", "Tanganyika [1]."], task="text", pool=POOL)
    assert conflicts_of(prose, get_task(prose.task), TEXTS) is None


def test_a_title_that_the_question_names_is_no_quote_unless_a_passage_is_named() -> None:
    held = debate([RIGHT, WRONG], pool=POOL, question='Which of "the deepest lakes" is first?')
    for number, quotes in (("", 0), (" [2]", 1)):
        stance = Stance(text=f'It is in "The deepest lakes"{number}. The answer is Lake Baikal.', answer=RIGHT)
        assert len(mapped(with_turn(held, 1, "A", stance=stance)).positions[0].quotes) == quotes
