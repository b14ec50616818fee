import pytest

from madke.core.question import Question
from madke.tasks import TASKS

TEXT = TASKS["text"]
LAKES = Question(id="x", question="Which lakes are deep?", task="text", answers=("Lake Baikal", "1,470 m"))


def test_the_whole_text_is_the_answer_with_its_lines_and_citations() -> None:
    assert TEXT.read("\n Baikal is deep [0].\n\nSo is **Tanganyika** [1]. ", LAKES) == (
        "Baikal is deep [0].\n\nSo is **Tanganyika** [1]."
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It is deep [Passage 2]. So is this (passages 1, 3).", "It is deep [2]. So is this [1, 3]."),
        ("[0] It is deep. [1][2] So is this.", "It is deep [0]. So is this [1][2]."),
        ("[0] says that it is deep [0].", "[0] says that it is deep [0]."),
        ("It is deep. [0] So is this. [1]", "It is deep. [0] So is this. [1]"),
        ("It was made in 1990 (passage of the strait).", "It was made in 1990 (passage of the strait)."),
        ("[0] Deep!! [1] Is it [a lake]? Yes.\n[2] So.", "Deep! [0]! Is it [1] [a lake]? Yes.\nSo [2]."),
    ],
)
def test_citations_are_written_in_one_way(text: str, read: str) -> None:
    assert TEXT.read(text, LAKES) == read


HOSTILE = {
    "spaces": "[1] a" + " " * 200_000 + "b [2] c",
    "marks": "[1]" * 60_000 + "b",
    "open": "[1] a " + "[1 " * 60_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_long_hostile_text_is_read_in_reasonable_time(text: str) -> None:
    assert TEXT.read(text, LAKES)


@pytest.mark.parametrize("text", ["", " ... ", "I do not know.", "The answer is unknown."])
def test_a_text_that_says_nothing_is_no_answer(text: str) -> None:
    assert TEXT.read(text, LAKES) is None


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The deepest lake is Lake Baikal in Siberia [0].", True),
        ("Lake Tanganyika is 1,470 m deep [1].", True),
        ("Lake Chad is shallow [2].", False),
    ],
)
def test_a_text_is_right_if_it_states_a_gold(text: str, right: bool) -> None:
    assert TEXT.accepts(text, LAKES) is right


def test_other_words_for_the_same_are_not_the_same_text() -> None:
    assert TEXT.same("Baikal  is deep.", "baikal is deep.", LAKES)
    assert not TEXT.same("Baikal is deep.", "Baikal is very deep.", LAKES)
