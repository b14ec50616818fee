"""The judge and the summarizer against the matcher, and how many independent votes a vote was worth."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.transcript import Transcript
from madke.report.scores import judge_notes
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.scores import scores_of
from madke.scoring.statistics import effective_votes
from tests.support.transcripts import transcript

BAIKAL = "Lake Baikal"


def judged(
    id_: str, said: list[str | None], consensus: bool, *, answer: str | None = BAIKAL, by: str = ""
) -> Transcript:
    """A debate of one round whose judge gave a verdict in words."""
    found = transcript(id_, said=said, consensus=consensus, answer=answer)
    return replace(found, final=replace(found.final, by=by or found.final.by))


@pytest.mark.parametrize(
    ("said", "consensus", "wrong"),
    [
        ([BAIKAL, "baikal"], True, {"false_same": 0}),
        ([BAIKAL, "Lake Chad"], True, {"false_same": 1}),
        ([BAIKAL, None], True, {"false_same": 1}),
        ([BAIKAL, "Lake Chad"], False, {"false_different": 0}),
        ([BAIKAL, None], False, {"false_different": 0}),
        ([BAIKAL, "baikal"], False, {"false_different": 1}),
    ],
)
def test_a_verdict_is_held_against_the_matcher(said: list[str | None], consensus: bool, wrong: dict[str, int]) -> None:
    assert DebateMeasures(judged("q", said, consensus, by="majority")).judge_values() == wrong


def test_a_verdict_without_a_call_and_a_judge_that_takes_the_answer_are_left_out() -> None:
    assert DebateMeasures(judged("q", [BAIKAL, "Lake Chad"], True, by="judge")).judge_values() == {}
    found = judged("q", [BAIKAL, "Lake Chad"], True, by="majority")
    (entry,) = found.rounds
    silent = replace(entry, verdict=replace(entry.verdict, text=""))
    assert DebateMeasures(replace(found, rounds=(silent,))).judge_values() == {}


@pytest.mark.parametrize(("answer", "new"), [(BAIKAL, 0.0), ("Lake Superior", 1.0)])
def test_a_summary_is_held_against_all_answers_of_the_debaters(answer: str, new: float) -> None:
    values = DebateMeasures(judged("q", [BAIKAL, "Lake Chad"], False, answer=answer, by="summarizer")).judge_values()
    assert values == {"false_different": 0.0, "new_summary": new}


def test_scores_and_their_notes_give_shares_with_intervals() -> None:
    debates = [
        judged("a", [BAIKAL, "Lake Chad"], True, by="summarizer"),
        judged("b", [BAIKAL, BAIKAL], True, by="summarizer"),
        judged("c", [BAIKAL, BAIKAL], False, answer="Lake Erie", by="summarizer"),
    ]
    scores = scores_of(debates)
    assert (scores.debate["false_same"].value, scores.debate["false_same"].n) == (0.5, 2)
    (note,) = judge_notes("run", scores)
    assert note.startswith("run: wrong by the task's matcher: verdicts SAME 50.0 % (95 % ")
    assert "; verdicts DIFFERENT 100.0 % (95 % " in note
    assert "; new summaries 33.3 % (95 % " in note


# Each value is computed by hand: with k questions of n votes, SSB = n sum (m_i - m)^2, MSB = SSB / (k - 1),
# MSW = SSW / (k (n - 1)), ICC = (MSB - MSW) / (MSB + (n - 1) MSW).
@pytest.mark.parametrize(
    ("votes", "value"),
    [
        ([[1, 1, 1], [0, 0, 0], [1, 1, 1]], 1.0),  # MSW = 0, ICC = 1
        ([[1, 0], [0, 1]], 2.0),  # MSB = 0, ICC = -1: clipped to n
        # m = 2/3, 1/3, 1, 0: MSB = 5/9, MSW = 1/6, ICC = 7/16, 3 / (1 + 2 * 7/16)
        ([[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]], 1.6),
        # m = 1, 1/2, 1/2, 0: MSB = 1/3, MSW = 1/4, ICC = 1/7, 2 / (1 + 1/7)
        ([[1, 1], [1, 0], [0, 1], [0, 0]], 1.75),
    ],
)
def test_effective_votes_of_small_tables(votes: list[list[float]], value: float) -> None:
    found = effective_votes(votes)
    assert found.value == pytest.approx(value)
    assert found.n == len(votes)
    assert 1 <= found.low <= found.value <= found.high <= len(votes[0])


def test_effective_votes_of_unequal_numbers_of_votes() -> None:
    # Sizes 4, 2, 2; m = 1/2, 1, 0; grand mean 1/2. SSB = 0 + 1/2 + 1/2, MSB = 1/2. SSW = 1, MSW = 1/5.
    # n0 = (8 - 24/8) / 2 = 5/2. ICC = (1/2 - 1/5) / (1/2 + 3/2 * 1/5) = 3/8. Mean n = 8/3: 8/3 / (1 + 5/3 * 3/8).
    assert effective_votes([[1, 1, 0, 0], [1, 1], [0, 0]]).value == pytest.approx((8 / 3) / (1 + 5 / 8))


@pytest.mark.parametrize("votes", [[], [[1, 0]], [[1], [0]], [[1, 1], [1, 1]], [[0, 0], [0, 0]], [[], []]])
def test_effective_votes_are_undefined_where_nothing_varies(votes: list[list[float]]) -> None:
    assert effective_votes(votes) is None


def test_only_votes_for_the_final_answer_are_counted() -> None:
    debate = transcript("q", said=[BAIKAL, "Lake Chad", None], consensus=None, answer=BAIKAL)
    voted = replace(debate, final=replace(debate.final, by="majority", rule="votes"))
    assert DebateMeasures(voted).votes == [1.0, 0.0, 0.0]
    assert DebateMeasures(debate).votes == []
    assert DebateMeasures(replace(voted, answers=())).votes == []
    other = transcript("r", said=["Lake Chad"] * 3, consensus=None, answer="Lake Chad")
    other = replace(other, final=replace(other.final, by="majority", rule="votes"))
    assert scores_of([voted, other]).votes == effective_votes([[1, 0, 0], [0, 0, 0]])


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=2, max_size=12))
def test_effective_votes_lie_between_one_and_n_whatever_the_order(votes: list[list[float]]) -> None:
    found = effective_votes(votes)
    if found is not None:
        assert 1 <= found.low <= found.high <= 3
        assert 1 <= found.value <= 3
        assert effective_votes([question[::-1] for question in votes]) == found
