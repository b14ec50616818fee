"""The same questions everywhere: a list of ids, or N of them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.dataset import read_ids, sample_of, with_ids
from tests.data.published import write

IDS = st.lists(st.text(max_size=8), unique=True, max_size=40)


def questions(ids: Any) -> list[Question]:
    return [Question(id=id_, question="Which?") for id_ in ids]


def draw(ids: Any, limit: Any, seed: Any) -> Any:
    return [question.id for question in sample_of(questions(ids), limit, seed)]


@given(IDS, st.integers(1, 50), st.integers(), st.randoms(use_true_random=False))
def test_a_sample_depends_on_no_order_keeps_the_files_and_grows(ids: Any, limit: Any, seed: Any, random: Any) -> None:
    drawn = draw(ids, limit, seed)
    assert len(drawn) == min(limit, len(ids))
    assert drawn == [id_ for id_ in ids if id_ in drawn]
    assert set(drawn) == set(draw(random.sample(ids, len(ids)), limit, seed))
    assert set(drawn) <= set(draw(ids, limit + 1, seed))


def test_without_a_seed_it_is_the_first_ones() -> None:
    assert draw(["c", "a", "b"], 2, None) == ["c", "a"]
    assert draw(["c", "a", "b"], None, None) == ["c", "a", "b"]
    with pytest.raises(UserError, match="a sample seed requires a limit"):
        draw(["a"], None, 1)


def test_a_list_of_ids_chooses_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", [{"id": f"q{n}", "question": f"Which, {n}?"} for n in range(5)])
    (tmp_path / "ids.txt").write_text("# mine\nq3\n\nq1\n")
    chosen = str(tmp_path / "ids.txt")
    assert [question.id for question in read_dataset(path, ids=chosen)] == ["q1", "q3"]
    assert [question.id for question in read_dataset(path, ids=chosen, limit=1)] == ["q1"]


def test_a_file_of_just_the_listed_questions_is_the_selection_whatever_their_ids(tmp_path: Path) -> None:
    two = questions(["a-1", "a-2"])
    assert with_ids(two, ["b-7", "b-9"], tmp_path) == two
    with pytest.raises(UserError, match=r"1 of 2 ids are not among the 3 questions of this file \(first: 'a-9'\)"):
        with_ids(questions(["a-1", "a-2", "a-3"]), ["a-1", "a-9"], tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [("q1\nq2\nq1\n", "ids.txt: id 'q1' occurs twice"), ("# none\n", "the file contains no id")],
)
def test_a_wrong_list_of_ids_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "ids.txt").write_text(content)
    with pytest.raises(UserError, match=said):
        read_ids(str(tmp_path / "ids.txt"))


def test_a_misspelt_name_of_a_shipped_list_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'commonmt-liang'"):
        read_ids("commonmt-lang")
