"""Claims and choices."""

import pytest

from madke.core.question import Question
from madke.tasks import TASKS

CLAIM = Question(id="c", question="?", task="claim")
CHOICE = Question(id="m", question="?", task="choice", choices=("red", "blue"))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("SUPPORTED.", "SUPPORTS"),
        ("refuted", "REFUTES"),
        ("NOT_ENOUGH_INFO", "NOT ENOUGH INFO"),
        ("**Not enough information**", "NOT ENOUGH INFO"),
        ("not supported", None),
        ("does not refute", None),
        ("SUPPORTS or REFUTES", None),
        ("", None),
    ],
)
def test_a_label_is_read_whatever_its_form_and_nothing_else_is(text, label):
    assert TASKS["claim"].read(text, CLAIM) == label


@pytest.mark.parametrize(
    ("text", "letter"), [("(b)", "B"), ("B) blue", "B"), ("red", "A"), ("C", None), ("a blue one", None)]
)
def test_a_letter_is_read_where_there_is_such_an_option(text, letter):
    assert TASKS["choice"].read(text, CHOICE) == letter
