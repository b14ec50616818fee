"""The same N questions everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.data import read_dataset
from madke.data.sampling import ids_fingerprint, sample
from tests.data.published import write

GOLDEN = (
    ["q4", "q13", "q15", "q16"],
    ["q0", "q3", "q7", "q18"],
    "3554d2b8a1e34099053865de8576d1460b807430ec8c6b85315c9607ba93d308",
)
IDS = st.lists(st.text(max_size=8), unique=True, max_size=40)


def draw(ids, limit, seed):
    return sample(ids, limit, seed, str)


@given(IDS, st.integers(1, 50), st.integers(), st.randoms(use_true_random=False))
def test_the_order_of_the_file_changes_nothing_but_the_order(ids, limit, seed, random):
    shuffled = random.sample(ids, len(ids))
    assert set(draw(ids, limit, seed)) == set(draw(shuffled, limit, seed))
    assert ids_fingerprint(ids) == ids_fingerprint(shuffled)


@given(IDS, st.integers(1, 50), st.integers())
def test_a_sample_stands_in_the_order_of_the_file_and_grows(ids, limit, seed):
    drawn, more = draw(ids, limit, seed), draw(ids, limit + 1, seed)
    assert drawn == [id_ for id_ in ids if id_ in drawn]
    assert len(drawn) == min(limit, len(ids))
    assert set(drawn) <= set(more)


def test_the_same_on_every_machine():
    ids = [f"q{n}" for n in range(20)]
    assert draw(ids, 4, 0) == GOLDEN[0]
    assert draw(ids, 4, 1) == GOLDEN[1]
    assert ids_fingerprint(["b", "a"]) == GOLDEN[2]


def test_without_a_seed_it_is_the_first_ones():
    assert draw(["c", "a", "b"], 2, None) == ["c", "a"]
    assert draw(["c", "a", "b"], None, None) == ["c", "a", "b"]
    with pytest.raises(UserError, match="a sample seed needs a limit"):
        draw(["a"], None, 1)


def test_files_are_sampled_by_id(tmp_path):
    lines = [{"id": f"q{n}", "question": f"Which, {n}?"} for n in range(20)]
    path = write(tmp_path / "q.jsonl", lines)
    assert [question.id for question in read_dataset(path, limit=4, sample_seed=0)] == GOLDEN[0]
    assert [question.id for question in read_dataset(path, limit=2)] == ["q0", "q1"]
